//! Sections while they are read: what is known so far, what was inherited, what is to be looked up
//! when everything has been read.

mod bind;
mod server;
mod tls;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::checks::CheckDraft;
use crate::model::{Backend, Frontend, Global, LogTarget, Mode, Options, StatsPage};
use crate::rules::condition::Acls;
use crate::rules::exchange::Slot;
use crate::rules::format::Standard;
use crate::rules::http::HttpRule;
use crate::rules::reply::ErrorPages;
use crate::rules::tcp::TcpRule;
use crate::rules::{Condition, Format, Lists, Word};
use crate::spot::{Reference, Spot};

pub(crate) use bind::BindDraft;
pub(crate) use server::ServerDraft;
pub(crate) use tls::TlsWords;

/// What is said for the whole process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Globals {
    pub(crate) model: Global,
    /// `default-path`.
    pub(crate) paths: Paths,
    /// Lists and maps that conditions and expressions name so far.
    pub(crate) lists: Lists,
    /// `server-state-base`.
    pub(crate) state_base: Option<PathBuf>,
    /// `ca-base`.
    pub(crate) ca_base: Option<PathBuf>,
    /// `crt-base`.
    pub(crate) crt_base: Option<PathBuf>,
    /// `ssl-default-bind-*`.
    pub(crate) bind_tls: TlsWords,
    /// `ssl-default-server-*`.
    pub(crate) server_tls: TlsWords,
    /// `ssl-server-verify none`.
    pub(crate) verifies_no_server: bool,
    /// What `setenv` and its relatives say: a name and its value, or none.
    pub(crate) variables: Vec<(String, Option<String>)>,
    /// `http-errors` sections so far.
    pub(crate) error_groups: BTreeMap<String, ErrorPages>,
}

impl Globals {
    /// What a line of `global` may look at while it is read: all but what grows with each of them.
    pub(crate) fn visible(&self) -> Self {
        Self {
            paths: self.paths.clone(),
            lists: self.lists.clone(),
            state_base: self.state_base.clone(),
            ca_base: self.ca_base.clone(),
            crt_base: self.crt_base.clone(),
            bind_tls: self.bind_tls.clone(),
            server_tls: self.server_tls.clone(),
            verifies_no_server: self.verifies_no_server,
            ..Self::default()
        }
    }
}

/// What relative paths of files that are read are relative to.
#[derive(Clone, Debug, Default)]
pub(crate) enum Paths {
    /// Where the program was started.
    #[default]
    Current,
    /// The directory of the file that names them.
    Config,
    /// The parent of that.
    Parent,
    /// This one.
    Origin(PathBuf),
}

/// A proxy, or a `defaults` section: what a `defaults` section holds is what proxies inherit, all
/// of it, as far as they have a use for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) spot: Option<Spot>,
    pub(crate) id: Option<u32>,
    pub(crate) mode: Mode,
    pub(crate) disabled: bool,
    pub(crate) description: Option<String>,
    pub(crate) options: Options,
    /// What only a frontend has a use for.
    pub(crate) frontend: Frontend,
    /// What only a backend has a use for.
    pub(crate) backend: Backend,
    /// Lists that were declared.
    pub(crate) acls: Acls,
    pub(crate) logs: Vec<LogTarget>,
    /// `log global`.
    pub(crate) logs_global: bool,
    pub(crate) log_format: LogFormat,
    pub(crate) unique_id_format: Option<Arc<Format>>,
    pub(crate) unique_id_header: Option<String>,
    pub(crate) errors: ErrorPages,
    pub(crate) connection_rules: Vec<TcpRule>,
    pub(crate) session_rules: Vec<TcpRule>,
    pub(crate) content_rules: Vec<TcpRule>,
    pub(crate) response_content_rules: Vec<TcpRule>,
    pub(crate) request_rules: Vec<HttpRule>,
    /// `redirect`: looked at behind the rules above.
    pub(crate) redirects: Vec<HttpRule>,
    pub(crate) response_rules: Vec<HttpRule>,
    pub(crate) after_response_rules: Vec<HttpRule>,
    pub(crate) stats: Option<StatsPage>,
    /// `stats` lines of a `defaults` section count until there is one here.
    pub(crate) stats_inherited: bool,
    pub(crate) binds: Vec<BindDraft>,
    pub(crate) servers: Vec<ServerDraft>,
    /// `default-server`.
    pub(crate) default_server: ServerDraft,
    pub(crate) check: CheckDraft,
    pub(crate) default_backend: Option<Reference>,
    pub(crate) use_backends: Vec<(Choice, Option<Condition>)>,
    pub(crate) use_servers: Vec<(Reference, Condition)>,
    /// `load-server-state-from-file`.
    pub(crate) states: StatesDraft,
    /// `server-state-file-name`, if it is not the backend's.
    pub(crate) state_file: Option<String>,
    /// `dynamic-cookie-key`.
    pub(crate) dynamic_cookie_key: Option<String>,
    /// Slots that captures fill, and that somebody else has to declare.
    pub(crate) named_slots: Vec<(Slot, Spot, u32)>,
    /// Lines that mean nothing without `mode http`.
    pub(crate) http_only: Vec<(Spot, Word)>,
}

