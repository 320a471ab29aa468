//! The command line of `fulmar proxy`: HAProxy's (management guide, §3), with a few additional
//! flags.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::str::FromStr;

use fulmar_haproxy::ConfigLeniency;
use fulmar_host::{Driver, Spin};

/// The parsed command line.
#[derive(Debug)]
pub(super) enum ProxyRequest {
    Help,
    Version { long: bool },
    Run(Box<ProxyArguments>),
}

/// The options of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProxyArguments {
    /// `-f`, and all words after `--`.
    pub(super) files: Vec<PathBuf>,
    /// `-c`.
    pub(super) checks_only: bool,
    /// `-C`.
    pub(super) folder: Option<PathBuf>,
    /// `-D`.
    pub(super) daemon: bool,
    /// `-db`, `-d`: stay in the foreground, overriding other options.
    pub(super) foreground: bool,
    /// `-W`.
    pub(super) master: bool,
    /// `-Ws`: notify the service manager, in the foreground.
    pub(super) notifies: bool,
    /// `-p`.
    pub(super) pidfile: Option<PathBuf>,
    /// `-q`.
    pub(super) quiet: bool,
    /// `-V`: overrides `-q`, and `quiet` in the configuration.
    pub(super) verbose: bool,
    /// `-n`.
    pub(super) connections_max: Option<usize>,
    /// `-N`: for frontends without `maxconn`.
    pub(super) frontend_connections_max: Option<usize>,
    /// `-sf` or `-st`.
    pub(super) previous: PreviousProcesses,
    /// `-x`.
    pub(super) socket: Option<PathBuf>,
    /// `-dS`.
    pub(super) copies: bool,
    /// `-dV`.
    pub(super) trusts_servers: bool,
    /// `-dW`.
    pub(super) fails_on_warnings: bool,
    /// `--lenient`, `-dr`.
    pub(super) lenient: ConfigLeniency,
    /// `--driver`.
    pub(super) driver: Option<Driver>,
    /// `--spin`.
    pub(super) spin: Option<Spin>,
    /// Unsupported options with the reason. They cause warnings, because a script may rely on them.
    pub(super) ignored: Vec<String>,
}

/// Processes that this one replaces.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PreviousProcesses {
    pub(super) pids: Vec<u32>,
    /// `-st`: they exit at once.
    pub(super) at_once: bool,
}

impl ProxyArguments {
    /// Parses the words.
    ///
    /// # Errors
    /// A message about the first invalid word.
    pub(super) fn parse(given: &[OsString]) -> Result<ProxyRequest, String> {
        let mut words = given.iter().map(OsString::as_os_str).peekable();
        let mut these = Self::default();
        while let Some(word) = words.next() {
            let Some(flag) = word.to_str().filter(|text| text.starts_with('-')) else {
                return Err(format!(
                    "{}: unexpected argument; configuration files need -f or --",
                    word.display()
                ));
            };
            let mut value = |what: &str| words.next().ok_or_else(|| format!("{flag} needs {what}"));
            match flag {
                "-h" | "--help" => return Ok(ProxyRequest::Help),
                "-v" | "--version" => return Ok(ProxyRequest::Version { long: false }),
                "-vv" => return Ok(ProxyRequest::Version { long: true }),
                "--" => {
                    these.files.extend(words.by_ref().map(PathBuf::from));
                }
                "-f" => these.files.push(value("a file or a directory")?.into()),
                "-C" => these.folder = Some(value("a directory")?.into()),
                "-p" => these.pidfile = Some(value("a file")?.into()),
                "-x" => these.socket = Some(value("a socket")?.into()),
                "-n" => these.connections_max = Some(number(flag, value("a number")?)?),
                "--driver" => these.driver = Some(choice(flag, value("a driver")?)?),
                "--spin" => these.spin = Some(choice(flag, value("a time")?)?),
                "--lenient" => {
                    let list = text(flag, value("a list")?)?;
                    let lenient = ConfigLeniency::parse(list);
                    these.lenient = lenient.map_err(|word| {
                        format!(
                            "--lenient: {word}: not one of keywords, \
                            sections, names, all"
                        )
                    })?;
                }
                "-sf" | "-st" => {
                    these.previous.at_once = flag == "-st";
                    while let Some(pid) = words.next_if(|word| pid(word).is_some()).and_then(pid) {
                        these.previous.pids.push(pid);
                    }
                }
                "-N" => these.frontend_connections_max = Some(number(flag, value("a number")?)?),
                "-S" => {
                    let socket = value("an address")?.display();
                    let why = "the master socket is not supported";
                    these.ignored.push(format!("-S {socket}: {why}"));
                }
                "-m" => {
                    let most = number(flag, value("a number")?)?;
                    let why = "memory limits are not supported; set one in the service manager";
                    these.ignored.push(format!("-m {most}: {why}"));
                }
                "-L" => {
                    value("a name")?; // the name of a peer; peers are not supported
                }
                "-cc" => {
                    return Err("-cc: not supported; use .if in the configuration".to_owned());
                }
                other => these.switch(other)?,
            }
        }
        if these.files.is_empty() {
            return Err("missing configuration: use -f FILE".to_owned());
        }
        if these.files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
            let why = "standard input (-) is used twice: -f and -f; use a file for one of them";
            return Err(why.to_owned());
        }
        Ok(ProxyRequest::Run(Box::new(these)))
    }

    /// `-q` without `-V`, which wins as in HAProxy.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet && !self.verbose
    }

    /// A flag without a value.
    fn switch(&mut self, flag: &str) -> Result<(), String> {
        match flag {
            "-c" => self.checks_only = true,
            "-D" => self.daemon = true,
            "-db" | "-d" => self.foreground = true,
            "-W" => self.master = true,
            "-Ws" => (self.master, self.notifies, self.foreground) = (true, true, true),
            "-q" => self.quiet = true,
            "-V" => self.verbose = true,
            "-dS" => self.copies = true,
            "-dV" => self.trusts_servers = true,
            "-dW" => self.fails_on_warnings = true,
            "-dr" => self.lenient.names = true,
            "-de" | "-dp" | "-dG" | "-dR" | "-dD" => {}
            _ if flag.starts_with("-dM") => {}
            _ if DUMPS.iter().any(|dump| flag.starts_with(dump)) => {
                return Err(format!("{flag}: dumps are not supported"));
            }
            _ => return Err(format!("unknown option {flag}")),
        }
        Ok(())
    }
}

