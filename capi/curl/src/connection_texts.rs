//! Verbose output about connections: opened, used again, kept, closed. A request is printed once
//! its connection is known.
//!
//! The texts are those of libcurl 7.88.1, in its order. Connections have numbers: each one that is
//! opened gets the next one, and so does a request that gets none.

use std::fmt::Display;
use std::time::Instant;

use bytes::Bytes;
use fulmar_client::{ConnectedFacts, ConnectionUse, Error, RequestBody, Tried};
use fulmar_drive::{Peer, SocketId};
use fulmar_sys as sys;

use crate::border::{CBorder, DebugKind};
use crate::failure::{Failure, reason};
use crate::handles::{Easy, EasyState, Multi};
use crate::hop_texts::{HopTexts, PendingRequest};
use crate::http2_texts::{http2_fields, http2_head};
use crate::open_sockets::SocketLabel;
use crate::option::OptionId as Id;
use crate::tls_texts::{handshake_texts, negotiated_texts, protocol_text};

impl Multi {
    /// A request is about to be started: what is known of connections to its server.
    pub(crate) fn begin_texts(&self, easy: &Easy, border: &dyn CBorder) {
        let begins = easy.with_state(|state| {
            let is_verbose = state.options.values.is_on(Id::VERBOSE);
            let Some(transfer) = &mut state.transfer else { return false };
            if !is_verbose {
                transfer.texts = None;
                return false;
            }
            let continues = transfer.texts.as_ref().is_some_and(|texts| !texts.is_over);
            if !continues {
                transfer.texts = Some(Box::default());
            }
            !continues
        });
        if !begins {
            return;
        }
        let was_resolved = self.is_resolved(easy);
        with_texts(easy, |texts| texts.was_resolved = was_resolved);
        let bundle = easy.with_state(|state| bundle_of(state));
        let Some((bundle, multiplexes)) = bundle else { return };
        let known = self.open.borrow().bundle(&bundle);
        if let Some(has_http2) = known {
            let kind = if has_http2 { "can multiplex" } else { "serially" };
            let place = std::ptr::from_ref(self);
            self.inform(easy, &format!("Found bundle for host: {place:p} [{kind}]"), border);
            let multiplexes_any = self.options.borrow().multiplexes;
            if !has_http2 && multiplexes && multiplexes_any {
                self.inform(easy, "Can not multiplex, even if we wanted to", border);
            }
        }
        self.reactor.borrow_mut().check_unwatched(sys::now());
        self.report_closed(easy, border);
    }

    /// A request is started: it is printed later.
    pub(crate) fn print_request(easy: &Easy, head: &[u8], body: &RequestBody, in_tunnel: bool) {
        print_later(easy, Vec::new(), (head, body), in_tunnel);
    }

    /// CONNECT is started.
    pub(crate) fn print_connect(easy: &Easy, head: &[u8]) {
        let texts = easy.with_state(|state| {
            let transfer = state.transfer.as_ref()?;
            let is_first = transfer.texts.as_ref()?.connection.is_none();
            let (host, port) = transfer.end();
            let mut texts = vec![format!("Establish HTTP proxy tunnel to {}:{port}", bare(host))];
            if is_first {
                texts.insert(0, "allocate connect buffer".to_owned());
            }
            Some(texts)
        });
        print_later(easy, texts.unwrap_or_default(), (head, &RequestBody::Empty), false);
    }

    /// The number of a socket that is opened for a transfer.
    pub(crate) fn number_socket(&self, easy: &Easy) -> u32 {
        let known = with_texts(easy, |texts| texts.number).flatten();
        let number = known.unwrap_or_else(|| self.open.borrow_mut().next_number());
        with_texts(easy, |texts| texts.number = Some(number));
        number
    }

    /// Names a socket, if its transfer has verbose output.
    pub(crate) fn label_socket(&self, easy: &Easy, socket: SocketId, number: u32) {
        let bundle = easy.with_state(|state| {
            state.transfer.as_ref()?.texts.as_ref()?;
            bundle_of(state)
        });
        if let Some((bundle, _)) = bundle {
            let (opened, is_http2) = (sys::now(), false);
            let label = SocketLabel { number, bundle, opened, is_http2, is_used: false };
            self.open.borrow_mut().label(socket, label);
        }
    }

