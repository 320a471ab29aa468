//! How a session ended: the first two letters of what HAProxy calls the termination state (its
//! configuration manual, §8.5).

/// Who ended it, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) by: By,
    pub(super) when: When,
}

/// The first letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Everything was said.
    Nobody,
    /// The client went away.
    Client,
    /// The server went away, or was not there.
    Server,
    /// A rule.
    Proxy,
    /// Descriptors or memory ran out.
    Resources,
    /// The server was marked down.
    Down,
    /// An operator.
    Killed,
    /// The client was silent for too long.
    ClientTimeout,
    /// The server was, or did not connect in time, or nobody had a place in time.
    ServerTimeout,
}

/// The second letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// At a proper end.
    End,
    /// Before a server was to be chosen.
    Request,
    /// While it waited for a place.
    Queue,
    /// Before the server's connection stood.
    Connect,
    /// While bytes passed.
    Data,
}

impl Ending {
    pub(super) const NORMAL: Self = Self { by: By::Nobody, when: When::End };

    /// As logs have it.
    pub(super) fn letters(self) -> [u8; 2] {
        let by = match self.by {
            By::Nobody => b'-',
            By::Client => b'C',
            By::Server => b'S',
            By::Proxy => b'P',
            By::Resources => b'R',
            By::Down => b'D',
            By::Killed => b'K',
            By::ClientTimeout => b'c',
            By::ServerTimeout => b's',
        };
        let when = match self.when {
            When::End => b'-',
            When::Request => b'R',
            When::Queue => b'Q',
            When::Connect => b'C',
            When::Data => b'D',
        };
        [by, when]
    }
}
