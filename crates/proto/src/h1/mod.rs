//! HTTP/1.1 and 1.0 as one machine for both roles (RFC 9112).
