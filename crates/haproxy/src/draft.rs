//! Sections while they are parsed: settings so far, inherited settings, and names that are resolved
//! at the end.

mod bind;
mod server;
mod tls;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::checks::CheckDraft;
use crate::model::{
    BackendConfig, FrontendConfig, Global, LogTarget, Mode, ProxyOptions, StatsPage,
};
use crate::position::{LineRef, NameReference};
use crate::rules::condition::Acls;
use crate::rules::eval_context_mut::CaptureSlot;
use crate::rules::format::Standard;
use crate::rules::http::HttpRule;
use crate::rules::reply::ErrorPages;
use crate::rules::tcp::TcpRule;
use crate::rules::{Condition, FormatString, Lists, Word};

pub(crate) use bind::BindDraft;
pub(crate) use server::ServerDraft;
pub(crate) use tls::TlsWords;

/// The `global` section.
#[derive(Clone, Debug, Default)]
pub(crate) struct Globals {
    pub(crate) model: Global,
    /// `default-path`.
    pub(crate) paths: Paths,
    /// ACL lists and maps named so far.
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
    /// Environment changes of `setenv` and so on: a name and its value, or `None`.
    pub(crate) variables: Vec<(String, Option<String>)>,
    /// `http-errors` sections so far.
    pub(crate) error_groups: BTreeMap<String, ErrorPages>,
}

impl Globals {
    /// A copy for parsing a line of `global`, without the members that grow with each line.
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

/// The base of relative paths of files.
#[derive(Clone, Debug, Default)]
pub(crate) enum Paths {
    /// The working directory.
    #[default]
    Current,
    /// The directory of the configuration file.
    Config,
    /// The parent of that directory.
    Parent,
    /// This directory.
    Origin(PathBuf),
}

/// A proxy or a `defaults` section. Proxies inherit all settings of their `defaults` section that
/// apply to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProxyDraft {
    pub(crate) kind: ProxySection,
    pub(crate) name: String,
    pub(crate) spot: Option<LineRef>,
    pub(crate) id: Option<u32>,
    pub(crate) mode: Mode,
    pub(crate) disabled: bool,
    pub(crate) description: Option<String>,
    pub(crate) options: ProxyOptions,
    /// Settings of frontends only.
    pub(crate) frontend: FrontendConfig,
    /// Settings of backends only.
    pub(crate) backend: BackendConfig,
    /// Declared ACLs.
    pub(crate) acls: Acls,
    pub(crate) logs: Vec<LogTarget>,
    /// `log global`.
    pub(crate) logs_global: bool,
    pub(crate) log_format: LogFormat,
    pub(crate) unique_id_format: Option<Arc<FormatString>>,
    pub(crate) unique_id_header: Option<String>,
    pub(crate) errors: ErrorPages,
    pub(crate) connection_rules: Vec<TcpRule>,
    pub(crate) session_rules: Vec<TcpRule>,
    pub(crate) content_rules: Vec<TcpRule>,
    pub(crate) response_content_rules: Vec<TcpRule>,
    pub(crate) request_rules: Vec<HttpRule>,
    /// `redirect`: evaluated after the rules above.
    pub(crate) redirects: Vec<HttpRule>,
    pub(crate) response_rules: Vec<HttpRule>,
    pub(crate) after_response_rules: Vec<HttpRule>,
    pub(crate) stats: Option<StatsPage>,
    /// The `stats` lines are from `defaults`: the first own line replaces them.
    pub(crate) stats_inherited: bool,
    pub(crate) binds: Vec<BindDraft>,
    pub(crate) servers: Vec<ServerDraft>,
    /// `default-server`.
    pub(crate) default_server: ServerDraft,
    pub(crate) check: CheckDraft,
    pub(crate) default_backend: Option<NameReference>,
    pub(crate) use_backends: Vec<(BackendReference, Option<Condition>)>,
    pub(crate) use_servers: Vec<(NameReference, Condition)>,
    /// `load-server-state-from-file`.
    pub(crate) states: StatesDraft,
    /// `server-state-file-name`, if it is not the backend's name.
    pub(crate) state_file: Option<String>,
    /// `dynamic-cookie-key`.
    pub(crate) dynamic_cookie_key: Option<String>,
    /// Capture slots that rules fill and that must be declared, perhaps by another section.
    pub(crate) named_slots: Vec<(CaptureSlot, LineRef, u32)>,
    /// Lines that are ignored without `mode http`.
    pub(crate) http_only: Vec<(LineRef, Word)>,
}

/// The kind of section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProxySection {
    #[default]
    Defaults,
    Frontend,
    Backend,
    Listen,
}

/// Where server states are loaded from at the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum StatesDraft {
    /// Not loaded.
    #[default]
    Unread,
    /// The file of all backends.
    Global,
    /// A file of this backend.
    Local,
}

/// The log format.
#[derive(Clone, Debug, Default)]
pub(crate) enum LogFormat {
    /// The default: source and destination of connections.
    #[default]
    Plain,
    /// `option tcplog`.
    Tcp,
    /// `option httplog` and `httpslog`, which require mode http.
    Http(Standard, LineRef, Word),
    /// `log-format`.
    Own(Arc<FormatString>),
}

/// The backend of a `use_backend` line.
#[derive(Clone, Debug)]
pub(crate) enum BackendReference {
    Named(NameReference),
    Computed(FormatString),
}

impl ProxySection {
    /// The keyword of the section.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Defaults => "defaults",
            Self::Frontend => "frontend",
            Self::Backend => "backend",
            Self::Listen => "listen",
        }
    }

    /// True if it has a frontend.
    pub(crate) fn is_front(self) -> bool {
        matches!(self, Self::Frontend | Self::Listen)
    }

    /// True if it has a backend.
    pub(crate) fn is_back(self) -> bool {
        matches!(self, Self::Backend | Self::Listen)
    }
}

impl ProxyDraft {
    /// A new section, with the settings of `defaults`.
    pub(crate) fn begin(
        kind: ProxySection,
        name: String,
        spot: LineRef,
        defaults: Option<&Self>,
    ) -> Self {
        let mut draft = defaults.cloned().unwrap_or_else(Self::with_defaults);
        draft.kind = kind;
        draft.name = name;
        draft.spot = Some(spot);
        draft.stats_inherited = draft.stats.is_some();
        draft.check.inherited = true;
        draft.http_only.clear();
        draft.acls.clear();
        draft
    }

    /// The keyword of rules in a `defaults` section that a proxy of this kind cannot have.
    pub(crate) fn disallowed_rules(&self, kind: ProxySection) -> Option<&'static str> {
        let of_http = [&self.request_rules, &self.response_rules, &self.after_response_rules];
        match kind {
            ProxySection::Defaults if of_http.iter().any(|rules| !rules.is_empty()) => {
                Some("http-request")
            }
            ProxySection::Defaults if !self.content_rules.is_empty() => Some("tcp-request content"),
            ProxySection::Frontend | ProxySection::Defaults
                if !self.response_content_rules.is_empty() =>
            {
                Some("tcp-response content")
            }
            ProxySection::Backend | ProxySection::Defaults if !self.connection_rules.is_empty() => {
                Some("tcp-request connection")
            }
            ProxySection::Backend | ProxySection::Defaults if !self.session_rules.is_empty() => {
                Some("tcp-request session")
            }
            _ => None,
        }
    }

    /// Default settings.
    fn with_defaults() -> Self {
        let mut draft = Self::default();
        draft.backend.retries = RETRIES;
        draft
    }
}

/// Default of `retries`.
const RETRIES: u32 = 3;
