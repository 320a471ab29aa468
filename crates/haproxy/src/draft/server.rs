//! A `server` or `default-server` line while it is parsed.

use std::net::IpAddr;
use std::time::Duration;

use super::tls::TlsWords;
use crate::model::{
    OnError, Position, Resolve, ServerAddress, ServerCheck, ServerConfig, ServerProxy,
    ServerTlsConfig,
};
use crate::position::NameReference;

/// A server, or the settings of `default-server`.
#[derive(Clone, Debug)]
pub(crate) struct ServerDraft {
    /// Column of its name.
    pub(crate) column: u32,
    pub(crate) model: ServerConfig,
    /// `id`.
    pub(crate) id: Option<u32>,
    pub(crate) is_checked: bool,
    pub(crate) check: ServerCheck,
    /// `check-ssl` and `no-check-ssl`; `None`: as the server.
    pub(crate) check_tls: Option<bool>,
    pub(crate) check_send_proxy: bool,
    pub(crate) is_tls: bool,
    pub(crate) tls: ServerTlsConfig,
    /// `verify`; `None`: unset.
    pub(crate) verify: Option<bool>,
    pub(crate) ca_said: bool,
    pub(crate) words: TlsWords,
    pub(crate) resolve: Resolve,
    /// `track`: a server name, optionally with a backend name and a slash.
    pub(crate) follows: Option<NameReference>,
    /// `init-addr`: the fallback address if the name cannot be resolved.
    pub(crate) fallback: Option<IpAddr>,
}

impl Default for ServerDraft {
    fn default() -> Self {
        Self {
            column: 1,
            model: with_defaults(),
            id: None,
            is_checked: false,
            check: ServerCheck {
                interval: INTERVAL,
                fast_interval: None,
                down_interval: None,
                rise: 2,
                fall: 3,
                port: None,
                address: None,
                tls: false,
                send_proxy: false,
                sni: None,
            },
            check_tls: None,
            check_send_proxy: false,
            is_tls: false,
            tls: ServerTlsConfig::default(),
            verify: None,
            ca_said: false,
            words: TlsWords::default(),
            resolve: Resolve::Libc,
            follows: None,
            fallback: None,
        }
    }
}

/// A server with default settings.
fn with_defaults() -> ServerConfig {
    ServerConfig {
        name: String::new(),
        place: Position { file: "".into(), line: 0 },
        id: 0,
        address: ServerAddress::Unresolved(String::new()),
        written_address: String::new(),
        weight: 1,
        backup: false,
        disabled: false,
        connections_max: 0,
        connections_min: 0,
        queue_max: 0,
        cookie: None,
        check: None,
        follows: None,
        observe: None,
        on_error: OnError::default(),
        error_limit: ERRORS,
        shutdown_when_down: false,
        shutdown_backups_when_up: false,
        slow_start: None,
        send_proxy: ServerProxy::None,
        tls: None,
        source: None,
        interface: None,
        idle_max: None,
        idle_timeout: IDLE,
        reuse_max: None,
        user_timeout: None,
        redirect_prefix: None,
    }
}

/// Default of `inter`.
const INTERVAL: Duration = Duration::from_secs(2);

/// Default of `error-limit`.
const ERRORS: u32 = 10;

/// Default of `pool-purge-delay`.
const IDLE: Duration = Duration::from_secs(5);
