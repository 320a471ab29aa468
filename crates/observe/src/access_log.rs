//! The access log: one line for each exchange.
//!
//! Lines are collected in a buffer. It is written with one `write` when it is full, or one second
//! after its first line. A failing log (full disk, closed pipe) does not stop the server: the
//! failure is reported once, lost lines are counted, and writing is retried every second.
//! second.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fulmar_proto::PeerError;
use fulmar_semantics::clock::Clock;
use fulmar_server::{ExchangeSummary, Observer};

use crate::log_format::{AccessLine, Format, LINE_SIZE_MAX};
use crate::output::{Output, Trouble};

/// Writes a line for each finished exchange, and for each malformed request. Each thread has its
/// own log; logs may share an [`Output`].
pub struct AccessLog {
    output: Output,
    format: Format,
    on_trouble: Box<dyn FnMut(Trouble)>,
    /// Complete lines.
    buffer: Vec<u8>,
    /// When the buffer must be written; `None` if it is empty.
    due: Option<Instant>,
    /// The last write failed; it is retried at `due`.
    failing: bool,
}

impl AccessLog {
    /// Without a handler for [`AccessLog::on_trouble`].
    pub fn new(output: Output, format: Format) -> Self {
        Self {
            output,
            format,
            on_trouble: Box::new(|_| ()),
            buffer: Vec::with_capacity(FLUSH_SIZE + LINE_SIZE_MAX),
            due: None,
            failing: false,
        }
    }

    /// Calls `on_trouble` for failures of the log. Each is reported once, even if several logs
    /// share the output.
    #[must_use]
    pub fn on_trouble(mut self, on_trouble: impl FnMut(Trouble) + 'static) -> Self {
        self.on_trouble = Box::new(on_trouble);
        self
    }

    fn record(&mut self, now: Instant, clock: &Clock, line: &AccessLine<'_>) {
        if self.is_full() {
            self.make_room(now);
            if self.is_full() {
                return self.output.lose(1);
            }
        }
        self.format.write(&mut self.buffer, clock, line);
        self.due.get_or_insert(now + FLUSH_AFTER);
        if self.is_full() {
            self.make_room(now);
        }
    }

    /// Writes the buffer, as far as possible.
    fn flush(&mut self, now: Instant) {
        if self.buffer.is_empty() && !self.failing {
            return;
        }
        let written = self.output.write(&self.buffer);
        self.buffer.drain(..written.taken);
        self.failing = written.failed;
        self.due = self.failing.then(|| now + FLUSH_AFTER);
        if let Some(trouble) = written.trouble {
            (self.on_trouble)(trouble);
        }
    }

    fn is_full(&self) -> bool {
        self.buffer.len() >= FLUSH_SIZE
    }

    fn make_room(&mut self, now: Instant) {
        match self.failing {
            true => self.timeout(now),
            false => self.flush(now),
        }
    }
}

impl Observer for AccessLog {
    fn exchange_ended(&mut self, now: Instant, clock: &Clock, exchange: &ExchangeSummary<'_>) {
        self.record(now, clock, &AccessLine::of(exchange));
    }

    fn malformed(&mut self, now: Instant, clock: &Clock, peer: SocketAddr, error: PeerError) {
        self.record(now, clock, &AccessLine::malformed(peer, error));
    }

    fn timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.flush(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Lines that cannot be written now are lost.
    fn finish(&mut self, now: Instant) {
        self.flush(now);
        self.output.lose(self.buffer.iter().filter(|byte| **byte == b'\n').count() as u64);
        self.buffer.clear();
        if let Some(trouble) = self.output.end() {
            (self.on_trouble)(trouble);
        }
    }
}

impl Drop for AccessLog {
    /// Writes the buffer without retries.
    fn drop(&mut self) {
        if !self.buffer.is_empty() {
            self.output.write(&self.buffer);
        }
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.buffer.len();
        f.debug_struct("AccessLog").field("waiting", &waiting).finish_non_exhaustive()
    }
}

/// Maximum time of a line in the buffer.
pub const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// Size in bytes at which the buffer is written.
const FLUSH_SIZE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::io::{self, Read};
    use std::os::fd::OwnedFd;
    use std::rc::Rc;
    use std::thread;
    use std::time::UNIX_EPOCH;

