//! The life of the process: from the configuration to the end.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use fulmar_gateway::{Background, Gateway, Link, Master, Notify, Options, Waiting};
use fulmar_haproxy::{Config, Environment, Source, ThisMachine};
use fulmar_host::LoopOptions;
use fulmar_sys as sys;
use signal_hook::consts::{SIGTERM, SIGUSR1};

use super::arguments::Arguments;
use super::messages::{self, Messages};
use crate::files::InputFile;
use crate::loops;

/// Why it ends with status 1: what is to be said has been said.
struct Failed;

pub(super) fn begin(arguments: Arguments, given: Vec<OsString>) -> ExitCode {
    match run(arguments, given) {
        Ok(status) => ExitCode::from(status),
        Err(Failed) => ExitCode::FAILURE,
    }
}

fn run(arguments: Arguments, given: Vec<OsString>) -> Result<u8, Failed> {
    let messages = Messages { quiet: arguments.quiet && !arguments.verbose };
    let failed = |text: String| {
        messages.alert(&text);
        Failed
    };
    let start =
        std::env::current_dir().map_err(|error| failed(format!("no directory: {error}")))?;
    if let Some(folder) = &arguments.folder {
        std::env::set_current_dir(folder).map_err(|error| {
            failed(format!("Could not change to directory {} : {error}", folder.display()))
        })?;
    }
    let link = Link::from_environment().map_err(|error| failed(format!("no master: {error}")))?;
    // A first worker reads what its master has just read, and said everything about.
    let heard = link.as_ref().is_some_and(|link| link.before.is_none());
    let config = read(&arguments, Messages { quiet: messages.quiet || heard })?;
    if !heard {
        arguments.ignored.iter().for_each(|what| messages.warning(what));
    }
    if arguments.checks_only {
        let wrong = fulmar_gateway::check(&config);
        if !wrong.is_empty() {
            wrong.iter().for_each(|error| messages.alert(&error.to_string()));
            messages.alert("config : Fatal errors found in configuration.");
            return Err(Failed);
        }
        if !arguments.quiet {
            println!("Configuration file is valid");
        }
        return Ok(0);
    }
    let is_master = arguments.master || config.global.master_worker;
    let is_daemon = !arguments.foreground && (arguments.daemon || config.global.daemon);
    if is_master && arguments.files.iter().any(|path| path.as_os_str() == "-") {
        let why = "a worker and a reload read the configuration again, which standard input (-f -) \
                   cannot give: use a file";
        return Err(failed(why.to_owned()));
    }
    if let Some(link) = link {
        return serve(arguments, config, Begun::Worker { link, is_daemon }, messages);
    }
    let mut waiting = None;
    if is_daemon {
        match fulmar_gateway::background() {
            Ok(Background::Front(status)) => return Ok(status),
            Ok(Background::Back(front)) => waiting = Some(front),
            Err(error) => return Err(failed(format!("cannot go into the background: {error}"))),
        }
    }
    let pidfile = arguments.pidfile.as_ref().or(config.global.pidfile.as_ref());
    if let Some(path) = pidfile.filter(|_| is_master || is_daemon) {
        fulmar_gateway::write_pidfile(path).map_err(|error| {
            failed(format!("Cannot create pidfile {} : {error}", path.display()))
        })?;
    }
    if !is_master {
        return serve(arguments, config, Begun::Alone(waiting), messages);
    }
    let mut master = master(&arguments, given, start, waiting).map_err(failed)?;
    master.outlives_workers = config.global.outlives_workers;
    master.run().map_err(|error| failed(format!("cannot look after a worker: {error}")))
}

/// The configuration, after everything was said about it.
fn read(arguments: &Arguments, messages: Messages) -> Result<Config, Failed> {
    let mut sources = Vec::new();
    if arguments.files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        messages.alert("standard input (-) is named twice: -f and -f; use a file for one of them");
        return Err(Failed);
    }
    for path in &arguments.files {
        sources.push(match InputFile::from(path.clone().into_os_string()) {
            InputFile::Path(path) => Source::Path(path),
            file @ InputFile::Stdin => {
                Source::Text { name: "standard input".to_owned(), text: stdin(&file, messages)? }
            }
        });
    }
    let options = fulmar_haproxy::Options { lenient: arguments.lenient };
    let environment = Environment::of_process();
    let loaded = match fulmar_haproxy::load(&sources, &environment, &ThisMachine, &options) {
        Ok(loaded) => loaded,
        Err(found) => {
            messages.report(&found.0);
            messages.alert("config : Fatal errors found in configuration.");
            return Err(Failed);
        }
    };
    messages.report(&loaded.warnings);
    if arguments.fails_on_warnings && !loaded.warnings.is_empty() {
        messages.alert("config : Some warnings were found and 'zero-warning' is set. Aborting.");
        return Err(Failed);
    }
    let mut config = loaded.config;
    config.global.no_splice |= arguments.copies;
    if arguments.trusts_servers {
        trust_servers(&mut config);
    }
    if let Some(most) = arguments.frontend_connections_max {
        limit_frontends(&mut config, most);
    }
    Ok(config)
}

