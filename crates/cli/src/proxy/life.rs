//! Runs the proxy process, from reading the configuration to the exit.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use fulmar_gateway::{Background, ForegroundParent, Gateway, Master, MasterLink, Notify, Options};
use fulmar_haproxy::{Config, ConfigSource, Environment, ThisMachine};
use fulmar_host::LoopOptions;
use fulmar_sys as sys;
use signal_hook::consts::{SIGTERM, SIGUSR1};

use super::arguments::ProxyArguments;
use super::messages::{self, Messages};
use crate::files::InputFile;
use crate::loops;

/// Exit with status 1. The messages are printed already.
struct Failed;

pub(super) fn begin(
    arguments: ProxyArguments,
    loop_options: LoopOptions,
    given: Vec<OsString>,
) -> ExitCode {
    match run(arguments, loop_options, given) {
        Ok(status) => ExitCode::from(status),
        Err(Failed) => ExitCode::FAILURE,
    }
}

fn run(
    arguments: ProxyArguments,
    loop_options: LoopOptions,
    given: Vec<OsString>,
) -> Result<u8, Failed> {
    let messages = Messages { quiet: arguments.is_quiet() };
    let failed = |text: String| {
        messages.alert(&text);
        Failed
    };
    let start = std::env::current_dir()
        .map_err(|error| failed(format!("cannot get the current directory: {error}")))?;
    if let Some(folder) = &arguments.folder {
        std::env::set_current_dir(folder).map_err(|error| {
            failed(format!("Could not change to directory {} : {error}", folder.display()))
        })?;
    }
    let link = MasterLink::from_environment()
        .map_err(|error| failed(format!("cannot reach the master: {error}")))?;
    // The master has already printed all messages about the configuration of its first worker.
    let is_first_worker = link.as_ref().is_some_and(|link| link.before.is_none());
    let config = read(&arguments, Messages { quiet: messages.quiet || is_first_worker })?;
    if !is_first_worker {
        arguments.ignored.iter().for_each(|what| messages.warning(what));
    }
    if arguments.checks_only {
        let wrong = fulmar_gateway::check(&config);
        if !wrong.is_empty() {
            wrong.iter().for_each(|error| messages.alert(&error.to_string()));
            messages.alert("config : Fatal errors found in configuration.");
            return Err(Failed);
        }
        if !messages.quiet {
            println!("Configuration file is valid");
        }
        return Ok(0);
    }
    let is_master = arguments.master || config.global.master_worker;
    let is_daemon = !arguments.foreground && (arguments.daemon || config.global.daemon);
    if is_master && arguments.files.iter().any(|path| path.as_os_str() == "-") {
        let why = "master-worker mode reads the configuration again, so it cannot be standard \
                   input (-f -): use a file";
        return Err(failed(why.to_owned()));
    }
    if let Some(link) = link {
        let notice = StartNotice::Worker { link, is_daemon };
        return serve(arguments, loop_options, config, notice, messages);
    }
    let mut waiting = None;
    if is_daemon {
        match fulmar_gateway::background() {
            Ok(Background::Front(status)) => return Ok(status),
            Ok(Background::Back(front)) => waiting = Some(front),
            Err(error) => return Err(failed(format!("cannot run as a daemon: {error}"))),
        }
    }
    let pidfile = arguments.pidfile.as_ref().or(config.global.pidfile.as_ref());
    if let Some(path) = pidfile.filter(|_| is_master || is_daemon) {
        fulmar_gateway::write_pidfile(path).map_err(|error| {
            failed(format!("Cannot create pidfile {} : {error}", path.display()))
        })?;
    }
    if !is_master {
        let notice = StartNotice::Alone(waiting);
        return serve(arguments, loop_options, config, notice, messages);
    }
    let master = master(&arguments, &config, given, start, waiting).map_err(failed)?;
    master.run().map_err(|error| failed(format!("master failed: {error}")))
}

