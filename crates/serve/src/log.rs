//! The access log: one line per answer, that no request can forge or break a terminal with.
//!
//! Lines are composed in one buffer and leave it in one `write`: when it is full, or a second
//! after its first line ([`AccessLog::flush_due`]). What a request said is cut to
//! [`FIELD_SIZE_MAX`] bytes, and everything in it that is not a visible ASCII character is written
//! as `\xHH`; the backslash itself as `\\`. In JSON this text is a string like any other, with its
//! backslashes escaped again.
//!
//! A log that cannot be written (a full disk, a closed pipe) stops nothing. Trouble is told once
//! ([`AccessLog::poll_trouble`]), lines that find no room are counted, and writing is tried again
//! every second. A line is never torn: of a partial write the rest is kept.

use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use fulmar_semantics::clock::Clock;
use fulmar_sys as sys;

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The combined format of Apache and nginx.
    Combined,
    /// An object with the same fields.
    Json,
}

/// What there is to say about one exchange. What a request said is as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Who asked.
    pub peer: IpAddr,
    /// The method; empty if the request could not be read.
    pub method: &'a [u8],
    /// The target.
    pub target: &'a [u8],
    /// `HTTP/1.1`.
    pub version: &'a str,
    /// Of the answer.
    pub status: u16,
    /// Of its body, as far as it was sent.
    pub bytes: u64,
    /// The field `Referer`.
    pub referer: Option<&'a [u8]>,
    /// The field `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
}

/// What happened to the log.
#[derive(Debug)]
pub enum Trouble {
    /// It cannot be written.
    Failed(io::Error),
    /// It can again; so many lines are missing.
    Recovered {
        /// Lines that found no room meanwhile.
        lost: u64,
    },
}

/// Where lines go.
#[derive(Debug)]
pub struct AccessLog {
    fd: OwnedFd,
    format: Format,
    /// Whole lines; the first `written` bytes have left.
    buffer: Vec<u8>,
    written: usize,
    /// When the buffer is to be written, if it holds anything.
    due: Option<Instant>,
    state: State,
    trouble: Option<Trouble>,
}

#[derive(Debug)]
enum State {
    Working,
    /// The last attempt failed; so many lines were lost since the first one that did.
    Failing {
        lost: u64,
    },
}

impl AccessLog {
    /// Writes to `fd`, which is open for appending. Nothing is written yet.
    pub fn new(fd: OwnedFd, format: Format) -> Self {
        Self {
            fd,
            format,
            buffer: Vec::with_capacity(BUFFER_CAPACITY),
            written: 0,
            due: None,
            state: State::Working,
            trouble: None,
        }
    }

    /// Enters a line. `clock` has been advanced to `now`.
    pub fn record(&mut self, now: Instant, clock: &Clock, line: &Line<'_>) {
        if self.is_full() {
            self.make_room(now);
            if let (true, State::Failing { lost }) = (self.is_full(), &mut self.state) {
                *lost += 1;
                return;
            }
        }
        match self.format {
            Format::Combined => write_combined(&mut self.buffer, clock, line),
            Format::Json => write_json(&mut self.buffer, clock, line),
        }
        self.due.get_or_insert(now + FLUSH_AFTER);
        if self.is_full() {
            self.make_room(now);
        }
    }

