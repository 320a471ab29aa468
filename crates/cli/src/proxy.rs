//! `fulmar proxy`: the command line, messages and statuses of HAProxy.

mod arguments;
mod life;
mod messages;

use std::ffi::OsString;
use std::process::ExitCode;

use fulmar_host::LoopOptions;

use arguments::{ProxyArguments, ProxyRequest};
use messages::Messages;

/// The arguments after `fulmar proxy`, if that is the command. HAProxy's flags such as `-sf` do not
/// fit clap, so this tool has its own parser. `fulmar help proxy` is `fulmar proxy -h`.
pub(crate) fn arguments_of_proxy() -> Option<Vec<OsString>> {
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    if words == ["help", "proxy"] {
        return Some(vec!["-h".into()]);
    }
    (words.first()? == "proxy").then(|| words.split_off(1))
}

/// The entry in the list of `fulmar --help`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ProxyEntry {}

pub(crate) fn run(given: Vec<OsString>) -> ExitCode {
    match ProxyArguments::parse(&given) {
        Ok(ProxyRequest::Help) => print(&arguments::help()),
        Ok(ProxyRequest::Version { long }) => print(&messages::version(long)),
        Ok(ProxyRequest::Run(arguments)) => {
            match LoopOptions::chosen(arguments.driver, arguments.spin) {
                Ok(loop_options) => life::begin(*arguments, loop_options, given),
                Err(why) => refuse(&why),
            }
        }
        Err(why) => refuse(&why),
    }
}

/// Reports an invalid command line.
fn refuse(why: &str) -> ExitCode {
    Messages::default().alert(&format!("{why} (try 'fulmar proxy --help')"));
    ExitCode::from(crate::USAGE)
}

fn print(text: &str) -> ExitCode {
    match crate::output::print_stdout(text) {
        Ok(()) | Err(crate::output::ToolFailure::ReaderGone) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