fn pid(word: &OsStr) -> Option<u32> {
    word.to_str()?.parse().ok().filter(|pid| *pid > 0)
}

fn text<'a>(flag: &str, word: &'a OsStr) -> Result<&'a str, String> {
    word.to_str().ok_or_else(|| format!("{flag}: {}: not valid UTF-8", word.display()))
}

fn number(flag: &str, word: &OsStr) -> Result<usize, String> {
    text(flag, word)?.parse().map_err(|_| format!("{flag}: {}: not a number", word.display()))
}

fn choice<T: FromStr<Err = String>>(flag: &str, word: &OsStr) -> Result<T, String> {
    text(flag, word)?.parse().map_err(|wrong| format!("{flag}: {wrong}"))
}

/// A flag, its value, and its description.
struct ProxyFlag(&'static str, &'static str, &'static str);

/// The help text.
pub(super) fn help() -> String {
    let mut text = String::from(HEAD);
    for ProxyFlag(name, value, what) in FLAGS {
        let flag = format!("{name} {value}");
        text += &format!("  {flag:<18} {what}\n");
    }
    text + TAIL
}

const HEAD: &str = "\
An HAProxy-compatible load balancer

Usage: fulmar proxy [FLAGS] -f FILE [-f FILE|DIR]...
       fulmar proxy [FLAGS] -- FILE...

";

const FLAGS: &[ProxyFlag] = &[
    ProxyFlag("-f", "FILE|DIR", "Configuration file, or a directory with *.cfg files; repeatable"),
    ProxyFlag("--", "FILE...", "Treat all following words as configuration files"),
    ProxyFlag("-c", "", "Check the configuration and exit"),
    ProxyFlag("-C", "DIR", "Change to this directory before reading files"),
    ProxyFlag("-D", "", "Run as a daemon; the command exits once the daemon serves"),
    ProxyFlag("-db", "", "Stay in the foreground, overriding the configuration"),
    ProxyFlag("-d", "", "The same as -db"),
    ProxyFlag("-W", "", "Master-worker mode; SIGUSR2 and SIGHUP reload the configuration"),
    ProxyFlag(
        "-Ws",
        "",
        "Master-worker mode in the foreground, with systemd notification (sd_notify)",
    ),
    ProxyFlag("-p", "FILE", "Write the process number to FILE, with -D or -W"),
    ProxyFlag("-q", "", "Quiet: print no messages"),
    ProxyFlag("-V", "", "Verbose, overriding -q, and `quiet` in the configuration"),
    ProxyFlag("-n", "N", "Maximum number of client connections, overriding the configuration"),
    ProxyFlag(
        "-sf",
        "PID...",
        "Take over the listeners of these processes; they exit after their last connection",
    ),
    ProxyFlag("-st", "PID...", "The same, but they exit at once"),
    ProxyFlag("-x", "SOCKET", "Take over the listeners of the process with this stats socket"),
    ProxyFlag(
        "-dr",
        "",
        "Mark servers as down if their names cannot be resolved, instead of failing",
    ),
    ProxyFlag("-dS", "", "Disable splice(2)"),
    ProxyFlag("-dV", "", "Do not verify server certificates"),
    ProxyFlag("-dW", "", "Treat warnings as errors"),
    ProxyFlag(
        "--lenient",
        "LIST",
        "Ignore unsupported items with a warning: keywords, sections, names, all",
    ),
    ProxyFlag(
        "--driver",
        "DRIVER",
        "I/O driver: epoll (edge-triggered), level (level-triggered epoll), poll, ring (io_uring), \
         ring:N or auto (default)",
    ),
    ProxyFlag(
        "--spin",
        "SPIN",
        "Busy-poll before sleeping: off (default), auto, or a maximum in microseconds",
    ),
    ProxyFlag("-N", "N", "Maximum number of connections of frontends without maxconn"),
    ProxyFlag("-S", "BIND", "Ignored with a warning: the master socket is not supported"),
    ProxyFlag("-m", "N", "Ignored with a warning: memory limits are not supported"),
    ProxyFlag("-L", "NAME", "Ignored: peers are not supported"),
    ProxyFlag("-dM", "", "Ignored, like -de, -dp, -dG, -dR and -dD"),
    ProxyFlag("-v", "", "Print the version"),
    ProxyFlag("-vv", "", "Print the version and the supported features"),
    ProxyFlag("-h", "", "Print this help"),
];

const TAIL: &str = "
Signals:
  SIGUSR1          stop accepting; exit after the last connection
  SIGTERM, SIGINT  exit at once
  SIGHUP           print the state of servers; reload (master)
  SIGUSR2          reload (master)
  SIGTTOU          pause accepting until SIGTTIN

Exit status:
  0      regular exit, or the configuration is valid
  1      failure at start, or an invalid configuration, with messages
  2      invalid command line
  128+N  terminated by signal N
";

/// Dumps of keywords, libraries and configuration lines.
const DUMPS: &[&str] = &["-dK", "-dL", "-dC"];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<ProxyArguments, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        match ProxyArguments::parse(&words)? {
            ProxyRequest::Run(arguments) => Ok(*arguments),
            ProxyRequest::Help | ProxyRequest::Version { .. } => Err("no run".into()),
        }
    }

    #[test]
    fn pids_end_at_the_next_flag() {
        let these = parse("-f a.cfg -sf 12 34 -D -p x.pid -- b.cfg -c").unwrap();
        assert_eq!(these.previous, PreviousProcesses { pids: vec![12, 34], at_once: false });
        assert_eq!(these.files, ["a.cfg", "b.cfg", "-c"].map(PathBuf::from));
        assert!(these.daemon && !these.checks_only);
        let these = parse("-st 5 -f a").unwrap();
        assert_eq!(these.previous, PreviousProcesses { pids: vec![5], at_once: true });
        assert_eq!(parse("-f a -sf").unwrap().previous, PreviousProcesses::default());
    }

    #[test]
    fn ws_notifies_systemd_in_the_foreground() {
        let these = parse("-Ws -f a -p b").unwrap();
        assert!(these.master && these.notifies && these.foreground);
    }

    #[test]
    fn flags_without_effect_are_accepted() {
        let these = parse("-de -dp -dS -dG -dR -dD -dMno-merge -L me -m 5 -N 3 -S x -f a").unwrap();
        assert_eq!((these.files, these.frontend_connections_max), (vec!["a".into()], Some(3)));
        assert_eq!(these.ignored.len(), 2);
    }

    #[test]
    fn invalid_command_lines_are_refused() {
        for (line, why) in [
            ("", "missing configuration"),
            ("-f", "-f needs"),
            ("a.cfg", "need -f"),
            ("-z -f a", "unknown option -z"),
            ("-dKall -f a", "-dKall: dumps"),
            ("-cc x -f a", "-cc: not supported"),
            ("-f - -f -", "used twice"),
            ("-n x -f a", "-n: x: not a number"),
            (
                "--driver uring -f a",
                "--driver: unknown driver `uring`: use auto, epoll, level, poll",
            ),
            ("--spin on -f a", "--spin: invalid spin `on`"),
            ("--lenient what -f a", "what: not one of"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn every_flag_in_the_help_is_accepted() {
        for ProxyFlag(name, value, _) in FLAGS {
            let value = match *value {
                "" => "",
                "N" | "PID..." => "7",
                "LIST" => "all",
                "DRIVER" | "SPIN" => "auto",
                _ => "word",
            };
            let line = format!("-f a {name} {value}");
            let known = {
                let error = parse(&line).err();
                error.is_none_or(|error| error == "no run")
            };
            assert!(known, "{line}");
        }
    }
}
