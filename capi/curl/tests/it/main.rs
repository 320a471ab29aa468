//! Behaviour of libcurl, against data files that libcurl itself produced.

mod code;
mod date;
mod escape;
mod random_input;
mod strings;
mod url;
