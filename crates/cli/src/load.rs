use crate::output::Failure;
use clap::Args;
use std::process::ExitCode;
/// Load a server.
#[derive(Debug, Args)]
pub(crate) struct Arguments {}
pub(crate) fn run(_: Arguments) -> Result<ExitCode, Failure> {
    Ok(ExitCode::SUCCESS)
}
