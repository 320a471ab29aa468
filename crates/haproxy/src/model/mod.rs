//! What a configuration says, once it is read.
//!
//! A `listen` section is a frontend and a backend of the same name, the one leading to the other.

mod backend;
mod bind;
mod frontend;
mod global;
mod options;
mod server;

use std::sync::Arc;

pub use backend::{
    Algorithm, Backend, BackendTimeouts, CookieInsert, CookieMode, HashFunction, HashKind,
    StateSource, Stick,
};
pub use bind::{Bind, BindAddress, BindCertificate, BindTls, ClientVerify, TlsVersion};
pub use frontend::{
    Admin, Capture, ErrorResponses, Frontend, FrontendTimeouts, LogAddress, LogLine, LogOptions,
    LogTarget, StatsPage, Target, UseBackend,
};
pub use global::{Global, Level, StatsSocket, Tune};
pub use options::{ForwardFor, HttpMode, Options, ProbeTimes, Splice};
pub use server::{
    Check, CheckKind, CheckProtocol, CheckRequest, Expect, Expected, MySqlLogin, Observe, OnError,
    Resolve, RetryOn, Reuse, Server, ServerAddress, ServerCheck, ServerProxy, ServerTls, TcpStep,
};

/// A configuration that was read without an error.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The `global` section.
    pub global: Global,
    /// In the order of the text.
    pub frontends: Vec<Arc<Frontend>>,
    /// In the order of the text. [`BackendId`] counts them.
    pub backends: Vec<Arc<Backend>>,
    /// Users, by the name of their list.
    pub userlists: Vec<Arc<Userlist>>,
    /// Lists of patterns, and maps: an operator may change them.
    pub lists: crate::rules::Lists,
    /// Some line may ask what a client has connected to (`dst`, `%fi` and their like).
    pub asks_destination: bool,
}

/// A backend: its place in [`Config::backends`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(pub usize);

/// A server: its place in [`Backend::servers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId(pub usize);

/// Where something stands in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// From 1.
    pub line: u32,
}

/// What is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Bytes, which nobody looks into.
    #[default]
    Tcp,
    /// HTTP.
    Http,
}

/// Users and groups that rules and the statistics page ask for.
#[derive(Clone, Debug, Default)]
pub struct Userlist {
    /// Its name.
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
    pub secret: Secret,
    /// Groups that the user is in.
    pub groups: Vec<String>,
}

/// What a user knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// In clear.
    Clear(String),
    /// As crypt(3) has it: `$2y$…` (bcrypt), `$5$…`, `$6$…`.
    Crypt(String),
}

impl Default for Secret {
    fn default() -> Self {
        Self::Clear(String::new())
    }
}
