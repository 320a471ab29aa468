//! `fulmar`: one binary with a subcommand for each tool.
#![forbid(unsafe_code)]

mod audit;
mod bench;
mod descriptors;
mod durations;
mod fields;
mod files;
mod get;
mod ledger_table;
mod load;
mod loops;
mod numbers;
mod output;
mod proxy;
mod serve;
mod signals;
mod sizes;
mod terminal_line;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::ToolFailure;

/// Fast HTTP tools built on one engine, which counts every system call it makes.
#[derive(Debug, Parser)]
#[command(name = "fulmar", version = env!("FULMAR_VERSION"), after_help = EXIT_STATUS,
          propagate_version = true)]
struct CliArguments {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// Fetch many URLs into files.
    Get(get::GetArguments),
    /// Serve files over HTTP.
    Serve(serve::ServeArguments),
    /// Generate HTTP load and report what limits it.
    Load(load::LoadArguments),
    /// Count the system calls of any program.
    Audit(Box<audit::AuditArguments>),
    /// Run an HAProxy-compatible load balancer from a haproxy.cfg.
    Proxy(proxy::ProxyEntry),
    /// Benchmark fulmar and its peers (runs the program fulmar-bench).
    Bench(bench::BenchArguments),
}

fn main() -> ExitCode {
    if let Err(error) = signals::survive_file_limit() {
        output::warn(&format!("cannot handle SIGXFSZ: {error}"));
        return ExitCode::FAILURE;
    }
    if let Some(given) = proxy::arguments_of_proxy() {
        return proxy::run(given);
    }
    let result = match CliArguments::parse().tool {
        Tool::Get(arguments) => get::run(arguments),
        Tool::Serve(arguments) => serve::run(arguments),
        Tool::Load(arguments) => load::run(arguments),
        Tool::Audit(arguments) => audit::run(&arguments),
        Tool::Bench(arguments) => bench::run(&arguments),
        Tool::Proxy(proxy::ProxyEntry {}) => return proxy::run(Vec::new()), // handled above
    };
    match result {
        Ok(status) => status,
        Err(ToolFailure::ReaderGone) => ExitCode::SUCCESS, // for example `| head`
        Err(ToolFailure::Message(message)) => {
            output::warn(&message);
            ExitCode::FAILURE
        }
        Err(ToolFailure::Usage(message)) => {
            output::warn(&message);
            ExitCode::from(USAGE)
        }
    }
}

/// The status for an invalid command line, as that of clap.
pub(crate) const USAGE: u8 = 2;
const EXIT_STATUS: &str = "\
Exit status:
  0    success
  1    failure, with a message on standard error
  2    invalid command line, or an input that it names cannot be used (file, directory, variable)
  130  interrupted; the results so far are reported
audit and proxy have further statuses: see their help.";
