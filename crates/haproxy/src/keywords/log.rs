//! `log`, and what lines of it look like.

use crate::compile;
use crate::draft::{Globals, LogFormat, ProxyDraft};
use crate::keyword_table::{BOTH, FRONT, Keyword, NO, row};
use crate::line::KeywordLine;
use crate::machine::host_name;
use crate::model::{LogAddress, LogLine, LogTarget};
use crate::position::KeywordPrefix;
use crate::rules::{Word, WordError};
use crate::values::address::{ParsedAddress, Ports};
use crate::values::syslog::{FACILITIES, LEVELS};
use crate::values::{number, one_of};

pub(super) const GLOBAL: &[Keyword<Globals>] = &[
    row(
        "log",
        NO,
        "<address> [len <bytes>] [format <name>] [sample <ranges>:<size>] <facility> [<level> \
         [<minimum>]]",
        "log address that proxies use with 'log global'",
        global_log,
    ),
    row("log-tag", 0, "<text>", "program name in log lines", global_tag),
    row("log-send-hostname", 0, "[<name>]", "add the host name to log lines", send_hostname),
];

pub(super) const PROXY: &[Keyword<ProxyDraft>] = &[
    row(
        "log",
        BOTH | NO,
        "global | <address> [len <bytes>] [format <name>] [sample <ranges>:<size>] <facility> \
         [<level> [<minimum>]]",
        "log address",
        proxy_log,
    ),
    row("log-tag", BOTH, "<text>", "program name in log lines", proxy_tag),
    row("log-format", FRONT, "<format>", "format of log lines", format),
    row(
        "error-log-format",
        FRONT,
        "<format>",
        "format of log lines of failed connections",
        error_format,
    ),
];

fn global_log(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    if line.said != KeywordPrefix::Plain {
        globals.model.logs.clear();
        return Ok(());
    }
    let target = target(line)?;
    globals.model.logs.push(target);
    Ok(())
}

fn proxy_log(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    if line.said != KeywordPrefix::Plain {
        draft.logs.clear();
        draft.logs_global = false;
        return Ok(());
    }
    if line.words.take("global") {
        draft.logs_global = true;
        return Ok(());
    }
    let target = target(line)?;
    draft.logs.push(target);
    Ok(())
}

fn target(line: &mut KeywordLine<'_>) -> Result<LogTarget, WordError> {
    let address = line.word("an address, and a facility behind it")?;
    let mut target = LogTarget {
        to: to(&address, line)?,
        format: LogLine::default(),
        facility: 0,
        level_max: LEVEL_MAX,
        level_min: 0,
        line_size_max: LINE_SIZE,
        sample: None,
    };
    loop {
        let word = line.word("a facility of syslog (local0, daemon, ...)")?;
        match &*word.text {
            "len" => {
                let word = line.word("a number of bytes")?;
                target.line_size_max = number(&word, LINE_SIZE_MIN, LINE_SIZE_MAX)?;
            }
            "format" => target.format = one_of(&line.word("a format")?, "format", FORMATS)?,
            "sample" => target.sample = Some(sample(&line.word("<ranges>:<size>")?)?),
            "profile" => {
                let message = "'profile' is not supported";
                return Err(WordError::unknown(word.column, message));
            }
            _ => {
                target.facility = one_of(&word, "facility", FACILITIES)?;
                break;
            }
        }
    }
    if let Some(word) = line.words.next() {
        target.level_max = one_of(word, "level", LEVELS)?;
    }
    if let Some(word) = line.words.next() {
        target.level_min = one_of(word, "level", LEVELS)?;
    }
    Ok(target)
}

fn to(word: &Word, line: &KeywordLine<'_>) -> Result<LogAddress, WordError> {
    let text = line.expanded(word)?;
    match &*text {
        "stdout" => return Ok(LogAddress::Descriptor(1)),
        "stderr" => return Ok(LogAddress::Descriptor(2)),
        _ => {}
    }
    if let Some((kind, _)) = text.split_once('@')
        && ["ring", "tcp", "tcp4", "tcp6"].contains(&kind)
    {
        let message = format!("'{kind}@' is not supported: use UDP or a Unix socket");
        return Err(WordError::unknown(word.column, message));
    }
    let wrong = |message| WordError::new(word.column, message);
    match ParsedAddress::parse(&text).map_err(wrong)? {
        ParsedAddress::Unix(path) => Ok(LogAddress::Unix(path)),
        ParsedAddress::Descriptor(descriptor) => Ok(LogAddress::Descriptor(descriptor)),
        ParsedAddress::Ip(host, ports) => {
            let port = match ports {
                Ports::None => SYSLOG_PORT,
                Ports::Range(first, last) if first == last => first,
                _ => return Err(wrong(format!("'{text}': expected a single port"))),
            };
            let ip = host.resolve(line.machine).map_err(wrong)?;
            Ok(LogAddress::Udp((ip, port).into()))
        }
        ParsedAddress::Abstract(_) => {
            Err(WordError::unknown(word.column, "'abns@' is not supported here"))
        }
    }
}

/// `1-3,5:8`: these of each eight lines.
fn sample(word: &Word) -> Result<(Vec<(u32, u32)>, u32), WordError> {
    let wrong = || {
        let message = format!(
            "'{}': invalid sample, expected ascending ranges, for example 1-3,5:8",
            word.text
        );
        WordError::new(word.column, message)
    };
    let (ranges, size) = word.text.split_once(':').ok_or_else(wrong)?;
    let size: u32 = size.parse().ok().filter(|&size| size > 0).ok_or_else(wrong)?;
    let mut chosen = Vec::new();
    let mut last_end = 0;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: u32 = first.parse().map_err(|_| wrong())?;
        let last: u32 = last.parse().map_err(|_| wrong())?;
        if first <= last_end || last < first || last > size {
            return Err(wrong());
        }
        last_end = last;
        chosen.push((first, last));
    }
    Ok((chosen, size))
}

fn global_tag(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.log_tag = Some(line.word("a name")?.text);
    Ok(())
}

fn proxy_tag(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.log_tag = Some(line.word("a name")?.text);
    Ok(())
}

fn send_hostname(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = match line.words.next() {
        Some(word) => word.text.clone(),
        None => host_name(line.machine),
    };
    globals.model.log_hostname = Some(name);
    Ok(())
}

fn format(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("a format")?;
    draft.log_format = LogFormat::Own(compile::log_format(&word, line)?.into());
    Ok(())
}

fn error_format(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("a format")?;
    draft.frontend.error_log_format = Some(compile::log_format(&word, line)?.into());
    Ok(())
}

const FORMATS: &[(&str, LogLine)] = &[
    ("rfc3164", LogLine::Rfc3164),
    ("local", LogLine::Local),
    ("rfc5424", LogLine::Rfc5424),
    ("priority", LogLine::Priority),
    ("short", LogLine::Short),
    ("timed", LogLine::Timed),
    ("iso", LogLine::Iso),
    ("raw", LogLine::Raw),
];

/// RFC 5426, §3.3.
const SYSLOG_PORT: u16 = 514;

/// All levels are logged.
const LEVEL_MAX: u8 = 7;

/// HAProxy's default length of lines, and the bounds of `len`.
const LINE_SIZE: usize = 1024;
const LINE_SIZE_MIN: usize = 80;
const LINE_SIZE_MAX: usize = 65_535;
