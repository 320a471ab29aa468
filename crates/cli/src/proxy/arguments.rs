//! The command line of `fulmar proxy`: that of HAProxy (its management guide, §3), and some flags
//! of its own.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::str::FromStr;

use fulmar_haproxy::Leniency;
use fulmar_host::{Driver, Spin};

/// What is asked for.
#[derive(Debug)]
pub(super) enum Request {
    Help,
    Version { long: bool },
    Run(Box<Arguments>),
}

/// The command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    /// `-f`, and what follows `--`.
    pub(super) files: Vec<PathBuf>,
    /// `-c`.
    pub(super) checks_only: bool,
    /// `-C`.
    pub(super) folder: Option<PathBuf>,
    /// `-D`.
    pub(super) daemon: bool,
    /// `-db`, `-d`: whatever else is said, in the foreground.
    pub(super) foreground: bool,
    /// `-W`.
    pub(super) master: bool,
    /// `-Ws`: with news for a service manager, in the foreground.
    pub(super) notifies: bool,
    /// `-p`.
    pub(super) pidfile: Option<PathBuf>,
    /// `-q`.
    pub(super) quiet: bool,
    /// `-V`: though the configuration says otherwise.
    pub(super) verbose: bool,
    /// `-n`.
    pub(super) connections_max: Option<usize>,
    /// `-N`: of frontends that say nothing themselves.
    pub(super) frontend_connections_max: Option<usize>,
    /// `-sf` or `-st`.
    pub(super) previous: Previous,
    /// `-x`.
    pub(super) socket: Option<PathBuf>,
    /// `-dS`.
    pub(super) copies: bool,
    /// `-dV`.
    pub(super) trusts_servers: bool,
    /// `-dW`.
    pub(super) fails_on_warnings: bool,
    /// `--lenient`, `-dr`.
    pub(super) lenient: Leniency,
    /// `--driver`.
    pub(super) driver: Option<Driver>,
    /// `--spin`.
    pub(super) spin: Option<Spin>,
    /// What was asked for and is not there, in words: somebody may count on it.
    pub(super) ignored: Vec<String>,
}

/// Processes that this one takes the place of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Previous {
    pub(super) pids: Vec<u32>,
    /// `-st`: they are not waited for.
    pub(super) at_once: bool,
}

impl Arguments {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(given: &[OsString]) -> Result<Request, String> {
        let mut words = given.iter().map(OsString::as_os_str).peekable();
        let mut these = Self::default();
        while let Some(word) = words.next() {
            let Some(flag) = word.to_str().filter(|text| text.starts_with('-')) else {
                return Err(format!("{}: files follow -f, or --", word.display()));
            };
            let mut value =
                |what: &str| words.next().ok_or_else(|| format!("{flag} needs {what} after it"));
            match flag {
                "-h" | "--help" => return Ok(Request::Help),
                "-v" | "--version" => return Ok(Request::Version { long: false }),
                "-vv" => return Ok(Request::Version { long: true }),
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
                    let lenient = Leniency::parse(list);
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
                    let why = "there is no socket of the master: nobody listens there";
                    these.ignored.push(format!("-S {socket}: {why}"));
                }
                "-m" => {
                    let most = number(flag, value("a number")?)?;
                    let why = "memory is not limited; a service manager can limit it";
                    these.ignored.push(format!("-m {most}: {why}"));
                }
                "-L" => {
                    value("a name")?; // of a peer, and there are no peers
                }
                "-cc" => {
                    return Err("-cc: conditions cannot be asked for here; an .if of a \
                                configuration answers them"
                        .to_owned());
                }
                other => these.switch(other)?,
            }
        }
        if these.files.is_empty() {
            return Err("no configuration: -f FILE says which".to_owned());
        }
        Ok(Request::Run(Box::new(these)))
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
                return Err(format!("{flag}: what HAProxy would print of itself is not there"));
            }
            _ => return Err(format!("{flag}: there is no such flag")),
        }
        Ok(())
    }
}

fn pid(word: &OsStr) -> Option<u32> {
    word.to_str()?.parse().ok().filter(|pid| *pid > 0)
}

fn text<'a>(flag: &str, word: &'a OsStr) -> Result<&'a str, String> {
    word.to_str().ok_or_else(|| format!("{flag}: {}: this is no text", word.display()))
}

fn number(flag: &str, word: &OsStr) -> Result<usize, String> {
    text(flag, word)?.parse().map_err(|_| format!("{flag}: {}: this is no number", word.display()))
}

fn choice<T: FromStr<Err = String>>(flag: &str, word: &OsStr) -> Result<T, String> {
    text(flag, word)?.parse().map_err(|wrong| format!("{flag}: {wrong}"))
}

