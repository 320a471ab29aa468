//! Pages that are not proxied: statistics and metrics, made by whoever runs the proxy.

use std::fmt;
use std::time::SystemTime;

use fulmar_haproxy::model::{StatsPage, UserSecret};
use fulmar_haproxy::rules::RequestHead;
use fulmar_proto::HeaderBuf;
use fulmar_semantics::auth::is_same_secret;

/// Makes pages. Called on the thread that serves them.
pub trait Services: fmt::Debug {
    /// The statistics page, in the form that the request asks for, or what came of the change that
    /// it asks for: `body` is that of a POST; `None`: it was too long, or has not come in time.
    /// `may_change`: `stats admin` allows it.
    fn statistics(
        &mut self,
        page: &StatsPage,
        request: &RequestHead,
        body: Option<&[u8]>,
        may_change: bool,
    ) -> Page;

    /// What Prometheus asks for.
    fn metrics(&mut self, request: &RequestHead) -> Page;

    /// The time of day. It is asked for once a minute at most.
    fn wall_clock(&self) -> SystemTime;

    /// The name of this machine.
    fn hostname(&self) -> &str {
        ""
    }

    /// True if a password is the one that a user of a list has.
    fn is_secret(&self, secret: &UserSecret, password: &str) -> bool {
        matches!(secret, UserSecret::Clear(known) if is_same_secret(known, password))
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its status.
    pub status: u16,
    /// Its fields, but for its length.
    pub fields: HeaderBuf,
    /// Its body.
    pub body: Vec<u8>,
}
