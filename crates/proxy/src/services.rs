//! Pages that are not proxied: statistics and metrics. The program that runs the proxy implements
//! them.

use std::fmt;
use std::time::SystemTime;

use fulmar_haproxy::model::{StatsPage, UserSecret};
use fulmar_haproxy::rules::RequestHead;
use fulmar_proto::HeaderBuf;
use fulmar_semantics::auth::is_same_secret;

/// Generates pages, on the thread that serves them.
pub trait Services: fmt::Debug {
    /// The statistics page in the requested form, or the result of a requested change. `body` is
    /// the body of a POST request; `None` if it was too long or late. `may_change`: `stats admin`
    /// permits changes.
    fn statistics(
        &mut self,
        page: &StatsPage,
        request: &RequestHead,
        body: Option<&[u8]>,
        may_change: bool,
    ) -> GeneratedPage;

    /// The metrics for Prometheus.
    fn metrics(&mut self, request: &RequestHead) -> GeneratedPage;

    /// The time of day. It is read at most once a minute.
    fn wall_clock(&self) -> SystemTime;

    /// The name of this machine.
    fn hostname(&self) -> &str {
        ""
    }

    /// True if the password matches a user's secret.
    fn is_secret(&self, secret: &UserSecret, password: &str) -> bool {
        matches!(secret, UserSecret::Clear(known) if is_same_secret(known, password))
    }
}

/// A generated response.
#[derive(Clone, Debug)]
pub struct GeneratedPage {
    /// The status.
    pub status: u16,
    /// The header fields, without the length.
    pub fields: HeaderBuf,
    /// The body.
    pub body: Vec<u8>,
}