/// `-f -`: the configuration comes from standard input.
fn stdin(file: &InputFile, messages: Messages) -> Result<String, Failed> {
    let text = file.read().ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| {
        messages.alert("standard input: cannot be read as text");
        Failed
    })
}

/// `-N`: as if every frontend that says nothing said `maxconn`.
fn limit_frontends(config: &mut Config, most: usize) {
    for frontend in &mut config.frontends {
        Arc::make_mut(frontend).connections_max.get_or_insert(most);
    }
}

/// `-dV`: as if every server said `verify none`.
fn trust_servers(config: &mut Config) {
    for backend in &mut config.backends {
        for server in &mut Arc::make_mut(backend).servers {
            if let Some(tls) = &mut Arc::make_mut(server).tls {
                tls.verify = false;
            }
        }
    }
}

fn master(
    arguments: &Arguments,
    given: Vec<OsString>,
    folder: PathBuf,
    waiting: Option<Waiting>,
) -> Result<Master, String> {
    let program = std::env::current_exe().map_err(|error| format!("no program: {error}"))?;
    let arguments_of_worker = std::iter::once(OsString::from("proxy")).chain(given).collect();
    Ok(Master {
        program,
        arguments: arguments_of_worker,
        folder,
        outlives_workers: false,
        notify: Notify::from_environment().filter(|_| arguments.notifies),
        waiting,
        tell: if arguments.quiet { |_, _| {} } else { messages::tell },
    })
}

/// Who is to know that it serves.
enum Begun {
    /// Whoever waits in the foreground, if somebody does.
    Alone(Option<Waiting>),
    /// A master.
    Worker { link: Link, is_daemon: bool },
}

impl Begun {
    /// The worker before, to take over from.
    fn before(&self) -> Option<u32> {
        match self {
            Self::Alone(_) => None,
            Self::Worker { link, .. } => link.before,
        }
    }

    /// It serves.
    fn tell(self) -> io::Result<()> {
        match self {
            Self::Alone(None) => Ok(()),
            Self::Alone(Some(waiting)) => waiting.dismiss(),
            // Its master is gone: nobody would ever tell this process to end.
            Self::Worker { link, is_daemon } => {
                link.ready(|| std::process::exit(1))?;
                if is_daemon { fulmar_gateway::leave_terminal() } else { Ok(()) }
            }
        }
    }
}

/// The process that works.
fn serve(
    arguments: Arguments,
    config: Config,
    begun: Begun,
    messages: Messages,
) -> Result<u8, Failed> {
    let failed = |error: fulmar_gateway::Error| {
        messages.alert(&error.to_string());
        Failed
    };
    let pids = match begun.before() {
        Some(before) => vec![before],
        None => arguments.previous.pids.clone(),
    };
    let options = Options {
        connections_max: arguments.connections_max,
        loop_options: LoopOptions::chosen(arguments.driver, arguments.spin).map_err(|wrong| {
            messages.alert(&wrong);
            Failed
        })?,
        predecessors: fulmar_gateway::predecessors(&pids, arguments.socket.as_deref()),
    };
    let global = config.global.clone();
    let gateway = Gateway::open(config, options).map_err(failed)?;
    fulmar_gateway::drop_privileges(&global).map_err(failed)?;
    gateway.warnings().for_each(|warning| messages.warning(warning));
    let live = Arc::clone(gateway.live());
    gateway.watch_signals(move |line| messages.warning(line)).map_err(failed)?;
    let running = gateway.start().map_err(failed)?;
    if let Some(text) = loops::absence(running.driven()) {
        messages.warning(&text);
    }
    let signal = if arguments.previous.at_once { SIGTERM } else { SIGUSR1 };
    fulmar_gateway::signal_all(&pids, signal);
    if let Err(error) = begun.tell() {
        messages.warning(&format!("whoever started this process cannot be told: {error}"));
    }
    sys::trim_memory(); // what only the start needed: the text of the configuration,
    sys::release_code(); // and what has read it
    running.join().map_err(|error| failed(error.into()))?;
    fulmar_gateway::farewell(&live, |line| messages.warning(line));
    Ok(0)
}
