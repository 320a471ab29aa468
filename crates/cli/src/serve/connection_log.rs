//! Reports of connections that failed below HTTP.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulmar_proto::Phase;
use fulmar_server::{End, Observer};
use fulmar_tls::TlsError;

use crate::output::warn;

/// Prints a line for each connection whose handshake or TLS failed, a few in a minute. Clones share
/// that budget.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionLog(Arc<Mutex<LineBudget>>);

impl ConnectionLog {
    /// Reports, at the end, how many failures were not printed.
    pub(super) fn finish(&self) {
        let unprinted = self.budget().unprinted;
        if unprinted > 0 {
            warn(&format!("{unprinted} more connections failed in their handshake or TLS"));
        }
    }

    fn budget(&self) -> MutexGuard<'_, LineBudget> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for ConnectionLog {
    fn observes_requests(&self) -> bool {
        false
    }

    fn gone(&mut self, now: Instant, peer: SocketAddr, end: &End) {
        let Some(cause) = cause(end) else { return };
        let unprinted = self.budget().spend(now);
        if let Some(unprinted) = unprinted {
            warn(&describe(peer, &cause, unprinted));
        }
    }
}

/// Why a connection failed below HTTP. A client that closes without close_notify is usual.
fn cause(end: &End) -> Option<String> {
    match end {
        End::Layer(error) if error.downcast_ref() == Some(&TlsError::Truncated) => None,
        End::Layer(error) => Some(error.to_string()),
        End::TimedOut(None | Some(Phase::Handshake)) => Some("handshake timed out".to_owned()),
        _ => None,
    }
}

fn describe(peer: SocketAddr, cause: &str, unprinted: u64) -> String {
    let mut text = format!("connection from {peer} failed: {cause}");
    if unprinted > 0 {
        text += &format!(" ({unprinted} failures before it were not printed)");
    }
    text
}

/// Lines that may still be printed.
#[derive(Debug, Default)]
struct LineBudget {
    since: Option<Instant>,
    printed: u32,
    unprinted: u64,
}

impl LineBudget {
    /// Takes a line from the budget, and returns how many were not printed before it.
    fn spend(&mut self, now: Instant) -> Option<u64> {
        let is_over = |since| now.saturating_duration_since(since) >= PERIOD;
        if self.since.is_none_or(is_over) {
            (self.since, self.printed) = (Some(now), 0);
        }
        if self.printed == LINES_MAX {
            self.unprinted += 1;
            return None;
        }
        self.printed += 1;
        Some(std::mem::take(&mut self.unprinted))
    }
}

/// The lines that are printed in this time.
const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::io;

    use fulmar_sys as sys;

    use super::*;

    #[test]
    fn a_flood_of_failures_prints_a_few_lines_in_a_minute() {
        let (start, mut budget) = (sys::now(), LineBudget::default());
        let lines = (0..1_000).filter_map(|n| budget.spend(start + Duration::from_millis(n)));
        assert_eq!(lines.collect::<Vec<_>>(), [0; LINES_MAX as usize]);
        assert_eq!(budget.spend(start + PERIOD), Some(990));
        assert_eq!(budget.spend(start + PERIOD), Some(0));
    }

    #[test]
    fn failures_name_address_and_cause() {
        let peer = ([192, 0, 2, 7], 80).into();
        let line = |end, unprinted| cause(&end).map(|cause| describe(peer, &cause, unprinted));
        assert_eq!(
            line(End::Layer(TlsError::NotTls.into()), 0).as_deref(),
            Some("connection from 192.0.2.7:80 failed: peer does not use TLS on this port")
        );
        assert_eq!(
            line(End::TimedOut(Some(Phase::Handshake)), 7).as_deref(),
            Some(
                "connection from 192.0.2.7:80 failed: handshake timed out (7 failures before it \
                 were not printed)"
            )
        );
        for usual in [
            End::Closed,
            End::Layer(TlsError::Truncated.into()),
            End::TimedOut(Some(Phase::Idle)),
            End::Failed(io::ErrorKind::ConnectionReset.into()),
        ] {
            assert_eq!(line(usual, 0), None);
        }
    }
}
