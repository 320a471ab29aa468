//! Where connects lead.

/// Where a connect to an address leads on which no engine listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRoute {
    /// It is refused: no program listens there.
    Refused,
    /// The network reports that it cannot be reached.
    Unreachable,
    /// No reply arrives.
    Silent,
    /// A scripted peer accepts: see [`super::Sim::script`].
    Script(usize),
}

/// What a connect leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectTarget {
    /// A listening socket.
    Listener(usize),
    Route(AddressRoute),
}
