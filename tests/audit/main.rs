//! `fulmar audit`: its counters against strace's, what they follow and what they lose, and the tool
//! as people and builds meet it.
#![forbid(unsafe_code)]

mod agreement;
mod cli;
mod clock;
mod faults;
mod followed;
mod lost;
mod object;
mod phases;
mod refused;
mod ring;
mod timeline;