    /// A socket is opened for a transfer.
    pub(crate) fn report_attempt(&self, easy: &Easy, peer: &Peer, border: &dyn CBorder) {
        let was_connected = easy.with_state(|state| {
            let transfer = state.transfer.as_ref()?;
            let texts = transfer.texts.as_ref()?;
            Some(texts.connection.is_some() && !transfer.is_connecting)
        });
        let Some(was_connected) = was_connected else { return };
        if was_connected {
            // The client sends the request again.
            self.report_retry(easy, 1, border);
        }
        self.report_closed(easy, border);
        let resolved = with_texts(easy, |it| (it.tried.is_none(), it.was_resolved));
        if let (Some((true, was_resolved)), Peer::Ip(_)) = (resolved, peer) {
            let name = self.note_resolved(easy);
            if let Some(name) = name.filter(|_| was_resolved) {
                self.inform(easy, &format!("Hostname {name} was found in DNS cache"), border);
            }
        }
        self.inform(easy, &format!("  Trying {}...", shown(peer)), border);
        with_texts(easy, |texts| texts.tried = Some(peer.clone()));
    }

    /// A used connection was closed before a response.
    pub(crate) fn report_retry(&self, easy: &Easy, count: u32, border: &dyn CBorder) {
        let number = with_texts(easy, |texts| {
            texts.connection = None;
            texts.number.take()
        });
        let Some(number) = number else { return };
        let text = format!("Connection died, retrying a fresh connect (retry count: {count})");
        self.inform(easy, &text, border);
        self.report_closing(easy, number.unwrap_or_default(), border);
        self.report_next(easy, border);
    }

    /// The current request is repeated on another connection.
    pub(crate) fn report_repetition(&self, easy: &Easy, border: &dyn CBorder) {
        let count = easy.with_state(|state| {
            state.transfer.as_ref().map_or(0, |transfer| transfer.attempts.retries)
        });
        self.report_retry(easy, count, border);
        with_texts(easy, |texts| texts.is_over = true);
    }

    /// The proxy has opened a tunnel.
    pub(crate) fn report_tunnel(&self, easy: &Easy, border: &dyn CBorder) {
        if with_texts(easy, |_| ()).is_some() {
            let status = easy.with_state(|state| state.info.connect_code);
            self.inform(easy, "CONNECT phase completed", border);
            let text = format!("CONNECT tunnel established, response {status}");
            self.inform(easy, &text, border);
        }
    }

    /// The current request begins on a connection.
    pub(crate) fn deliver_connected(
        &self,
        easy: &Easy,
        facts: &ConnectedFacts,
        border: &dyn CBorder,
    ) {
        let exchange = &facts.exchange;
        let Some(socket) = exchange.connection else { return };
        self.note_assigned(easy, socket, exchange.peer);
        let known = with_texts(easy, |texts| {
            let is_known = texts.in_tunnel || texts.connection == Some(socket);
            texts.connection = Some(socket);
            (is_known, texts.request.clone()) // it may be sent again
        });
        let Some((is_known, request)) = known else { return };
        if !is_known {
            let number = self.open.borrow().get(socket).map(|it| it.number);
            with_texts(easy, |texts| texts.number = number.or(texts.number));
            match exchange.reused {
                true => self.report_reuse(easy, border),
                false => self.report_connected(easy, border),
            }
        }
        self.open.borrow_mut().note_use(socket, facts.multiplexed);
        if let Some(tls) = &facts.tls {
            let texts = easy.with_state(|state| {
                let mut texts = handshake_texts(state);
                texts.extend(negotiated_texts(state, tls));
                texts.push(protocol_text(tls).to_owned());
                texts
            });
            self.inform_all(easy, texts, border);
        }
        let Some(PendingRequest { texts, mut head, body }) = request else { return };
        self.inform_all(easy, texts, border);
        if facts.multiplexed {
            let is_secure = easy.with_state(|state| {
                state.transfer.as_ref().is_some_and(|transfer| transfer.target.is_secure)
            });
            self.inform_all(easy, http2_fields(&head, is_secure), border);
            let (stream, handle) = (facts.stream.0, easy.handle.0);
            let text = format!("Using Stream ID: {stream} (easy handle {handle:p})");
            self.inform(easy, &text, border);
            head = http2_head(&head);
        }
        self.debug(easy, DebugKind::HeaderOut, &head, border);
        if !body.is_empty() {
            self.debug(easy, DebugKind::DataOut, &body, border);
        }
    }

    fn report_reuse(&self, easy: &Easy, border: &dyn CBorder) {
        self.report_closed(easy, border);
        let text = easy.with_state(|state| {
            let transfer = state.transfer.as_ref()?;
            let number = transfer.texts.as_ref()?.number?;
            let (kind, host) = match transfer.is_proxied() {
                true => ("proxy", transfer.peer().0),
                false => ("host", &*transfer.target.host),
            };
            Some(format!("Re-using existing connection #{number} with {kind} {}", bare(host)))
        });
        self.inform_all(easy, text, border);
    }

