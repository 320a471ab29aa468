//! Runs a program that ends with its parent: `PARENT PROGRAM ARGUMENTS...`.
//!
//! A run that is killed cannot end its processes; the kernel does (`PR_SET_PDEATHSIG` of
//! `prctl(2)`, which stays in force across `execve(2)`).

use std::error::Error;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::Command;

use fulmar_sys as sys;

/// Becomes the program; the result is why it did not.
pub(crate) fn run(words: &[String]) -> Box<dyn Error> {
    let [parent, program, arguments @ ..] = words else {
        return "a program is missing".into();
    };
    if let Err(error) = sys::end_with_parent() {
        return error.into();
    }
    // It may have ended before.
    if parent.parse() != Ok(parent_id()) {
        return "the parent process has ended".into();
    }
    let error = Command::new(program).args(arguments).exec();
    format!("{program}: {error}").into()
}