    use fulmar_server::{RequestId, RequestSummary};
    use fulmar_sys::{self as sys, Call, Ledger};

    fn clock(now: Instant) -> Clock {
        Clock::new(UNIX_EPOCH + Duration::from_secs(784_111_777), now)
    }

    fn exchange<'a>(target: &'a [u8], user_agent: &'a [u8]) -> ExchangeSummary<'a> {
        let user_agent = Some(user_agent);
        ExchangeSummary {
            peer: ([127, 0, 0, 1], 4711).into(),
            request: RequestSummary {
                method: b"GET",
                target,
                user_agent,
                ..RequestSummary::default()
            },
            id: RequestId { server: 1, number: 2 },
            status: 200,
            bytes: 2326,
            duration: Duration::ZERO,
            complete: true,
            error: None,
            fault: None,
        }
    }

    fn writes(work: impl FnOnce()) -> u64 {
        let before = Ledger::here();
        work();
        (Ledger::here() - before).count(Call::write).calls
    }

    type Reports = Rc<RefCell<Vec<Trouble>>>;

    fn log_to(output: &Output) -> (AccessLog, Reports) {
        let reports = Reports::default();
        let log = AccessLog::new(output.clone(), Format::Combined);
        let seen = Rc::clone(&reports);
        (log.on_trouble(move |trouble| seen.borrow_mut().push(trouble)), reports)
    }

    fn file() -> (OwnedFd, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        (sys::open_log(file.path()).unwrap(), file)
    }

    fn full() -> Output {
        Output::new(sys::open_log("/dev/full".as_ref()).unwrap())
    }