    /// TCP is connected.
    fn report_connected(&self, easy: &Easy, border: &dyn CBorder) {
        let text = easy.with_state(|state| {
            let transfer = state.transfer.as_ref()?;
            let texts = transfer.texts.as_ref()?;
            let address = match (state.info.peer, &texts.tried) {
                (Some(peer), _) => peer.ip().to_string(),
                (None, Some(Peer::Ip(peer))) => peer.ip().to_string(),
                (None, Some(Peer::Unix(path))) => path.display().to_string(),
                (None, None) => String::new(),
            };
            let (host, port) = transfer.peer();
            let (host, number) = (bare(host), texts.number?);
            Some(format!("Connected to {host} ({address}) port {port} (#{number})"))
        });
        self.inform_all(easy, text, border);
    }

    /// The connection is the application's.
    pub(crate) fn report_taken(&self, easy: &Easy, socket: Option<SocketId>, border: &dyn CBorder) {
        let is_new = with_texts(easy, |texts| texts.connection.is_none() && !texts.in_tunnel);
        with_texts(easy, |texts| texts.connection = socket);
        if let Some(socket) = socket {
            self.open.borrow_mut().note_use(socket, false);
        }
        if is_new == Some(true) {
            self.report_connected(easy, border);
        }
    }

    /// A request has failed before it had a connection.
    pub(crate) fn report_unconnected(
        &self,
        easy: &Easy,
        result: &Result<(), Error>,
        border: &dyn CBorder,
    ) {
        let Err(error) = result else { return };
        let unconnected = with_texts(easy, |it| it.connection.is_none() && it.tried.is_some());
        if unconnected != Some(true) {
            return;
        }
        match error {
            Error::Connect(error) => {
                for (tried, error) in &error.tried {
                    let (address, port) = match tried {
                        Tried::Ip(peer) => (peer.ip().to_string(), peer.port()),
                        Tried::Unix(path) => (path.display().to_string(), 0),
                    };
                    let reason = reason(error);
                    let text = format!("connect to {address} port {port} failed: {reason}");
                    self.inform(easy, &text, border);
                }
            }
            Error::Layer(_) | Error::Io(_) => {
                self.report_connected(easy, border);
                self.inform_all(easy, easy.with_state(|state| handshake_texts(state)), border);
            }
            _ => {}
        }
    }

    /// The body of a response begins, and another request follows it.
    pub(crate) fn report_ignored_body(&self, easy: &Easy, border: &dyn CBorder) {
        let is_ignored = easy.with_state(|state| {
            let response = &state.transfer.as_ref()?.response;
            let follows = response.repeats || response.location.is_some();
            Some(response.ignores_body && follows)
        });
        if is_ignored == Some(true) {
            self.inform(easy, "Ignoring the response-body", border);
        }
    }

    /// Another request of a transfer begins.
    pub(crate) fn report_next(&self, easy: &Easy, border: &dyn CBorder) {
        if with_texts(easy, |_| ()).is_none() {
            return;
        }
        let url = easy.with_state(|state| String::from_utf8_lossy(&state.request.url).into_owned());
        self.inform(easy, &format!("Issue another request to this URL: '{url}'"), border);
    }

    /// The current request has ended, well or not, and what becomes of its connection is known.
    /// That of a failed one is closed, unless it is one of HTTP/2.
    pub(crate) fn report_end(&self, easy: &Easy, has_failed: bool, border: &dyn CBorder) {
        let known = with_texts(easy, |texts| {
            let is_due = !std::mem::replace(&mut texts.is_over, true);
            is_due.then_some((texts.connection, texts.number))
        });
        let Some(Some((socket, number))) = known else {
            if known.is_none() {
                self.open.borrow_mut().forget_closed();
            }
            return;
        };
        let number = number.unwrap_or_else(|| self.open.borrow_mut().next_number());
        let is_http2 = socket.is_some_and(|socket| self.open.borrow().is_http2(socket));
        let found = socket.map(|socket| self.reactor.borrow().engine.connection_use(socket));
        match found {
            Some(ConnectionUse::Shared) => {} // its other streams keep it
            Some(ConnectionUse::Kept) if !has_failed || is_http2 => {
                self.report_evicted(easy, border);
                let host = easy.with_state(|state| {
                    state.transfer.as_ref().map(|it| bare(it.peer().0).to_owned())
                });
                let host = host.unwrap_or_default();
                let text = format!("Connection #{number} to host {host} left intact");
                self.inform(easy, &text, border);
            }
            Some(ConnectionUse::Kept | ConnectionUse::Closed) | None => {
                self.report_closing(easy, number, border)
            }
        }
    }

