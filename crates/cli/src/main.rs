//! `fulmar`: one binary, a tool each subcommand.
#![forbid(unsafe_code)]

mod audit;
mod bench;
mod descriptors;
mod durations;
mod fields;
mod files;
mod get;
mod load;
mod loops;
mod numbers;
mod output;
mod proxy;
mod serve;
mod signals;
mod sizes;
mod table;
mod terminal_line;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::Failure;

/// An engine that moves HTTP with hardly a system call, and counts every one.
#[derive(Debug, Parser)]
#[command(name = "fulmar", version = env!("FULMAR_VERSION"), after_help = EXIT_STATUS)]
struct Arguments {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// Fetch many URLs into files.
    Get(get::Arguments),
    /// Serve the files of a directory.
    Serve(serve::Arguments),
    /// Load a server, and say what limits it.
    Load(load::Arguments),
    /// Count the system calls of a program.
    Audit(Box<audit::Arguments>),
    /// Balance load as a haproxy.cfg says.
    Proxy(proxy::Listed),
    /// Measure fulmar beside its peers (runs the program fulmar-bench).
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    if let Err(error) = signals::survive_file_limit() {
        output::complain(&format!("cannot handle SIGXFSZ: {error}"));
        return ExitCode::FAILURE;
    }
    if let Some(given) = proxy::asked() {
        return proxy::run(given);
    }
    let result = match Arguments::parse().tool {
        Tool::Get(arguments) => get::run(arguments),
        Tool::Serve(arguments) => serve::run(arguments),
        Tool::Load(arguments) => load::run(arguments),
        Tool::Audit(arguments) => audit::run(&arguments),
        Tool::Bench(arguments) => bench::run(&arguments),
        Tool::Proxy(proxy::Listed {}) => return proxy::run(Vec::new()), // seen before
    };
    match result {
        Ok(status) => status,
        Err(Failure::ReaderGone) => ExitCode::SUCCESS, // `| head` has seen enough
        Err(Failure::Message(message)) => {
            output::complain(&message);
            ExitCode::FAILURE
        }
        Err(Failure::Usage(message)) => {
            output::complain(&message);
            ExitCode::from(USAGE)
        }
    }
}

/// As clap ends.
const USAGE: u8 = 2;
const EXIT_STATUS: &str = "\
Exit status:
  0    done
  1    it could not be done; a message says why
  2    the command line is wrong
  130  interrupted; what was done is reported
audit and proxy have others, too: see their help.";
