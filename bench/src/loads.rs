//! The load generators, and what is read from their output.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::BenchError;
use crate::lab::{Child, END_TIMEOUT, Lab, json, last, wrapped};
use crate::servers::{BenchServer, write};

/// A load for one interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchLoad {
    pub(crate) program: LoadProgram,
    pub(crate) connections: u32,
    /// Connections that saturate the server, if more are needed.
    pub(crate) saturating: u32,
    /// Requests at a time on each connection.
    pub(crate) depth: u32,
    /// A connection for each request.
    pub(crate) closes: bool,
}

/// The load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadProgram {
    Wrk,
    /// `fulmar load`.
    Fulmar,
    /// h2load, over HTTP/2.
    Http2,
    /// `openssl s_time -new`: a full handshake for each request. wrk and h2load resume sessions.
    Handshakes,
}

impl BenchLoad {
    /// wrk with connections that are kept.
    pub(crate) const fn kept(connections: u32) -> Self {
        let program = LoadProgram::Wrk;
        Self { program, connections, saturating: connections, depth: 1, closes: false }
    }

    /// wrk with a connection for each request. wrk spends twice the processor time of a server on
    /// a connection, so that more of them are needed to saturate it.
    pub(crate) const SHORT: Self = Self { saturating: 256, closes: true, ..Self::kept(64) };

    /// h2load over HTTP/2, with this many streams at a time on each connection.
    pub(crate) const fn http2(connections: u32, streams: u32) -> Self {
        Self { program: LoadProgram::Http2, depth: streams, ..Self::kept(connections) }
    }

    /// A connection for each request.
    pub(crate) const fn closing(self) -> Self {
        Self { closes: true, ..self }
    }

    /// Runs it against the server; the number of responses.
    pub(crate) fn run(
        &self,
        lab: &Lab,
        server: &BenchServer,
        target: &str,
        seconds: f64,
        is_saturating: bool,
    ) -> Result<(f64, String), BenchError> {
        let (threads, connections) = match is_saturating {
            true => (2, self.saturating),
            false => (1, self.connections),
        };
        let cpus = lab.cores.of_threads(threads);
        let url = server.url(target);
        match self.program {
            LoadProgram::Wrk => {
                let command = self.wrk(lab, threads, connections, seconds, &url)?;
                let line = lab.line(&command);
                let text = lab.start(command, &cpus)?.output(END_TIMEOUT)?;
                Ok((wrk_requests(&text, &line)?, line))
            }
            LoadProgram::Fulmar => {
                let (threads, count) = (threads.to_string(), connections.to_string());
                let words = ["-t", &threads, "-c", &count];
                let more: &[&str] = if self.closes { &["--reconnect"] } else { &[] };
                let (report, line) = fulmar_load(
                    lab,
                    &cpus,
                    Priority::Normal,
                    seconds,
                    &[&words, more].concat(),
                    &url,
                )?;
                Ok((report["requests"].as_f64().unwrap_or(0.0), line))
            }
            LoadProgram::Http2 if is_saturating && connections == 1 => {
                // A connection has a thread. On the server's core it goes first.
                self.h2load(lab, 1, seconds, &lab.cores.server, &url)
            }
            LoadProgram::Http2 => self.h2load(lab, threads.min(connections), seconds, &cpus, &url),
            LoadProgram::Handshakes => handshakes(lab, server, target, seconds, threads, &cpus),
        }
    }

    /// h2load for some seconds; the number of responses.
    fn h2load(
        &self,
        lab: &Lab,
        threads: u32,
        seconds: f64,
        cpus: &[usize],
        url: &str,
    ) -> Result<(f64, String), BenchError> {
        let mut command = h2load(lab, self)?;
        command.args(["-t", &threads.to_string(), "-D", &seconds.round().max(1.0).to_string()]);
        command.arg(url);
        let line = lab.line(&command);
        let text = lab.start(command, cpus)?.output(END_TIMEOUT)?;
        Ok((h2load_responses(&text, &line)?.0, line))
    }