    /// A transfer without a connection has ended.
    pub(crate) fn report_end_without_connection(
        &self,
        easy: &Easy,
        failure: Option<&Failure>,
        border: &dyn CBorder,
    ) {
        let is_file = easy.with_state(|state| {
            let transfer = state.transfer.as_ref()?;
            Some(transfer.target.is_file)
        });
        match (is_file, failure) {
            (Some(true), _) => {
                let number = self.open.borrow_mut().next_number();
                self.inform(easy, &format!("Closing connection {number}"), border);
            }
            (None, Some(failure)) if failure.text != NO_URL => {
                self.inform(easy, "Closing connection -1", border);
            }
            _ => {}
        }
    }

    fn report_closing(&self, easy: &Easy, number: u32, border: &dyn CBorder) {
        self.open.borrow_mut().end_number(number);
        self.inform(easy, &format!("Closing connection {number}"), border);
    }

    /// Connections that have ended while they were idle.
    fn report_closed(&self, easy: &Easy, border: &dyn CBorder) {
        for (number, opened) in self.take_closed() {
            let lifetime = easy.with_state(|state| {
                let max = state.options.values.number(Id::MAXLIFETIME_CONN);
                let age = sys::now().saturating_duration_since(opened).as_secs();
                (max > 0 && i128::from(age) > i128::from(max)).then_some(age)
            });
            let text = match lifetime {
                Some(age) => {
                    format!("Too old connection ({age} seconds since creation), disconnect it")
                }
                None => format!("Connection {number} seems to be dead"),
            };
            self.inform(easy, &text, border);
            self.inform(easy, &format!("Closing connection {number}"), border);
        }
    }

    /// Idle connections that were closed for others.
    fn report_evicted(&self, easy: &Easy, border: &dyn CBorder) {
        for (number, _) in self.take_closed() {
            self.inform(easy, "Connection cache is full, closing the oldest one", border);
            self.inform(easy, &format!("Closing connection {number}"), border);
        }
    }

    fn take_closed(&self) -> Vec<(u32, Instant)> {
        let reactor = self.reactor.borrow();
        let is_open = |socket| reactor.engine.connection_use(socket) != ConnectionUse::Closed;
        self.open.borrow_mut().take_closed(is_open)
    }

    fn inform_all(
        &self,
        easy: &Easy,
        texts: impl IntoIterator<Item = String>,
        border: &dyn CBorder,
    ) {
        for text in texts {
            self.inform(easy, &text, border);
        }
    }
}

/// The texts of a transfer, if it has verbose output.
fn with_texts<T>(easy: &Easy, change: impl FnOnce(&mut HopTexts) -> T) -> Option<T> {
    easy.with_state(|state| {
        let texts = state.transfer.as_mut()?.texts.as_mut()?;
        Some(change(texts))
    })
}

fn print_later(
    easy: &Easy,
    texts: Vec<String>,
    (head, body): (&[u8], &RequestBody),
    in_tunnel: bool,
) {
    with_texts(easy, |it| {
        let body = match body {
            RequestBody::Bytes(bytes) => bytes.clone(),
            _ => Bytes::new(),
        };
        it.in_tunnel = in_tunnel;
        it.request = Some(PendingRequest { texts, head: head.to_vec(), body });
    });
}

/// What connections of the current request have in common, and whether it may use HTTP/2.
fn bundle_of(state: &EasyState) -> Option<(String, bool)> {
    let transfer = state.transfer.as_ref()?;
    let (host, port) = match transfer.route.http.is_some() && !transfer.route.tunnels {
        true => transfer.peer(),
        false => transfer.end(),
    };
    // CURL_HTTP_VERSION_NONE and those from 2.0 on.
    let version = state.options.values.number(Id::HTTP_VERSION);
    Some((format!("{}:{port}", host.to_ascii_lowercase()), version == 0 || version >= 3))
}

fn shown(peer: &Peer) -> Box<dyn Display + '_> {
    match peer {
        Peer::Ip(peer) => Box::new(peer),
        Peer::Unix(path) => Box::new(format!("{}:0", path.display())),
    }
}

/// A host without the brackets of a URL.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// The failure of a transfer that has no URL.
pub(crate) const NO_URL: &str = "No URL set";
