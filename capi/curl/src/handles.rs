//! State of easy and multi handles. They name each other, so they are in one module.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fulmar_client::{Client, TransferId};
use fulmar_drive::{ExternalLoop, Reactor, SocketId};

use crate::auth_state::AuthState;
use crate::cache_store::{EasyAltServices, EasyHsts};
use crate::code::CurlCode;
use crate::cookie_store::EasyCookies;
use crate::easy_options::EasyOptions;
use crate::events::EventQueue;
use crate::forms::FormNode;
use crate::header_list::HeaderList;
use crate::info::{RequestInfo, TransferInfo};
use crate::known_origin::KnownOrigin;
use crate::multi_options::MultiOptions;
use crate::ntlm_lanes::NtlmLanes;
use crate::open_sockets::OpenSockets;
use crate::prepared::PreparedRequest;
use crate::rare::Rare;
use crate::share::DataShare;
use crate::static_hosts::StaticHosts;
use crate::tls_configurations::TlsConfigurations;
use crate::transfer::EasyTransfer;
use crate::values::CPointer;
use crate::websocket_state::WebSocketState;

/// An easy handle. Nothing of it is borrowed while C runs, so that callbacks may use it.
#[derive(Debug)]
pub struct Easy {
    /// The handle in C, for callbacks.
    pub(crate) handle: CPointer,
    pub(crate) state: RefCell<EasyState>,
    /// The multi handle that it was added to.
    pub(crate) multi: RefCell<Weak<Multi>>,
    /// The part of [`Easy::form`], once it is used.
    pub(crate) form: OnceCell<Rc<FormNode>>,
    /// The multi handle of `curl_easy_perform`, with its connections.
    pub(crate) private: RefCell<Option<Rc<Multi>>>,
    pub(crate) membership: Membership,
}

/// In which lists of its multi handle an easy handle is. Lists are searched only if it is there:
/// the cost of a transfer must not depend on how many others there are.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    /// Its number in [`Multi::added`].
    pub(crate) number: Cell<usize>,
    pub(crate) is_pending: Cell<bool>,
    pub(crate) is_running: Cell<bool>,
    pub(crate) is_updated: Cell<bool>,
    pub(crate) has_message: Cell<bool>,
    /// It was freed within a callback.
    pub(crate) is_closed: Cell<bool>,
}

/// State of an easy handle.
#[derive(Debug, Default)]
pub(crate) struct EasyState {
    pub(crate) options: EasyOptions,
    pub(crate) request: RequestInfo,
    pub(crate) info: Rare<TransferInfo>,
    pub(crate) auth: AuthState,
    /// The header lines of the last transfer.
    pub(crate) headers: Rare<HeaderList>,
    pub(crate) transfer: Option<Box<EasyTransfer>>,
    pub(crate) cookies: Rare<EasyCookies>,
    pub(crate) hsts: Rare<EasyHsts>,
    /// `None`: no option of alternative services was set.
    pub(crate) alt: Option<Box<EasyAltServices>>,
    /// The last connection can be used again.
    pub(crate) connection_kept: bool,
    /// The first request of the last transfer, if it can be sent again.
    pub(crate) prepared: Option<Rc<PreparedRequest>>,
    /// `CURLOPT_SHARE`.
    pub(crate) share: Option<Arc<DataShare>>,
    /// The WebSocket of the last transfer, if it had one.
    pub(crate) websocket: Option<Box<WebSocketState>>,
    /// The connection of the last transfer with `CURLOPT_CONNECT_ONLY`.
    pub(crate) connection: Option<Box<LentConnection>>,
}

/// A connection that the application uses.
#[derive(Debug)]
pub(crate) struct LentConnection {
    /// The multi handle of its client: the numbers below are of that client.
    pub(crate) multi: Weak<Multi>,
    pub(crate) id: TransferId,
    pub(crate) socket: SocketId,
    pub(crate) has_tls: bool,
    /// Bytes above TLS that were not returned yet.
    pub(crate) received: Bytes,
    /// There is room for bytes above TLS.
    pub(crate) has_room: bool,
    /// The connection has ended: behind `received`.
    pub(crate) ended: Option<Result<(), String>>,
}

/// A multi handle.
#[derive(Debug)]
pub struct Multi {
    /// The handle in C, for callbacks.
    pub(crate) handle: CPointer,
    pub(crate) options: RefCell<MultiOptions>,
    pub(crate) reactor: RefCell<Reactor<Client<EventQueue>, ExternalLoop>>,
    pub(crate) sockets: RefCell<WatchedSockets>,
    pub(crate) open: RefCell<OpenSockets>,
    /// The connections that NTLM authenticates.
    pub(crate) ntlm: RefCell<NtlmLanes>,
    pub(crate) origin: RefCell<KnownOrigin>,
    /// The last request that can be sent again.
    pub(crate) prepared: RefCell<Option<Rc<PreparedRequest>>>,
    /// The TLS configurations of its transfers.
    pub(crate) tls: RefCell<TlsConfigurations>,
    /// All handles in it, by the number of their addition.
    pub(crate) added: RefCell<BTreeMap<usize, Rc<Easy>>>,
    /// Handles whose transfer has not ended.
    pub(crate) running_count: Cell<usize>,
    /// Handles that were ever added.
    pub(crate) added_count: Cell<usize>,
    /// Handles by the index of their client's transfer.
    pub(crate) active: RefCell<Vec<Option<ActiveHop>>>,
    /// Requests to start at the next action.
    pub(crate) pending: RefCell<VecDeque<Rc<Easy>>>,
    /// Those that a callback has resumed.
    pub(crate) resumed: RefCell<Vec<Rc<Easy>>>,
    /// Those that were freed within a callback.
    pub(crate) closed: RefCell<Vec<Rc<Easy>>>,
    /// The addresses of `CURLOPT_RESOLVE`.
    pub(crate) hosts: RefCell<StaticHosts>,
    /// When names were resolved, for `CURLOPT_RESOLVER_START_FUNCTION`.
    pub(crate) resolved: RefCell<BTreeMap<(String, u16), Instant>>,
    /// Those whose progress is reported or checked.
    pub(crate) updated: RefCell<Vec<Rc<Easy>>>,
    pub(crate) messages: RefCell<VecDeque<(Rc<Easy>, CurlCode)>>,
    /// A callback is running.
    pub(crate) is_calling: Cell<bool>,
    /// A callback for sockets or for the timer has failed: all transfers end with the next action.
    pub(crate) is_aborted: Cell<bool>,
    /// A function has panicked: the tables may be half changed.
    pub(crate) is_poisoned: Cell<bool>,
    pub(crate) this: Weak<Self>,
}

/// The descriptors that are waited for, and what the application knows of them.
#[derive(Debug, Default)]
pub(crate) struct WatchedSockets {
    pub(crate) watched: BTreeMap<RawFd, WatchedSocket>,
    /// The timer that was reported; `None`: none is set.
    pub(crate) timer: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(crate) struct WatchedSocket {
    pub(crate) what: i32,
    /// The pointer of `curl_multi_assign`.
    pub(crate) assigned: CPointer,
    /// The handle that it was announced with.
    pub(crate) easy: Weak<Easy>,
}

/// A request that is under way, and its handle.
pub(crate) type ActiveHop = (TransferId, Rc<Easy>);
