//! `get-20000`: `fulmar get` beside `curl --parallel`: thousands of files from three hosts into
//! memory.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::BenchScenario;
use crate::BenchError;
use crate::lab::{Lab, children_cpu_us, count, wrapped};
use crate::report::{BarLimit, FULMAR, Metric, Sheet, lower};
use crate::servers::{NginxServer, write};

pub(super) const SCENARIOS: &[BenchScenario] =
    &[BenchScenario::new("get-20000", "get: 20,000 files from three hosts beside curl -Z", run)];

/// Both sides have the same URLs in the same order, and as many connections. Every byte is checked.
fn run(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let made = tempfile::Builder::new().prefix("fulmar-bench-get-").tempdir_in("/dev/shm");
    let memory = made.map_err(BenchError::io("a directory in /dev/shm"))?;
    let (site, out) = (memory.path().join("site"), memory.path().join("out"));
    let sizes = make_files(&site).map_err(BenchError::io("the served files"))?;
    let nginx = NginxServer { address: "0.0.0.0", root: Some(&site), ..NginxServer::default() }
        .start(lab)?;
    let sides = [fulmar(lab, nginx.port, &out)?, curl(lab, nginx.port, &out)?];
    let names = [FULMAR, "curl -Z"];
    sheet.limit(&CPU_EACH, ROW, BarLimit::at_most_times(0.75));
    sheet.limit(&CALLS_EACH, ROW, BarLimit::at_most(6.5));
    let result = lab.interleave(lab.few_rounds(), sides.len(), 1, |at, _| {
        let before = children_cpu_us();
        let (text, line) = download(lab, &wrapped("env", &[], &sides[at]), &site, &out, &sizes)?;
        sheet.report.command(&line);
        sheet.add(&CPU_EACH, ROW, names[at], (children_cpu_us() - before) / f64::from(FILES));
        if names[at] == FULMAR {
            let total = text.lines().find_map(|line| line.trim().strip_prefix("all "));
            let total = total.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
            let total = total.ok_or_else(|| BenchError::process(&line, "no ledger"))?;
            sheet.add(&CALLS_EACH, ROW, FULMAR, total / f64::from(FILES));
        }
        Ok(())
    });
    let counted = counted_curl(lab, sheet, &sides[1], &out);
    nginx.stop()?;
    BenchError::all([result, counted].into_iter().filter_map(Result::err))
}

/// The system calls of curl, counted in the kernel in a run of its own.
fn counted_curl(
    lab: &Lab,
    sheet: &mut Sheet,
    command: &Command,
    out: &Path,
) -> Result<(), BenchError> {
    fs::create_dir(out).map_err(BenchError::io("the output"))?;
    // The shell waits until the counter is attached.
    let go = lab.path().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done; exec \"$@\"", go.display());
    let curl = lab.client(wrapped("sh", &["-c", &script, "sh"], command))?;
    let found = count(curl.id(), || {
        write(&go, "")?;
        curl.output(crate::lab::END_TIMEOUT).map(drop)
    })?;
    fs::remove_dir_all(out).map_err(BenchError::io("the output"))?;
    if let Some(counts) = super::counted(found, sheet) {
        sheet.add(&CALLS_EACH, ROW, "curl -Z", counts.total() / f64::from(FILES));
    }
    Ok(())
}

/// Runs a download, checks its files and removes them; its output.
fn download(
    lab: &Lab,
    command: &Command,
    site: &Path,
    out: &Path,
    sizes: &[usize],
) -> Result<(String, String), BenchError> {
    fs::create_dir(out).map_err(BenchError::io("the output"))?;
    let line = lab.line(command);
    let merged = wrapped("sh", &["-c", "exec \"$@\" 2>&1", "sh"], command);
    let (text, _) = lab.run(merged)?;
    let is_same = |(number, size): (usize, &usize)| {
        let read = |root: &Path| fs::read(root.join(format!("{number:05}"))).unwrap_or_default();
        let bytes = read(out);
        bytes.len() == *size && bytes == read(site)
    };
    let same = sizes.iter().enumerate().all(is_same);
    fs::remove_dir_all(out).map_err(BenchError::io("the output"))?;
    match same {
        true => Ok((text, line)),
        false => Err(BenchError::process(&line, "files are missing or differ")),
    }
}

fn fulmar(lab: &Lab, port: u16, out: &Path) -> Result<Command, BenchError> {
    let list = lab.path().join("urls");
    let lines: String = urls(port).map(|(name, url)| format!("{url} {name}\n")).collect();
    write(&list, &lines)?;
    let mut command = lab.fulmar(&["get", "--ledger", "-j", "48", "--per-host", "16"]);
    command.arg("-i").arg(list).arg("-o").arg(out);
    Ok(command)
}

fn curl(lab: &Lab, port: u16, out: &Path) -> Result<Command, BenchError> {
    let config = lab.path().join("curl.config");
    let line = |(name, url): (String, String)| {
        format!("url = \"{url}\"\noutput = \"{}\"\n", out.join(name).display())
    };
    write(&config, &urls(port).map(line).collect::<String>())?;
    let mut command = lab.installed("curl")?;
    command.args(["-q", "--noproxy", "*", "-s", "-S", "--fail-early", "-f", "-Z"]);
    command.args(["--parallel-max", "48", "-K"]).arg(config);
    Ok(command)
}

/// Names and URLs, over three hosts.
fn urls(port: u16) -> impl Iterator<Item = (String, String)> {
    (0..FILES).map(move |number| {
        let (name, host) = (format!("{number:05}"), 1 + number % 3);
        let url = format!("http://127.0.0.{host}:{port}/{name}");
        (name, url)
    })
}

/// The same files each time; the logarithm of their sizes is spread evenly.
fn make_files(site: &PathBuf) -> std::io::Result<Vec<usize>> {
    fs::create_dir(site)?;
    let mut random = fs::File::open("/dev/urandom")?;
    let mut sizes = Vec::new();
    for number in 0..FILES {
        let share = f64::from(number.wrapping_mul(7919) % FILES) / f64::from(FILES);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "100 KB")]
        let size = (1024.0 * 100_f64.powf(share)).round() as usize;
        let mut bytes = vec![0; size];
        random.read_exact(&mut bytes)?;
        fs::write(site.join(format!("{number:05}")), bytes)?;
        sizes.push(size);
    }
    Ok(sizes)
}

const CPU_EACH: Metric = lower("CPU per file", "us");
const CALLS_EACH: Metric = lower("System calls per file", "calls");
const ROW: &str = "20,000 files of 1-100 KB, 48 connections";
const FILES: u32 = 20_000;