/// Which kind of section it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Defaults,
    Frontend,
    Backend,
    Listen,
}

/// Where states of servers are read from at the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum StatesDraft {
    /// Nowhere.
    #[default]
    Unread,
    /// From the file of all backends.
    Global,
    /// From one of this backend alone.
    Local,
}

/// The format of lines of a log.
#[derive(Clone, Debug, Default)]
pub(crate) enum LogFormat {
    /// Nothing is said: where connections come from and go to.
    #[default]
    Plain,
    /// `option tcplog`.
    Tcp,
    /// `option httplog` and its relatives, which want mode http.
    Http(Standard, Spot, Word),
    /// `log-format`.
    Own(Arc<Format>),
}

/// The backend of a `use_backend` line.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    Named(Reference),
    Computed(Format),
}

impl Kind {
    /// As the text calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Defaults => "defaults",
            Self::Frontend => "frontend",
            Self::Backend => "backend",
            Self::Listen => "listen",
        }
    }

    /// It listens.
    pub(crate) fn is_front(self) -> bool {
        matches!(self, Self::Frontend | Self::Listen)
    }

    /// It has servers.
    pub(crate) fn is_back(self) -> bool {
        matches!(self, Self::Backend | Self::Listen)
    }
}

impl Draft {
    /// A section that begins here. What `defaults` said, it says too.
    pub(crate) fn begin(kind: Kind, name: String, spot: Spot, defaults: Option<&Self>) -> Self {
        let mut draft = defaults.cloned().unwrap_or_else(Self::unsaid);
        draft.kind = kind;
        draft.name = name;
        draft.spot = Some(spot);
        draft.stats_inherited = draft.stats.is_some();
        draft.check.inherited = true;
        draft.http_only.clear();
        draft.acls.clear();
        draft
    }

    /// Rules of a `defaults` section that a proxy of this kind cannot have.
    pub(crate) fn rules_foreign_to(&self, kind: Kind) -> Option<&'static str> {
        let of_http = [&self.request_rules, &self.response_rules, &self.after_response_rules];
        match kind {
            Kind::Defaults if of_http.iter().any(|rules| !rules.is_empty()) => Some("http-request"),
            Kind::Defaults if !self.content_rules.is_empty() => Some("tcp-request content"),
            Kind::Frontend | Kind::Defaults if !self.response_content_rules.is_empty() => {
                Some("tcp-response content")
            }
            Kind::Backend | Kind::Defaults if !self.connection_rules.is_empty() => {
                Some("tcp-request connection")
            }
            Kind::Backend | Kind::Defaults if !self.session_rules.is_empty() => {
                Some("tcp-request session")
            }
            _ => None,
        }
    }

    /// What holds where nothing is said.
    fn unsaid() -> Self {
        let mut draft = Self::default();
        draft.backend.retries = RETRIES;
        draft
    }
}

/// `retries`, where it is not said.
const RETRIES: u32 = 3;
