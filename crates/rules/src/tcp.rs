//! Rules on connections and their first bytes (HAProxy's manual, §4.2, `tcp-request`).

use crate::condition::Condition;

/// A rule: what to do, and when.
#[derive(Clone, Debug)]
pub struct TcpRule {
    /// What to do.
    pub action: TcpAction,
    /// When; always, if there is none.
    pub condition: Option<Condition>,
}

/// What a rule does to a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TcpAction {
    /// No further rule of this set is looked at.
    Accept,
    /// The connection ends.
    Reject,
}
