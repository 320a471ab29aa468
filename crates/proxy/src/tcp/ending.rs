//! How a session ended: the first two letters of what HAProxy calls the termination state (its
//! configuration manual, §8.5).

/// What ended a session, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) by: By,
    pub(super) when: When,
}

/// The first letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Regular end.
    Nobody,
    /// The client closed or aborted.
    Client,
    /// The server closed, aborted or refused.
    Server,
    /// A rule.
    Proxy,
    /// Descriptors or memory ran out.
    Resources,
    /// The server was marked down.
    Down,
    /// An operator.
    Killed,
    /// A client timeout.
    ClientTimeout,
    /// A server timeout, while connecting, relaying or queued.
    ServerTimeout,
}

/// The second letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// At the regular end.
    End,
    /// Before the selection of a server.
    Request,
    /// In the queue.
    Queue,
    /// Before the server's connection was established.
    Connect,
    /// While relaying.
    Data,
}

impl Ending {
    pub(super) const NORMAL: Self = Self { by: By::Nobody, when: When::End };

    /// The letters in logs.
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
