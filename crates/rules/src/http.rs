//! Rules on requests and responses (HAProxy's manual, §4.2, `http-request` and its like).

use crate::condition::Condition;

/// A rule: what to do, and when.
#[derive(Clone, Debug)]
pub struct HttpRule {
    /// What to do.
    pub action: HttpAction,
    /// When; always, if there is none.
    pub condition: Option<Condition>,
}

/// What a rule does to a request or a response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HttpAction {
    /// No further rule of this set is looked at.
    Allow,
}
