//! How a session ended: the first two letters of what HAProxy calls the termination state (its
//! configuration manual, §8.5).

/// What ended a session, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionEnd {
    pub(super) by: EndCause,
    pub(super) when: EndPhase,
}

/// The first letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCause {
    /// Regular end.
    Regular,
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
pub(super) enum EndPhase {
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

impl SessionEnd {
    pub(super) const NORMAL: Self = Self { by: EndCause::Regular, when: EndPhase::End };

    /// The letters in logs.
    pub(super) fn letters(self) -> [u8; 2] {
        let by = match self.by {
            EndCause::Regular => b'-',
            EndCause::Client => b'C',
            EndCause::Server => b'S',
            EndCause::Proxy => b'P',
            EndCause::Resources => b'R',
            EndCause::Down => b'D',
            EndCause::Killed => b'K',
            EndCause::ClientTimeout => b'c',
            EndCause::ServerTimeout => b's',
        };
        let when = match self.when {
            EndPhase::End => b'-',
            EndPhase::Request => b'R',
            EndPhase::Queue => b'Q',
            EndPhase::Connect => b'C',
            EndPhase::Data => b'D',
        };
        [by, when]
    }
}
