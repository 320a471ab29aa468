//! The measurements that fulmar was built on, made again: fulmar beside its peers, on this machine.
//!
//! Five documents of others say what moving HTTP costs: tables of system calls and microseconds.
//! Each experiment here does the work of one of them again, with fulmar and with the peers that are
//! installed, in turn, and fills a [`Report`](report::Report): tables with the document's own
//! figures beside the new ones, series for plots, and for every row whether fulmar is ahead.
//!
//! Whatever is measured is a process of its own, on a core of its own. fulmar's are this program
//! again ([`worker`]); peers are installed programs, or small ones in C that the machine's `cc`
//! makes of sources in this crate. All of them end with the run, however it ends.
//!
//! The modules stand in reading order.
#![forbid(unsafe_code)]

mod error;

pub mod report;

mod lab;
mod machine;
mod runs;
pub mod worker;

pub use error::Error;
pub use lab::{Options, Stopper};
pub use runs::{EXPERIMENTS, Experiment, choose, run};
