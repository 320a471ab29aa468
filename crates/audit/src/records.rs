//! Finds the end of a TLS handshake by the record headers (RFC 8446 §5.1, RFC 5246 §6.2.1).
//!
//! Pure. Only records from the client are examined, and only the first bytes of each call. The
//! bytes after these are assumed to end with a record.

/// The client's records until its part of the handshake is complete.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TlsRecords {
    /// Bytes of the current record still to come.
    left: u64,
    /// Number of records so far.
    count: u32,
    /// The content type of the last one.
    last: u8,
    /// The last record completed the handshake.
    is_finished: bool,
}

/// What the bytes of a call contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeProgress {
    /// Part of the handshake, which is not complete.
    Handshake,
    /// The end of the handshake.
    Done,
    /// The end of the handshake, and the beginning of a request.
    DoneAndMore,
    /// The beginning of a request; the handshake was already complete.
    Data,
}

impl TlsRecords {
    /// Takes `size` more bytes, of which the first are given.
    ///
    /// TLS 1.3 sends the last record of the handshake as application data, so the first such record
    /// ends it. In TLS 1.2 the last one is a handshake record that follows others; the first
    /// application data after it is a request.
    pub(crate) fn take(&mut self, size: u64, bytes: &[u8]) -> HandshakeProgress {
        let mut at = self.left;
        while at < size {
            let header = header(bytes, at);
            let is_data = header.is_some_and(|(kind, _)| kind == APPLICATION_DATA);
            if self.is_finished || (is_data && self.last == HANDSHAKE && self.count > 1) {
                return if at == 0 {
                    HandshakeProgress::Data
                } else {
                    HandshakeProgress::DoneAndMore
                };
            }
            let Some((kind, length)) = header else {
                at = size;
                break;
            };
            self.is_finished = kind == APPLICATION_DATA;
            self.last = kind;
            self.count = self.count.saturating_add(1);
            at += HEADER_SIZE + length;
        }
        self.left = at - size;
        if self.is_finished && self.left == 0 {
            HandshakeProgress::Done
        } else {
            HandshakeProgress::Handshake
        }
    }
}

/// True if these bytes begin a handshake. One byte is enough: no method starts with it.
pub(crate) fn is_handshake(bytes: &[u8]) -> bool {
    matches!(bytes, [HANDSHAKE] | [HANDSHAKE, 3, ..])
}

/// True if these bytes are an alert, which ends a connection. TLS 1.3 sends alerts as application
/// data; they are recognized by their length: two bytes, a type and a tag of 16 bytes.
pub(crate) fn is_alert(bytes: &[u8]) -> bool {
    matches!(bytes, [ALERT, 3, ..] | [APPLICATION_DATA, 3, _, 0, 19, ..])
}

/// The content type and the length of the record at this offset.
fn header(bytes: &[u8], at: u64) -> Option<(u8, u64)> {
    match bytes.get(usize::try_from(at).ok()?..)? {
        [kind, 3, _, high, low, ..] => Some((*kind, u64::from(u16::from_be_bytes([*high, *low])))),
        _ => None,
    }
}

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const HEADER_SIZE: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, length: u8) -> Vec<u8> {
        let mut bytes = vec![kind, 3, 3, 0, length];
        bytes.resize(5 + usize::from(length), 0);
        bytes
    }

    /// The result for a client's flights, split into pieces of at most `piece` bytes.
    fn taken(flights: &[Vec<u8>], piece: usize) -> HandshakeProgress {
        let mut records = TlsRecords::default();
        let mut last = HandshakeProgress::Handshake;
        for bytes in flights.iter().flat_map(|flight| flight.chunks(piece)) {
            last = records.take(bytes.len() as u64, &bytes[..bytes.len().min(64)]);
        }
        last
    }

    const CHANGE: u8 = 20;

    /// The record types of a client by flight, and the result for the last flight.
    const FLIGHTS: &[(&[&[u8]], HandshakeProgress)] = &[
        (&[&[HANDSHAKE]], HandshakeProgress::Handshake),
        (&[&[HANDSHAKE], &[CHANGE, APPLICATION_DATA]], HandshakeProgress::Done), // 1.3
        (&[&[HANDSHAKE], &[APPLICATION_DATA]], HandshakeProgress::Done),
        (
            &[&[HANDSHAKE], &[CHANGE, APPLICATION_DATA, APPLICATION_DATA]],
            HandshakeProgress::DoneAndMore,
        ),
        (&[&[HANDSHAKE], &[APPLICATION_DATA], &[APPLICATION_DATA]], HandshakeProgress::Data),
        (&[&[HANDSHAKE], &[HANDSHAKE, CHANGE, HANDSHAKE]], HandshakeProgress::Handshake), // 1.2
        (
            &[&[HANDSHAKE], &[HANDSHAKE, CHANGE, HANDSHAKE], &[APPLICATION_DATA]],
            HandshakeProgress::Data,
        ),
        // resumed
        (&[&[HANDSHAKE], &[CHANGE, HANDSHAKE], &[APPLICATION_DATA]], HandshakeProgress::Data),
        (&[&[HANDSHAKE], &[CHANGE, HANDSHAKE, APPLICATION_DATA]], HandshakeProgress::DoneAndMore),
    ];

    #[test]
    fn the_end_of_each_handshake_is_found() {
        for (kinds, expected) in FLIGHTS {
            let flight =
                |kinds: &&[u8]| kinds.iter().flat_map(|kind| record(*kind, 16)).collect::<Vec<_>>();
            let flights: Vec<_> = kinds.iter().map(flight).collect();
            assert_eq!(taken(&flights, 1_000), *expected, "{kinds:?}");
        }
    }

    /// Each record's header and its body in separate calls.
    #[test]
    fn records_may_come_in_pieces() {
        let mut records = TlsRecords::default();
        for (kind, progress) in [
            (HANDSHAKE, HandshakeProgress::Handshake),
            (CHANGE, HandshakeProgress::Handshake),
            (APPLICATION_DATA, HandshakeProgress::Done),
        ] {
            let bytes = record(kind, 200);
            assert_eq!(records.take(5, &bytes[..5]), HandshakeProgress::Handshake);
            assert_eq!(records.take(120, &bytes[5..69]), HandshakeProgress::Handshake);
            assert_eq!(records.take(80, &bytes[125..189]), progress);
        }
    }

    #[test]
    fn unread_bytes_are_assumed_to_end_with_a_record() {
        let mut records = TlsRecords::default();
        assert_eq!(records.take(205, &record(HANDSHAKE, 200)[..64]), HandshakeProgress::Handshake);
        let long = record(HANDSHAKE, 130);
        assert_eq!(records.take(135 + 6 + 45, &long[..64]), HandshakeProgress::Handshake);
        assert_eq!(records.take(45, &record(APPLICATION_DATA, 40)), HandshakeProgress::Data);
    }

    #[test]
    fn alerts_of_both_versions_are_recognized() {
        assert!(is_alert(&record(ALERT, 26)) && is_alert(&record(APPLICATION_DATA, 19)));
        assert!(!is_alert(&record(APPLICATION_DATA, 20)) && !is_alert(b"\x15") && !is_alert(b""));
        assert!(is_handshake(&record(HANDSHAKE, 1)) && !is_handshake(b"GET / HTTP/1.1"));
    }
}
