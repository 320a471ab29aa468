//! Behaviour of libcurl, against data files that libcurl itself produced.

mod code;
mod date;
mod escape;
mod strings;
mod url;
