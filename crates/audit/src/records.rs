//! Where the handshake of TLS ends, by the headers of its records (RFC 8446 §5.1, RFC 5246 §6.2.1).
//!
//! Pure. Only what the side sends that asks is looked at, and only the beginning of what a call
//! moved: what lies behind is taken to end with a record.

/// The records of the side that asks, until its part of the handshake is done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Records {
    /// So many bytes of a record are still to come.
    left: u64,
    /// How many there were.
    count: u32,
    /// The content type of the last one.
    last: u8,
    /// It was the last of the handshake.
    is_finished: bool,
}

/// What a call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Records of the handshake, and others follow.
    Handshake,
    /// The end of the handshake.
    Done,
    /// That, and the beginning of a request.
    DoneAndMore,
    /// The beginning of a request: the handshake was done before.
    Data,
}

impl Records {
    /// So many bytes more, of which the first are given.
    ///
    /// TLS 1.3 hides the last record of the handshake as data: the first such record is it. Before,
    /// it is a record of the handshake that follows others: then the first with data brings data.
    pub(crate) fn take(&mut self, size: u64, bytes: &[u8]) -> Progress {
        let mut at = self.left;
        while at < size {
            let header = header(bytes, at);
            let is_data = header.is_some_and(|(kind, _)| kind == APPLICATION_DATA);
            if self.is_finished || (is_data && self.last == HANDSHAKE && self.count > 1) {
                return if at == 0 { Progress::Data } else { Progress::DoneAndMore };
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
        if self.is_finished && self.left == 0 { Progress::Done } else { Progress::Handshake }
    }
}

/// True if a handshake begins with these bytes, of which one is enough: no method begins so.
pub(crate) fn is_handshake(bytes: &[u8]) -> bool {
    matches!(bytes, [HANDSHAKE] | [HANDSHAKE, 3, ..])
}

/// True if these bytes are an alert, which ends a connection. TLS 1.3 hides alerts as data; they are
/// known by their length: two bytes, a type and a tag of 16 bytes.
pub(crate) fn is_alert(bytes: &[u8]) -> bool {
    matches!(bytes, [ALERT, 3, ..] | [APPLICATION_DATA, 3, _, 0, 19, ..])
}

/// The content type and the length of the record that begins there.
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

    /// What is found in the flights of a client, in pieces of at most so many bytes.
    fn taken(flights: &[Vec<u8>], piece: usize) -> Progress {
        let mut records = Records::default();
        let mut last = Progress::Handshake;
        for bytes in flights.iter().flat_map(|flight| flight.chunks(piece)) {
            last = records.take(bytes.len() as u64, &bytes[..bytes.len().min(64)]);
        }
        last
    }

    const CHANGE: u8 = 20;

    /// The kinds of the records of a client, by flights, and what its last one brings.
    const FLIGHTS: &[(&[&[u8]], Progress)] = &[
        (&[&[HANDSHAKE]], Progress::Handshake),
        (&[&[HANDSHAKE], &[CHANGE, APPLICATION_DATA]], Progress::Done), // 1.3
        (&[&[HANDSHAKE], &[APPLICATION_DATA]], Progress::Done),
        (&[&[HANDSHAKE], &[CHANGE, APPLICATION_DATA, APPLICATION_DATA]], Progress::DoneAndMore),
        (&[&[HANDSHAKE], &[APPLICATION_DATA], &[APPLICATION_DATA]], Progress::Data),
        (&[&[HANDSHAKE], &[HANDSHAKE, CHANGE, HANDSHAKE]], Progress::Handshake), // 1.2
        (&[&[HANDSHAKE], &[HANDSHAKE, CHANGE, HANDSHAKE], &[APPLICATION_DATA]], Progress::Data),
        (&[&[HANDSHAKE], &[CHANGE, HANDSHAKE], &[APPLICATION_DATA]], Progress::Data), // resumed
        (&[&[HANDSHAKE], &[CHANGE, HANDSHAKE, APPLICATION_DATA]], Progress::DoneAndMore),
    ];

    #[test]
    fn handshakes_end_where_they_end() {
        for (kinds, expected) in FLIGHTS {
            let flight =
                |kinds: &&[u8]| kinds.iter().flat_map(|kind| record(*kind, 16)).collect::<Vec<_>>();
            let flights: Vec<_> = kinds.iter().map(flight).collect();
            assert_eq!(taken(&flights, 1_000), *expected, "{kinds:?}");
        }
    }

    /// Each record's header, and then what follows it, by calls of their own.
    #[test]
    fn records_may_come_in_pieces() {
        let mut records = Records::default();
        for (kind, progress) in [
            (HANDSHAKE, Progress::Handshake),
            (CHANGE, Progress::Handshake),
            (APPLICATION_DATA, Progress::Done),
        ] {
            let bytes = record(kind, 200);
            assert_eq!(records.take(5, &bytes[..5]), Progress::Handshake);
            assert_eq!(records.take(120, &bytes[5..69]), Progress::Handshake);
            assert_eq!(records.take(80, &bytes[125..189]), progress);
        }
    }

    #[test]
    fn what_is_behind_what_was_looked_at_ends_with_a_record() {
        let mut records = Records::default();
        assert_eq!(records.take(205, &record(HANDSHAKE, 200)[..64]), Progress::Handshake);
        let long = record(HANDSHAKE, 130);
        assert_eq!(records.take(135 + 6 + 45, &long[..64]), Progress::Handshake);
        assert_eq!(records.take(45, &record(APPLICATION_DATA, 40)), Progress::Data);
    }

    #[test]
    fn alerts_are_known_in_both_versions() {
        assert!(is_alert(&record(ALERT, 26)) && is_alert(&record(APPLICATION_DATA, 19)));
        assert!(!is_alert(&record(APPLICATION_DATA, 20)) && !is_alert(b"\x15") && !is_alert(b""));
        assert!(is_handshake(&record(HANDSHAKE, 1)) && !is_handshake(b"GET / HTTP/1.1"));
    }
}
