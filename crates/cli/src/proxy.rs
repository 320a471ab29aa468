//! `fulmar proxy`: the command line, messages and statuses of HAProxy.

mod arguments;
mod life;
mod messages;

use std::ffi::OsString;
use std::process::ExitCode;

use arguments::{Arguments, Request};
use messages::Messages;

/// What follows `fulmar proxy`, if that is what was asked for. Clap's flags have two dashes or one
/// letter, and these have not: so this tool reads its own. `fulmar help proxy` is `fulmar proxy -h`.
pub(crate) fn asked() -> Option<Vec<OsString>> {
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    if words == ["help", "proxy"] {
        return Some(vec!["-h".into()]);
    }
    (words.first()? == "proxy").then(|| words.split_off(1))
}

/// For the list of tools in `fulmar --help`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Listed {}

pub(crate) fn run(given: Vec<OsString>) -> ExitCode {
    match Arguments::parse(&given) {
        Ok(Request::Help) => say(&arguments::help()),
        Ok(Request::Version { long }) => say(&messages::version(long)),
        Ok(Request::Run(arguments)) => life::begin(*arguments, given),
        Err(why) => {
            Messages::default().alert(&why);
            eprint!("{}", arguments::help());
            ExitCode::FAILURE
        }
    }
}

fn say(text: &str) -> ExitCode {
    match crate::output::say(text) {
        Ok(()) | Err(crate::output::Failure::ReaderGone) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
