//! Behaviour of libcurl, against data files that libcurl itself produced.

mod code;
mod escape;
mod strings;
mod url;
