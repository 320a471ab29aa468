//! The counters of `fulmar audit`: the same counts as strace's, in the kernel and by tracing, and
//! nobody is lost on the way.
#![forbid(unsafe_code)]

mod agreement;
mod cli;
mod clock;
mod followed;
mod lost;
mod object;
mod refused;