    #[test]
    fn lines_are_written_together_and_in_time() {
        let ((fd, file), now) = (file(), sys::now());
        let (mut log, reports) = log_to(&Output::new(fd));
        let clock = clock(now);
        let late = now + Duration::from_millis(500);
        assert_eq!(log.poll_timeout(), None);
        let early = writes(|| {
            log.exchange_ended(now, &clock, &exchange(b"/1", b""));
            log.malformed(late, &clock, sys::UNNAMED, PeerError::BadHost);
            log.timeout(late);
        });
        assert_eq!((early, log.poll_timeout()), (0, Some(now + FLUSH_AFTER)));
        assert_eq!(writes(|| log.timeout(now + FLUSH_AFTER)), 1);
        assert_eq!(log.poll_timeout(), None);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap().lines().count(), 2);
        assert_eq!(writes(|| log.finish(late)), 0);
        assert!(reports.borrow().is_empty());
    }

    #[test]
    fn a_full_buffer_is_written_at_once_without_allocations() {
        let ((fd, file), now) = (file(), sys::now());
        let (mut log, _) = log_to(&Output::new(fd));
        let (clock, agent) = (clock(now), [b'a'; 300]);
        let exchange = exchange(b"/", &agent);
        let mut made = 0;
        let memory = allocation_counter::measure(|| {
            made = writes(|| (0..1000).for_each(|_| log.exchange_ended(now, &clock, &exchange)));
        });
        assert_eq!(memory.count_total, 0);
        assert!((5..8).contains(&made), "{made}");
        drop(log);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap().lines().count(), 1000);
    }

    #[test]
    fn a_full_disk_is_reported_once_with_lost_lines() {
        let (output, now) = (full(), sys::now());
        let (mut log, reports) = log_to(&output);
        let (mut other, others) = log_to(&output);
        let (clock, agent) = (clock(now), [b'a'; 300]);
        let tried = writes(|| {
            (0..1000).for_each(|_| log.exchange_ended(now, &clock, &exchange(b"/", &agent)));
        });
        assert_eq!(tried, 1);
        let Some(Trouble::Failed(error)) = reports.borrow_mut().pop() else { panic!("it is full") };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let lost = output.lost();
        assert!((700..1000).contains(&lost), "{lost}");
        let later = now + FLUSH_AFTER;
        assert_eq!(writes(|| log.timeout(later)), 1);
        assert_eq!(log.poll_timeout(), Some(later + FLUSH_AFTER));
        other.exchange_ended(now, &clock, &exchange(b"/", b""));
        other.finish(later);
        assert!(matches!(others.borrow()[..], [Trouble::Ended { lost: n }] if n == lost + 1));
        log.finish(later);
        assert!(matches!(reports.borrow()[..], [Trouble::Ended { lost: n }] if n + lost == 1000));
    }

    #[test]
    fn a_recovered_log_reports_lost_lines() {
        let ((good, file), now) = (file(), sys::now());
        let output = full();
        let (mut log, reports) = log_to(&output);
        let (clock, agent) = (clock(now), [b'a'; 300]);
        (0..1000).for_each(|_| log.exchange_ended(now, &clock, &exchange(b"/", &agent)));
        let lost = output.lost();
        output.reopen(good);
        log.exchange_ended(now + FLUSH_AFTER, &clock, &exchange(b"/last", b""));
        log.finish(now + FLUSH_AFTER);
        let reports = reports.borrow();
        assert!(
            matches!(
                reports[..],
                [Trouble::Failed(_), Trouble::Recovered { lost: n }] if n == lost
            ),
            "{reports:?}"
        );
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text.lines().count() as u64, 1001 - lost);
        assert!(text.lines().last().unwrap().contains("/last"));
    }

    #[test]
    fn the_rest_of_a_line_is_written_when_the_pipe_has_room() {
        let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        let output = Output::new(writer.into());
        let (mut log, _) = log_to(&output);
        let mut now = sys::now();
        let (clock, agent) = (clock(now), [b'a'; 2000]);
        let mut sent = 0;
        while output.lost() == 0 {
            log.exchange_ended(now, &clock, &exchange(format!("/{sent}").as_bytes(), &agent));
            sent += 1;
        }
        let (mut text, mut piece) = (Vec::new(), [0; 100_000]);
        reader.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        while let Ok(n) = reader.read(&mut piece) {
            text.extend_from_slice(&piece[..n]);
            now += FLUSH_AFTER;
            log.timeout(now);
        }
        let text = String::from_utf8(text).unwrap();
        for (at, line) in text.lines().enumerate() {
            assert!(line.contains(&format!("GET /{at} ")) && line.ends_with("aa\""), "{line}");
        }
        assert_eq!(text.lines().count(), sent - 1);
    }

    /// A pipe takes 4 KB atomically, and the buffer has 64 KB.
    #[test]
    fn threads_that_share_a_pipe_write_whole_lines() {
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let output = Output::new(writer.into());
        let body = |name: char| {
            let output = output.clone();
            move || {
                let (mut log, now) = (log_to(&output).0, sys::now());
                let (clock, agent) = (clock(now), [b'a'; 1500]);
                for at in 0..LINES {
                    log.exchange_ended(
                        now,
                        &clock,
                        &exchange(format!("/{name}{at}").as_bytes(), &agent),
                    );
                }
                log.finish(now);
            }
        };
        let text = thread::scope(|scope| {
            scope.spawn(body('a'));
            scope.spawn(body('b'));
            let lines = io::BufRead::lines(io::BufReader::new(reader)).take(2 * LINES);
            lines.collect::<Result<Vec<_>, _>>().unwrap()
        });
        for name in ["/a", "/b"] {
            let own = text.iter().filter(|line| line.contains(&format!("\"GET {name}")));
            for (at, line) in own.enumerate() {
                assert!(line.contains(&format!("{name}{at} ")) && line.ends_with("aa\""), "{line}");
            }
        }
        assert!(text.iter().all(|line| line.starts_with("127.0.0.1 ") && line.len() < 1700));
    }

    const LINES: usize = 500;
}
