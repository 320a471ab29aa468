//! TLS with other people's implementations: OpenSSL, curl, nginx.
#![forbid(unsafe_code)]