    fn wrk(
        &self,
        lab: &Lab,
        threads: u32,
        connections: u32,
        seconds: f64,
        url: &str,
    ) -> Result<Command, BenchError> {
        let mut command = wrk(lab, threads, connections, seconds)?;
        if self.closes {
            command.args(["-H", "Connection: close"]);
        }
        if self.depth > 1 {
            let script = lab.path().join("pipeline.lua");
            let depth = self.depth;
            write(
                &script,
                &format!(
                    "function init(args)\n  local requests = {{}}\n  for i = 1, {depth} do \
                     requests[i] = wrk.format() end\n  all = table.concat(requests)\nend\n\
                     function request() return all end\n"
                ),
            )?;
            command.arg("-s").arg(script);
        }
        command.arg(url);
        Ok(command)
    }
}

/// wrk; the URL is missing.
pub(crate) fn wrk(
    lab: &Lab,
    threads: u32,
    connections: u32,
    seconds: f64,
) -> Result<Command, BenchError> {
    let mut command = lab.installed("wrk")?;
    let seconds = seconds.round().max(1.0);
    command.args([format!("-t{threads}"), format!("-c{connections}"), format!("-d{seconds}s")]);
    Ok(command)
}

/// The number of requests in wrk's report.
pub(crate) fn wrk_requests(text: &str, line: &str) -> Result<f64, BenchError> {
    let count =
        text.split(" requests in").next().and_then(|before| before.split_whitespace().last());
    let count = count.and_then(|word| word.parse::<f64>().ok()).filter(|count| *count > 0.0);
    let bad = text.lines().find(|line| line.contains("Non-2xx") || is_failed(line));
    if let Some(bad) = bad {
        eprintln!("fulmar-bench: wrk: {}", bad.trim());
    }
    count.ok_or_else(|| BenchError::process(line, format!("no requests: {text}")))
}

/// `Socket errors: connect 0, read 3, write 0, timeout 0`; timeouts at the end are usual.
fn is_failed(line: &str) -> bool {
    let errors = line.split("Socket errors: ").nth(1).unwrap_or_default();
    errors
        .split(", ")
        .any(|part| !part.starts_with("timeout") && !part.ends_with(" 0") && !part.is_empty())
}

/// Whether a generator runs after everything else on its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Normal,
    Last,
}

/// The report of `fulmar load` over an interval, and its command line.
pub(crate) fn fulmar_load(
    lab: &Lab,
    cpus: &[usize],
    priority: Priority,
    seconds: f64,
    words: &[&str],
    url: &str,
) -> Result<(Value, String), BenchError> {
    let mut command = lab.fulmar(&["load", "--json"]);
    if !words.contains(&"-n") {
        command.args(["-d", &seconds.to_string()]);
    }
    command.args(words).arg(url);
    let command = if priority == Priority::Last { last(&command) } else { command };
    let line = lab.line(&command);
    let report = json(&lab.start(command, cpus)?.output(END_TIMEOUT)?, &line)?;
    match report["errors"].as_object().is_none_or(serde_json::Map::is_empty) {
        true => Ok((report, line)),
        false => Err(BenchError::process(&line, format!("errors: {}", report["errors"]))),
    }
}

/// Connections with a full handshake and a request, one after the other in a few processes.
fn handshakes(
    lab: &Lab,
    server: &BenchServer,
    target: &str,
    seconds: f64,
    threads: u32,
    cpus: &[usize],
) -> Result<(f64, String), BenchError> {
    let mut command = lab.installed("openssl")?;
    command.args(["s_time", "-new", "-connect", &server.address().to_string(), "-www", target]);
    command.args(["-time", &seconds.round().max(1.0).to_string()]);
    let line = lab.line(&command);
    let start = |_| lab.start(wrapped("env", &[], &command), cpus);
    let clients: Vec<Child> = (0..threads * PROCESSES).map(start).collect::<Result<_, _>>()?;
    let mut sum = 0.0;
    for client in clients {
        let text = client.output(END_TIMEOUT)?;
        let found = text.lines().find(|line| line.contains(" real seconds, "));
        let count = found.and_then(|line| line.split(' ').next()?.parse::<f64>().ok());
        sum += count.ok_or_else(|| BenchError::process(&line, format!("no responses: {text}")))?;
    }
    Ok((sum, line))
}

/// h2load with the connections of `load`, over HTTP/1.1 unless it is of HTTP/2; the number of
/// requests and the URL are missing.
pub(crate) fn h2load(lab: &Lab, load: &BenchLoad) -> Result<Command, BenchError> {
    let mut command = lab.installed("h2load")?;
    match load.program {
        LoadProgram::Http2 => command.args(["--tls13-ciphers", "TLS_AES_256_GCM_SHA384"]),
        _ => command.arg("--h1"),
    };
    command.args(["-c", &load.connections.to_string(), "-m", &load.depth.to_string()]);
    if load.closes {
        command.args(["-H", "Connection: close"]);
    }
    Ok(command)
}

