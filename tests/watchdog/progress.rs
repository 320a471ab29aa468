//! Which tests are running, and which of them hang, from what a test binary prints.
//!
//! Pure: output and times go in, names come out. With several threads libtest names a test only
//! after its end, or when it "has been running for over 60 seconds". With one thread it prints the
//! name, and later, on the same line, the result.

use std::collections::BTreeMap;
use std::time::Duration;

/// What is known of a test binary. Times count from its start.
#[derive(Debug)]
pub(crate) struct TestProgress {
    /// How long a test may run, and how long nothing may be printed.
    limit: Duration,
    /// When the last output came.
    last: Duration,
    /// The line that is not complete.
    line: Vec<u8>,
    /// Tests reported as slow, and since when they have run.
    slow: BTreeMap<String, Duration>,
}

/// A binary that hangs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hang {
    /// Its tests that are known to run, and for how long.
    pub(crate) running: Vec<(String, Duration)>,
    /// How long nothing has been printed.
    pub(crate) silence: Duration,
}

impl TestProgress {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, last: Duration::ZERO, line: Vec::new(), slow: BTreeMap::new() }
    }

    /// Takes the next piece of standard output.
    pub(crate) fn handle_output(&mut self, now: Duration, bytes: &[u8]) {
        self.last = now;
        for byte in bytes {
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.handle_line(now, &String::from_utf8_lossy(&line));
            } else if self.line.len() < LINE_LEN_MAX {
                self.line.push(*byte);
            }
        }
    }

    fn handle_line(&mut self, now: Duration, line: &str) {
        let Some(test) = line.strip_prefix("test ") else { return };
        if let Some(name) = test.strip_suffix(SLOW) {
            self.slow.insert(name.to_owned(), now.saturating_sub(SLOW_AFTER));
        } else if let Some((name, _result)) = test.split_once(RESULT_FOLLOWS) {
            self.slow.remove(name);
        }
    }

    /// The tests that have run for longer than the limit, or `None` if the binary goes on.
    pub(crate) fn hang(&self, now: Duration) -> Option<Hang> {
        let silence = now.saturating_sub(self.last);
        let slow = self.slow.iter().map(|(name, start)| (name, now.saturating_sub(*start)));
        let is_late = |(_, time): &(&String, Duration)| *time >= self.limit;
        if silence < self.limit && !slow.clone().any(|test| is_late(&test)) {
            return None;
        }
        let mut running: Vec<_> = slow.map(|(name, time)| (name.clone(), time)).collect();
        let line = String::from_utf8_lossy(&self.line);
        let begun = line.strip_prefix("test ").and_then(|test| test.split_once(RESULT_FOLLOWS));
        running.extend(begun.map(|(name, _)| (name.to_owned(), silence)));
        Some(Hang { running, silence })
    }

    /// Restarts the times of all tests: cargo kept them waiting.
    pub(crate) fn excuse(&mut self, now: Duration) {
        self.last = now;
        self.slow.values_mut().for_each(|start| *start = now);
    }
}

const SLOW: &str = " has been running for over 60 seconds";
const SLOW_AFTER: Duration = Duration::from_secs(60);
const RESULT_FOLLOWS: &str = " ... ";
/// The names of our tests are much shorter; what tests print themselves may be longer.
const LINE_LEN_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(120);

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn names(hang: Option<Hang>) -> Vec<(String, u64)> {
        let running = hang.map(|hang| hang.running).unwrap_or_default();
        running.into_iter().map(|(name, time)| (name, time.as_secs())).collect()
    }

    #[test]
    fn a_slow_test_hangs_after_the_limit_although_others_end() {
        let mut progress = TestProgress::new(LIMIT);
        progress.handle_output(at(1), b"\nrunning 3 tests\ntest a::quick ... ok\n");
        progress.handle_output(at(65), b"test a::b has been running for over 60 seconds\n");
        progress.handle_output(at(66), b"test c has been running for over 60 seconds\n");
        progress.handle_output(at(110), b"test c ... ok\n");
        progress.handle_output(at(124), b"test d ... FAILED\n");
        assert_eq!(progress.hang(at(124)), None);
        assert_eq!(names(progress.hang(at(125))), [("a::b".to_owned(), 120)]);
    }

    #[test]
    fn the_test_of_an_unfinished_line_hangs() {
        let mut progress = TestProgress::new(LIMIT);
        progress.handle_output(at(0), b"test a ... ok\ntest b");
        progress.handle_output(at(3), b" ... ");
        assert_eq!(progress.hang(at(122)), None);
        assert_eq!(names(progress.hang(at(123))), [("b".to_owned(), 120)]);
        progress.handle_output(at(123), b"ok\n");
        assert_eq!(progress.hang(at(200)), None);
    }

    #[test]
    fn silence_is_a_hang_without_a_name() {
        let progress = TestProgress::new(LIMIT);
        assert_eq!(progress.hang(at(119)), None);
        let hang = progress.hang(at(120)).expect("nothing was printed");
        assert_eq!((hang.running.len(), hang.silence), (0, LIMIT));
    }

    #[test]
    fn an_excused_test_has_its_whole_time_again() {
        let mut progress = TestProgress::new(LIMIT);
        progress.handle_output(at(60), b"test a has been running for over 60 seconds\n");
        assert!(progress.hang(at(120)).is_some());
        progress.excuse(at(120));
        assert_eq!(progress.hang(at(239)), None);
        assert_eq!(names(progress.hang(at(240))), [("a".to_owned(), 120)]);
    }

    #[test]
    fn long_lines_and_any_bytes_are_no_tests() {
        let mut progress = TestProgress::new(LIMIT);
        progress.handle_output(at(1), &[b'x'; 3 * LINE_LEN_MAX]);
        assert_eq!(progress.line.len(), LINE_LEN_MAX);
        progress.handle_output(at(2), b"\xff\0\ntest \xff ... \ntest\n");
        assert_eq!(names(progress.hang(at(200))), []);
    }
}
