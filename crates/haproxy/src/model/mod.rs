//! The parsed configuration.
//!
//! A `listen` section becomes a frontend and a backend with the same name; the frontend's default
//! backend is the latter.

mod backend;
mod bind;
mod frontend;
mod global;
mod options;
mod server;

use std::sync::Arc;

pub use backend::{
    BackendConfig, BackendTimeouts, BalanceAlgorithm, CookieInsert, CookieMode, HashFunction,
    HashKind, StateSource, Stick,
};
pub use bind::{Bind, BindAddress, BindCertificate, BindTls, ClientVerify, TlsVersion};
pub use frontend::{
    BackendTarget, ErrorResponses, FrontendConfig, FrontendTimeouts, HeaderCapture, LogAddress,
    LogLine, LogOptions, LogTarget, StatsAdmin, StatsPage, UseBackend,
};
pub use global::{Global, SocketLevel, StatsSocket, Tune};
pub use options::{ForwardFor, HttpMode, ProbeTimes, ProxyOptions, Splice};
pub use server::{
    CheckExpect, CheckKind, CheckProtocol, CheckRequest, Expectation, HealthCheck, MySqlLogin,
    Observe, OnError, Resolve, RetryOn, ReuseMode, ServerAddress, ServerCheck, ServerConfig,
    ServerProxy, ServerTlsConfig, TcpStep,
};

/// A valid configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The `global` section.
    pub global: Global,
    /// In the order of the configuration.
    pub frontends: Vec<Arc<FrontendConfig>>,
    /// In the order of the configuration. [`BackendId`] is an index into it.
    pub backends: Vec<Arc<BackendConfig>>,
    /// Users, by list name.
    pub userlists: Vec<Arc<Userlist>>,
    /// ACL lists and maps, which runtime commands can change.
    pub lists: crate::rules::Lists,
    /// A rule or format may need the connection's destination address (`dst`, `%fi` and so on).
    pub needs_destination: bool,
}

/// A backend: index into [`Config::backends`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(pub usize);

/// A server: index into [`BackendConfig::servers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId(pub usize);

/// A position in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file, as named by the caller.
    pub file: Arc<str>,
    /// Line number, from 1.
    pub line: u32,
}

/// Protocol of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Bytes.
    #[default]
    Tcp,
    /// HTTP.
    Http,
}

/// Users and groups for rules and the statistics page.
#[derive(Clone, Debug, Default)]
pub struct Userlist {
    /// The name of the field.
    pub name: String,
    /// Users.
    pub users: Vec<User>,
}

/// A user.
#[derive(Clone, Debug, Default)]
pub struct User {
    /// The name.
    pub name: String,
    /// The secret.
    pub secret: UserSecret,
    /// Groups that the user is in.
    pub groups: Vec<String>,
}

/// A user's password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserSecret {
    /// Plain text.
    Clear(String),
    /// A crypt(3) hash: `$2y$…` (bcrypt), `$5$…`, `$6$…`.
    Crypt(String),
}

impl Default for UserSecret {
    fn default() -> Self {
        Self::Clear(String::new())
    }
}