/// Reads the configuration and prints its messages.
fn read(arguments: &ProxyArguments, messages: Messages) -> Result<Config, Failed> {
    let mut sources = Vec::new();
    for path in &arguments.files {
        sources.push(match InputFile::from(path.clone().into_os_string()) {
            InputFile::Path(path) => ConfigSource::Path(path),
            file @ InputFile::Stdin => ConfigSource::Text {
                name: "standard input".to_owned(),
                text: stdin(&file, messages)?,
            },
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

/// `-f -`: the configuration from standard input.
fn stdin(file: &InputFile, messages: Messages) -> Result<String, Failed> {
    let text = file.read().ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| {
        messages.alert("standard input: not readable as UTF-8");
        Failed
    })
}

/// `-N`: sets `maxconn` of every frontend without it.
fn limit_frontends(config: &mut Config, most: usize) {
    for frontend in &mut config.frontends {
        Arc::make_mut(frontend).connections_max.get_or_insert(most);
    }
}

/// `-dV`: sets `verify none` for every server.
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
    arguments: &ProxyArguments,
    config: &Config,
    given: Vec<OsString>,
    folder: PathBuf,
    waiting: Option<ForegroundParent>,
) -> Result<Master, String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let arguments_of_worker = std::iter::once(OsString::from("proxy")).chain(given).collect();
    Ok(Master {
        program,
        arguments: arguments_of_worker,
        folder,
        outlives_workers: config.global.outlives_workers,
        global: Box::new(config.global.clone()),
        notify: Notify::from_environment().filter(|_| arguments.notifies),
        waiting,
        report: if arguments.is_quiet() { |_, _| {} } else { messages::print },
    })
}

/// The process to notify at the start.
enum StartNotice {
    /// The foreground process of a daemon, if any.
    Alone(Option<ForegroundParent>),
    /// A master.
    Worker { link: MasterLink, is_daemon: bool },
}

impl StartNotice {
    /// The previous worker. Its listeners are taken over.
    fn before(&self) -> Option<u32> {
        match self {
            Self::Alone(_) => None,
            Self::Worker { link, .. } => link.before,
        }
    }

    /// Notifies that this process serves.
    fn send(self) -> io::Result<()> {
        match self {
            Self::Alone(None) => Ok(()),
            Self::Alone(Some(waiting)) => waiting.dismiss(),
            // If the master is gone, this process could never be stopped, so it exits.
            Self::Worker { link, is_daemon } => {
                link.ready(|| std::process::exit(1))?;
                if is_daemon { fulmar_gateway::leave_terminal() } else { Ok(()) }
            }
        }
    }
}

/// Runs a worker, or the only process.
fn serve(
    arguments: ProxyArguments,
    loop_options: LoopOptions,
    config: Config,
    notice: StartNotice,
    messages: Messages,
) -> Result<u8, Failed> {
    let failed = |error: fulmar_gateway::Error| {
        messages.alert(&error.to_string());
        Failed
    };
    let pids = match notice.before() {
        Some(before) => vec![before],
        None => arguments.previous.pids.clone(),
    };
    let options = Options {
        connections_max: arguments.connections_max,
        loop_options,
        predecessors: fulmar_gateway::predecessors(&pids, arguments.socket.as_deref()),
    };
    let global = config.global.clone();
    let gateway = Gateway::open(config, options).map_err(failed)?;
    fulmar_gateway::drop_privileges(&global).map_err(failed)?;
    gateway.warnings().for_each(|warning| messages.warning(warning));
    let live = Arc::clone(gateway.live());
    gateway.watch_signals(move |line| messages.warning(line)).map_err(failed)?;
    let running = gateway.start().map_err(failed)?;
    if let Some(text) = loops::missing_ring(running.drivers()) {
        messages.warning(&text);
    }
    let signal = if arguments.previous.at_once { SIGTERM } else { SIGUSR1 };
    fulmar_gateway::signal_all(&pids, signal);
    if let Err(error) = notice.send() {
        messages.warning(&format!("cannot notify the starting process: {error}"));
    }
    sys::trim_memory(); // memory used only at start: the text of the configuration
    sys::release_code(); // and the code of its parser
    running.join().map_err(|error| failed(error.into()))?;
    fulmar_gateway::report_totals(&live, |line| messages.warning(line));
    Ok(0)
}