    /// Writes what has waited for a second.
    pub fn flush_due(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.flush(now);
        }
    }

    /// When [`AccessLog::flush_due`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Writes everything, as far as it can be: at the end, or before a pause.
    pub fn flush(&mut self, now: Instant) {
        while self.written < self.buffer.len() {
            match sys::write(self.fd.as_fd(), &self.buffer[self.written..]) {
                Ok(n) if n > 0 => self.written += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) => return self.fail(now, io::ErrorKind::WriteZero.into()),
                Err(e) => return self.fail(now, e),
            }
        }
        self.buffer.clear();
        (self.written, self.due) = (0, None);
        if let State::Failing { lost } = self.state {
            self.state = State::Working;
            self.trouble = Some(Trouble::Recovered { lost });
        }
    }

    /// As [`AccessLog::flush`], for the last time: lines that cannot be written now are lost.
    pub fn finish(&mut self, now: Instant) {
        self.flush(now);
        if let State::Failing { lost } = &mut self.state {
            *lost += self.buffer.iter().filter(|byte| **byte == b'\n').count() as u64;
            self.buffer.clear();
        }
    }

    /// News of the log itself, each told once.
    pub fn poll_trouble(&mut self) -> Option<Trouble> {
        self.trouble.take()
    }

    /// Lines lost since the log could last be written.
    pub fn lost(&self) -> u64 {
        match self.state {
            State::Working => 0,
            State::Failing { lost } => lost,
        }
    }

    fn is_full(&self) -> bool {
        self.buffer.len() >= FLUSH_SIZE
    }

    /// While the log fails, writing is tried only when it is due.
    fn make_room(&mut self, now: Instant) {
        match self.state {
            State::Working => self.flush(now),
            State::Failing { .. } => self.flush_due(now),
        }
    }

    /// A pipe that is full for the moment fails like a disk that is; the next attempt shows.
    fn fail(&mut self, now: Instant, error: io::Error) {
        self.buffer.drain(..self.written);
        (self.written, self.due) = (0, Some(now + FLUSH_AFTER));
        if let State::Working = self.state {
            self.state = State::Failing { lost: 0 };
            self.trouble = Some(Trouble::Failed(error));
        }
    }
}

impl Drop for AccessLog {
    /// What can be written without waiting for better times is.
    fn drop(&mut self) {
        let rest = &self.buffer[self.written..];
        if !rest.is_empty() {
            let _ = sys::write(self.fd.as_fd(), rest);
        }
    }
}

fn write_combined(out: &mut Vec<u8>, clock: &Clock, line: &Line<'_>) {
    put(out, format_args!("{} - - [", line.peer));
    out.extend_from_slice(clock.log());
    out.extend_from_slice(b"] \"");
    if line.method.is_empty() {
        out.push(b'-');
    } else {
        escape(out, line.method, Format::Combined);
        out.push(b' ');
        escape(out, line.target, Format::Combined);
        put(out, format_args!(" {}", line.version));
    }
    put(out, format_args!("\" {} {} \"", line.status, line.bytes));
    escape(out, line.referer.unwrap_or(b"-"), Format::Combined);
    out.extend_from_slice(b"\" \"");
    escape(out, line.user_agent.unwrap_or(b"-"), Format::Combined);
    out.extend_from_slice(b"\"\n");
}

fn write_json(out: &mut Vec<u8>, clock: &Clock, line: &Line<'_>) {
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(clock.iso());
    put(out, format_args!("\",\"peer\":\"{}\"", line.peer));
    write_member(out, "method", Some(line.method));
    write_member(out, "target", Some(line.target));
    put(out, format_args!(",\"version\":\"{}\"", line.version));
    put(out, format_args!(",\"status\":{},\"bytes\":{}", line.status, line.bytes));
    write_member(out, "referer", line.referer);
    write_member(out, "user_agent", line.user_agent);
    out.extend_from_slice(b"}\n");
}

fn write_member(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    put(out, format_args!(",\"{name}\":"));
    match value {
        None => out.extend_from_slice(b"null"),
        Some(value) => {
            out.push(b'"');
            escape(out, value, Format::Json);
            out.push(b'"');
        }
    }
}

/// Writes what a request said between double quotes.
fn escape(out: &mut Vec<u8>, text: &[u8], format: Format) {
    let (backslash, quote): (&[u8], &[u8]) = match format {
        Format::Combined => (b"\\", b"\\\""),
        // The backslash of our own escape is escaped for JSON; the quote needs no escape of ours.
        Format::Json => (b"\\\\", b"\\\""),
    };
    for byte in &text[..text.len().min(FIELD_SIZE_MAX)] {
        match byte {
            b'"' => out.extend_from_slice(quote),
            b'\\' => {
                out.extend_from_slice(backslash);
                out.extend_from_slice(backslash);
            }
            b' '..=b'~' => out.push(*byte),
            other => {
                out.extend_from_slice(backslash);
                out.extend_from_slice(&[b'x', hex(other >> 4), hex(other & 15)]);
            }
        }
    }
    if text.len() > FIELD_SIZE_MAX {
        out.extend_from_slice(b"...");
    }
}