/// A flag, what follows it, and what it does.
struct Flag(&'static str, &'static str, &'static str);

/// All flags, as they are explained.
pub(super) fn help() -> String {
    let mut text = String::from(HEAD);
    for Flag(name, value, what) in FLAGS {
        let flag = format!("{name} {value}");
        text += &format!("  {flag:<18} {what}\n");
    }
    text + TAIL
}

const HEAD: &str = "\
A load balancer that reads an everyday haproxy.cfg

Usage: fulmar proxy [FLAGS] -f FILE [-f FILE|DIR]...
       fulmar proxy [FLAGS] -- FILE...

";

const FLAGS: &[Flag] = &[
    Flag(
        "-f",
        "FILE|DIR",
        "Read this configuration; several are read as one, a directory's *.cfg in order",
    ),
    Flag("--", "FILE...", "Everything after it is a configuration"),
    Flag("-c", "", "Check the configuration, say whether it is valid, and end"),
    Flag("-C", "DIR", "Change to this directory first"),
    Flag("-D", "", "Work in the background; the command ends when it serves"),
    Flag("-db", "", "Stay in the foreground, whatever the configuration says"),
    Flag("-d", "", "The same"),
    Flag("-W", "", "Run a master that looks after a worker, and reloads at SIGUSR2 and SIGHUP"),
    Flag("-Ws", "", "The same in the foreground, with news for systemd (sd_notify)"),
    Flag("-p", "FILE", "Write the number of the process there, with -D or -W"),
    Flag("-q", "", "Say nothing"),
    Flag("-V", "", "Say everything, though the configuration wants it quiet"),
    Flag("-n", "N", "Connections of clients at a time, whatever the configuration says"),
    Flag(
        "-sf",
        "PID...",
        "Take the listeners over from these processes, which end with their last client",
    ),
    Flag("-st", "PID...", "The same, but they end at once"),
    Flag("-x", "SOCKET", "Take the listeners over from the process at this stats socket"),
    Flag("-dr", "", "Servers whose names have no address are down, not an error"),
    Flag("-dS", "", "No bodies pass through pipes (splice(2))"),
    Flag("-dV", "", "Believe servers' certificates"),
    Flag("-dW", "", "Warnings are errors"),
    Flag(
        "--lenient",
        "LIST",
        "Have what is not supported be a warning: keywords, sections, names, all",
    ),
    Flag(
        "--driver",
        "DRIVER",
        "What does the system calls: epoll, ring (io_uring), ring:N or auto (default)",
    ),
    Flag(
        "--spin",
        "SPIN",
        "Poll before sleeping: off (default), auto, or for so many microseconds",
    ),
    Flag("-N", "N", "Connections of each frontend that has no maxconn"),
    Flag("-S", "BIND", "Left out with a warning: there is no socket of the master"),
    Flag("-m", "N", "Left out with a warning: memory is not limited"),
    Flag("-L", "NAME", "Accepted, without effect: there are no peers"),
    Flag("-dM", "", "Accepted, without effect; so are -de, -dp, -dG, -dR, -dD"),
    Flag("-v", "", "Print the version"),
    Flag("-vv", "", "Print the version, and what is built in"),
    Flag("-h", "", "Print this"),
];

const TAIL: &str = "
Signals:
  SIGUSR1          nobody new; ends with the last client
  SIGTERM, SIGINT  ends at once
  SIGHUP           says how servers are; a master reloads
  SIGUSR2          a master reloads
  SIGTTOU          nobody is accepted, until SIGTTIN

Exit status:
  0    ended as it was asked to, or the configuration is valid
  1    it could not begin; messages say why
  128+N  ended by signal N
";

/// Lists of keywords, of libraries, of lines.
const DUMPS: &[&str] = &["-dK", "-dL", "-dC"];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        match Arguments::parse(&words)? {
            Request::Run(arguments) => Ok(*arguments),
            Request::Help | Request::Version { .. } => Err("no run".into()),
        }
    }

    #[test]
    fn pids_follow_until_something_else_does() {
        let these = parse("-f a.cfg -sf 12 34 -D -p x.pid -- b.cfg -c").unwrap();
        assert_eq!(these.previous, Previous { pids: vec![12, 34], at_once: false });
        assert_eq!(these.files, ["a.cfg", "b.cfg", "-c"].map(PathBuf::from));
        assert!(these.daemon && !these.checks_only);
        let these = parse("-st 5 -f a").unwrap();
        assert_eq!(these.previous, Previous { pids: vec![5], at_once: true });
        assert_eq!(parse("-f a -sf").unwrap().previous, Previous::default());
    }

    #[test]
    fn systemd_is_told_from_the_foreground() {
        let these = parse("-Ws -f a -p b").unwrap();
        assert!(these.master && these.notifies && these.foreground);
    }

    #[test]
    fn flags_without_a_meaning_are_taken() {
        let these = parse("-de -dp -dS -dG -dR -dD -dMno-merge -L me -m 5 -N 3 -S x -f a").unwrap();
        assert_eq!((these.files, these.frontend_connections_max), (vec!["a".into()], Some(3)));
        assert_eq!(these.ignored.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, why) in [
            ("", "no configuration"),
            ("-f", "-f needs"),
            ("a.cfg", "files follow -f"),
            ("-z -f a", "-z: there is no such flag"),
            ("-dKall -f a", "-dKall: what HAProxy would print"),
            ("-cc x -f a", "-cc: conditions"),
            ("-n x -f a", "-n: x: this is no number"),
            ("--driver uring -f a", "--driver: `uring` is no driver"),
            ("--spin on -f a", "--spin: `on` is no time"),
            ("--lenient what -f a", "what: not one of"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn every_flag_of_the_help_is_one() {
        for Flag(name, value, _) in FLAGS {
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
