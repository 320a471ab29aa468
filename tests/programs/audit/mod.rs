//! `fulmar audit`: its counters against strace, the processes they follow, lost events, and the
//! command line.

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