fn hex(digit: u8) -> u8 {
    b"0123456789abcdef"[usize::from(digit)]
}

fn put(out: &mut Vec<u8>, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a Vec takes everything");
}

/// Longer methods, targets and fields are cut in the log, and end in `...`.
pub const FIELD_SIZE_MAX: usize = 2048;

/// How long a line may wait in the buffer.
pub const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// At this size the buffer is written.
const FLUSH_SIZE: usize = 64 * 1024;

/// The buffer and one more line: four fields, each byte of which takes five, and the rest.
const BUFFER_CAPACITY: usize = FLUSH_SIZE + 4 * FIELD_SIZE_MAX * 5 + 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::Ipv4Addr;
    use std::time::UNIX_EPOCH;

    use fulmar_sys::{Call, Ledger};
    use proptest::prelude::*;

    fn clock(now: Instant) -> Clock {
        Clock::new(UNIX_EPOCH + Duration::from_secs(784_111_777), now)
    }

    fn line<'a>(target: &'a [u8], user_agent: Option<&'a [u8]>) -> Line<'a> {
        Line {
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            method: b"GET",
            target,
            version: "HTTP/1.1",
            status: 200,
            bytes: 2326,
            referer: None,
            user_agent,
        }
    }

    fn compose(format: Format, line: &Line<'_>) -> String {
        let mut out = Vec::new();
        match format {
            Format::Combined => write_combined(&mut out, &clock(sys::now()), line),
            Format::Json => write_json(&mut out, &clock(sys::now()), line),
        }
        assert!(out.len() < BUFFER_CAPACITY - FLUSH_SIZE);
        String::from_utf8(out).unwrap()
    }

    fn writes(work: impl FnOnce()) -> u64 {
        let before = Ledger::here();
        work();
        (Ledger::here() - before).count(Call::write).calls
    }

    fn file_log() -> (AccessLog, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        (AccessLog::new(sys::open_log(file.path()).unwrap(), Format::Combined), file)
    }

    fn full_log() -> AccessLog {
        AccessLog::new(sys::open_log("/dev/full".as_ref()).unwrap(), Format::Combined)
    }

    #[test]
    fn combined_lines() {
        assert_eq!(
            compose(Format::Combined, &line(b"/a?b", Some(b"curl/8"))),
            "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 2326 \"-\" \
             \"curl/8\"\n"
        );
        let unread = Line { method: b"", status: 400, bytes: 0, ..line(b"", None) };
        assert_eq!(
            compose(Format::Combined, &unread),
            "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"-\" 400 0 \"-\" \"-\"\n"
        );
    }

    #[test]
    fn json_lines() {
        let text = compose(Format::Json, &line(b"/a\"\\\xff", Some(b"curl/8")));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["time"], "1994-11-06T08:49:37Z");
        assert_eq!(value["peer"], "127.0.0.1");
        assert_eq!(value["target"], "/a\"\\\\\\xff");
        assert_eq!(value["status"], 200);
        assert_eq!(value["bytes"], 2326);
        assert_eq!(value["referer"], serde_json::Value::Null);
        assert_eq!(value["user_agent"], "curl/8");
    }

    #[test]
    fn nothing_is_forged() {
        let agent = b"\"\n127.0.0.1 - - \x1b[2J\x9b\x7f\\x0a";
        let text = compose(Format::Combined, &line(b"/", Some(agent)));
        assert!(text.ends_with("\"\\\"\\x0a127.0.0.1 - - \\x1b[2J\\x9b\\x7f\\\\x0a\"\n"), "{text}");
    }

    #[test]
    fn long_fields_are_cut() {
        let long = vec![0xff; 100_000];
        for format in [Format::Combined, Format::Json] {
            let all = Line { method: &long, referer: Some(&long), ..line(&long, Some(&long)) };
            assert_eq!(compose(format, &all).matches("...").count(), 4);
        }
    }

    #[test]
    fn lines_leave_together_and_in_time() {
        let ((mut log, file), now) = (file_log(), sys::now());
        let clock = clock(now);
        let late = now + Duration::from_millis(500);
        assert_eq!(log.poll_timeout(), None);
        assert_eq!(
            writes(|| {
                log.record(now, &clock, &line(b"/1", None));
                log.record(late, &clock, &line(b"/2", None));
                log.flush_due(late);
            }),
            0
        );
        assert_eq!(log.poll_timeout(), Some(now + FLUSH_AFTER));
        assert_eq!(writes(|| log.flush_due(now + FLUSH_AFTER)), 1);
        assert_eq!(log.poll_timeout(), None);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap().lines().count(), 2);
    }

    #[test]
    fn a_full_buffer_leaves_at_once_and_nothing_is_allocated() {
        let ((mut log, file), now) = (file_log(), sys::now());
        let (clock, agent) = (clock(now), [b'a'; 300]);
        let line = line(b"/", Some(&agent));
        let mut made = 0;
        let memory = allocation_counter::measure(|| {
            made = writes(|| (0..1000).for_each(|_| log.record(now, &clock, &line)));
        });
        assert_eq!(memory.count_total, 0);
        assert!((5..8).contains(&made), "{made}");
        drop(log);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap().lines().count(), 1000);
    }

    #[test]
    fn a_full_disk_is_told_once_and_lines_are_counted() {
        let (mut log, now) = (full_log(), sys::now());
        let (clock, agent) = (clock(now), [b'a'; 300]);
        let tried = writes(|| {
            (0..1000).for_each(|_| log.record(now, &clock, &line(b"/", Some(&agent))));
        });
        assert_eq!(tried, 1);
        let Some(Trouble::Failed(error)) = log.poll_trouble() else { panic!("it is full") };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let lost = log.lost();
        assert!((700..1000).contains(&lost), "{lost}");
        let later = now + FLUSH_AFTER;
        assert_eq!(writes(|| log.flush_due(later)), 1);
        assert!(log.poll_trouble().is_none());
        assert_eq!(log.poll_timeout(), Some(later + FLUSH_AFTER));
    }

    #[test]
    fn a_log_that_works_again_says_what_is_missing() {
        let ((good, file), now) = (file_log(), sys::now());
        let mut log = full_log();
        let (clock, agent) = (clock(now), [b'a'; 300]);
        (0..1000).for_each(|_| log.record(now, &clock, &line(b"/", Some(&agent))));
        let lost = log.lost();
        log.fd = good.fd.try_clone().unwrap();
        log.record(now + FLUSH_AFTER, &clock, &line(b"/last", None));
        log.flush(now + FLUSH_AFTER);
        let Some(Trouble::Recovered { lost: told }) = log.poll_trouble() else {
            panic!("it works")
        };
        assert_eq!((told, log.lost()), (lost, 0));
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text.lines().count() as u64, 1001 - lost);
        assert!(text.lines().last().unwrap().contains("/last"));
    }

    #[test]
    fn a_pipe_that_is_full_gets_the_rest_later() {
        let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        let mut log = AccessLog::new(writer.into(), Format::Combined);
        let mut now = sys::now();
        let (clock, agent) = (clock(now), [b'a'; 2000]);
        let mut sent = 0;
        while log.lost() == 0 {
            log.record(now, &clock, &line(format!("/{sent}").as_bytes(), Some(&agent)));
            sent += 1;
        }
        let (mut text, mut piece) = (Vec::new(), [0; 100_000]);
        reader.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        while let Ok(n) = reader.read(&mut piece) {
            text.extend_from_slice(&piece[..n]);
            now += FLUSH_AFTER;
            log.flush_due(now);
        }
        let text = String::from_utf8(text).unwrap();
        for (at, line) in text.lines().enumerate() {
            assert!(line.contains(&format!("GET /{at} ")) && line.ends_with("aa\""), "{line}");
        }
        assert_eq!(text.lines().count(), sent - 1);
    }

    proptest! {
        #[test]
        fn a_line_is_one_line(target: Vec<u8>, agent: Vec<u8>) {
            for format in [Format::Combined, Format::Json] {
                let text = compose(format, &line(&target, Some(&agent)));
                let (body, end) = text.split_at(text.len() - 1);
                prop_assert_eq!(end, "\n");
                prop_assert!(body.bytes().all(|b| matches!(b, b' '..=b'~')));
            }
            let text = compose(Format::Json, &line(&target, Some(&agent)));
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
