//! `fulmar bench`: starts the program `fulmar-bench`, which is not part of this binary.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

use crate::output::ToolFailure;

/// Benchmark fulmar and its peers (runs the program fulmar-bench).
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct BenchArguments {
    /// Arguments of fulmar-bench; `fulmar bench --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Replaces this process by `fulmar-bench`.
pub(crate) fn run(arguments: &BenchArguments) -> Result<ExitCode, ToolFailure> {
    let program = find().ok_or_else(|| ToolFailure::Message(MISSING.to_owned()))?;
    let error = Command::new(&program).args(&arguments.words).exec();
    Err(ToolFailure::new(program.display(), error))
}

/// Next to this binary, or on PATH.
fn find() -> Option<PathBuf> {
    let here = std::env::current_exe().ok();
    let beside = here.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = beside.into_iter().chain(std::env::split_paths(&path));
    directories.map(|directory| directory.join(PROGRAM)).find(|file| file.is_file())
}

const PROGRAM: &str = "fulmar-bench";
const MISSING: &str = "the program 'fulmar-bench' is neither next to this binary nor on PATH; \
    build it with 'cargo build --release -p fulmar-bench'";