/// The responses in h2load's report, and the bytes of their bodies; an error unless all were 2xx.
pub(crate) fn h2load_responses(text: &str, line: &str) -> Result<(f64, f64), BenchError> {
    let number = |name: &str| {
        let word = text.split_once(name)?.0.split_whitespace().last()?;
        word.trim_matches(['(', ')']).parse::<f64>().ok()
    };
    let failed = [" failed", " errored", " timeout", " 3xx", " 4xx", " 5xx"].map(number);
    let responses = number(" succeeded").filter(|count| *count > 0.0);
    match (responses, number(" data")) {
        (Some(count), Some(bytes)) if failed == [Some(0.0); 6] => Ok((count, bytes)),
        _ => Err(BenchError::process(line, format!("not only responses of 2xx: {text}"))),
    }
}

/// Fails unless `target` has this many bytes over HTTP/2.
pub(crate) fn check_http2(
    lab: &Lab,
    server: &BenchServer,
    target: &str,
    len: usize,
) -> Result<(), BenchError> {
    let mut command = h2load(lab, &BenchLoad::http2(1, 1))?;
    command.args(["-n", "1"]).arg(server.url(target));
    let (text, line) = lab.run(command)?;
    let found = h2load_responses(&text, &line)?;
    match found == (1.0, len as f64) {
        true => Ok(()),
        false => {
            let why = format!("{target} should be one response of {len} bytes, not {found:?}");
            Err(BenchError::process(&server.line, why))
        }
    }
}

/// A command under callgrind. Only what runs inside the functions of these patterns is counted; all
/// of it without patterns.
pub(crate) fn callgrind(command: &Command, out: &Path, inside: &[&str]) -> Command {
    let mut words =
        vec!["--tool=callgrind".to_owned(), format!("--callgrind-out-file={}", out.display())];
    if !inside.is_empty() {
        words.push("--collect-atstart=no".to_owned());
        words.extend(inside.iter().map(|pattern| format!("--toggle-collect={pattern}")));
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    wrapped("valgrind", &words, command)
}

/// All instructions in a file of callgrind.
pub(crate) fn instructions(out: &Path) -> Result<f64, BenchError> {
    let text = fs::read(out).map_err(BenchError::io(out.display().to_string()))?;
    let text = String::from_utf8_lossy(&text);
    let of = |line: &str| {
        line.strip_prefix("summary: ").or_else(|| line.strip_prefix("totals: "))?.parse().ok()
    };
    let found = text.lines().find_map(of).filter(|count: &f64| *count > 0.0);
    found.ok_or_else(|| BenchError::process("valgrind", "callgrind counted nothing"))
}

/// Processes of `openssl s_time` for each thread.
const PROCESSES: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_read_from_the_report_of_h2load() {
        let text = |failed: u32, missing: u32| {
            format!(
                "finished in 1.01s, 20.00 req/s, 2KB/s\n\
                 requests: 20 total, 30 started, 20 done, 20 succeeded, {failed} failed, \
                 0 errored, 0 timeout\nstatus codes: 21 2xx, 0 3xx, {missing} 4xx, 0 5xx\n\
                 traffic: 2KB (2533) total, 83B (83) headers (space savings 46%), 2KB (2560) data\n"
            )
        };
        assert_eq!(h2load_responses(&text(0, 0), "h2load").unwrap(), (20.0, 2560.0));
        assert!(h2load_responses(&text(1, 0), "h2load").is_err());
        assert!(h2load_responses(&text(0, 1), "h2load").is_err(), "another status");
        assert!(h2load_responses("", "h2load").is_err());
    }

    #[test]
    fn requests_are_read_from_the_report_of_wrk() {
        let text = "  64 connections\n  1234 requests in 5.00s, 1MB read\n";
        assert_eq!(wrk_requests(text, "wrk").unwrap(), 1234.0);
        assert!(wrk_requests("  0 requests in 5.00s", "wrk").is_err());
        assert!(!is_failed("  Socket errors: connect 0, read 0, write 0, timeout 9"));
        assert!(is_failed("  Socket errors: connect 0, read 2, write 0, timeout 0"));
    }
}
