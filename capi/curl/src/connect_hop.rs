//! CONNECT: the request that opens a tunnel through an HTTP proxy (RFC 9110 §9.3.6).
//!
//! It is an exchange of its own, whose head and response lines are libcurl's. When the proxy has
//! accepted, the request of the transfer begins on the same connection.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{Options, Protocol, Request, VerbatimHead};
use fulmar_proto::h1::LIBCURL_HEADS_SIZE_MAX;
use fulmar_sys as sys;

use crate::border::{CBorder, DebugKind};
use crate::code::CurlCode;
use crate::custom_fields::{CustomFields, names};
use crate::document::DocumentFacts;
use crate::download::status_of_malformed;
use crate::events::ReceivedHead;
use crate::failure::Failure;
use crate::handles::{Easy, EasyState, Multi};
use crate::header_list::HeaderOrigin;
use crate::hop_auth::{authorize_connect, read_challenges, repeats};
use crate::option::OptionId as Id;
use crate::proxy_choice::ProxyScheme;

impl Multi {
    /// Requests a tunnel for the current target.
    pub(crate) fn start_connect(
        &self,
        easy: &Rc<Easy>,
        mut options: Options,
        custom: &CustomFields,
        proxy_custom: &CustomFields,
    ) -> Result<(), Failure> {
        let origin = easy.with_state(|state| {
            let transfer = state.transfer.as_mut().expect("its request is being started");
            transfer.is_connecting = true;
            transfer.route.http.as_ref().map(|proxy| proxy.origin())
        });
        let origin = origin.expect("a tunnel has a proxy");
        options.tls = options.tunnel.take().and_then(|tunnel| tunnel.tls);
        options.protocol = Protocol::Http1;
        options.proxy_header = false; // it is sent in the tunnel
        // CURLOPT_CONNECTTIMEOUT holds until the tunnel is open, for all attempts together.
        let elapsed = easy.with_state(connect_elapsed);
        let left = options.queue_timeout.map(|limit| limit.saturating_sub(elapsed));
        options.total_timeout = [options.total_timeout, left].into_iter().flatten().min();
        self.note_connection(easy, &origin, &options);
        let head = easy.with_state(|state| connect_head(state, custom, proxy_custom))?;
        Self::print_connect(easy, &head);
        let head = VerbatimHead::new(head)
            .map_err(|_| Failure::new(CurlCode::UrlMalformat, "the request head is malformed"))?;
        let request = Request::with_verbatim_head(&origin, head)
            .options(Arc::new(options))
            .build()
            .map_err(|error| Failure::new(CurlCode::FailedInit, error.to_string()))?;
        let id = self.send_request(easy, &request, None);
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.id = Some(id);
                transfer.response.reset();
            }
        });
        Ok(())
    }

    /// Delivers the lines of the proxy's response.
    pub(crate) fn deliver_connect_head(
        &self,
        easy: &Rc<Easy>,
        head: &ReceivedHead,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        easy.with_state(|state| {
            state.info.connect_code = head.status.into();
            if !head.is_interim {
                read_challenges(state, head);
                let repeats = head.status == 407 && repeats(state, head.status);
                let document = DocumentFacts::of(head, &state.options, 0);
                if let Some(transfer) = &mut state.transfer {
                    transfer.response.status = head.status.into();
                    transfer.response.has_head = true;
                    transfer.response.ignores_body = true;
                    transfer.response.repeats = repeats;
                    transfer.download.document = document;
                }
            }
        });
        count_heads(easy, head.bytes.len())?;
        for (number, (line, _)) in head.lines().enumerate() {
            self.deliver_connect_line(easy, number, line, border)?;
            // RFC 9110 §9.3.6: a tunnel has no body.
            let is_ignored = |name: &&str| names(line, name) && head.status / 100 == 2;
            if let Some(name) =
                ["Content-Length", "Transfer-Encoding"].iter().copied().find(is_ignored)
            {
                let text = format!("Ignoring {name} in CONNECT {} response\n", head.status);
                self.debug(easy, DebugKind::Text, text.as_bytes(), border);
            }
        }
        Ok(())
    }

    /// Delivers the lines of a malformed head before the one that is not accepted. They concern the
    /// proxy: nothing is stored for the host.
    pub(crate) fn deliver_malformed_connect_head(
        &self,
        easy: &Rc<Easy>,
        bytes: &[u8],
        judged: usize,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let status = status_of_malformed(bytes, judged);
        easy.with_state(|state| {
            state.info.connect_code = status.unwrap_or(state.info.connect_code);
            if let Some(transfer) = &mut state.transfer {
                transfer.response.malformed = Some(bytes.to_vec());
            }
        });
        count_heads(easy, judged)?;
        for (number, line) in bytes[..judged].split_inclusive(|byte| *byte == b'\n').enumerate() {
            self.deliver_connect_line(easy, number, line, border)?;
        }
        Ok(())
    }

    fn deliver_connect_line(
        &self,
        easy: &Easy,
        number: usize,
        line: &[u8],
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        self.debug(easy, DebugKind::HeaderIn, line, border);
        if easy.with_state(|state| state.options.values.is_on(Id::SUPPRESS_CONNECT_HEADERS)) {
            return Ok(());
        }
        // The status line is no header.
        let origin = Some(HeaderOrigin::Connect).filter(|_| number > 0);
        self.deliver_line(easy, line, origin, border)
    }

    /// The proxy has opened no tunnel: another attempt follows, or the transfer fails.
    pub(crate) fn end_connect(
        &self,
        easy: &Rc<Easy>,
        done: Result<(), Failure>,
        border: &dyn CBorder,
    ) {
        let (repeats, status) = easy.with_state(|state| match &mut state.transfer {
            Some(transfer) => {
                transfer.id = None;
                transfer.is_connecting = false;
                (transfer.response.repeats, transfer.response.status)
            }
            None => (false, 0),
        });
        match done {
            Ok(()) if repeats => self.queue_hop(easy),
            Ok(()) => {
                let text = format!("CONNECT tunnel failed, response {status}");
                self.finish(easy, Err(Failure::new(CurlCode::RecvError, text)), border);
            }
            Err(failure) if failure.code == CurlCode::GotNothing => {
                self.finish(easy, Err(Failure::of_connect()), border);
            }
            Err(failure) => self.finish(easy, Err(failure), border),
        }
    }
}

/// The time since the first attempt to open the current tunnel. A response with 407 is followed by
/// another attempt.
fn connect_elapsed(state: &mut EasyState) -> Duration {
    let now = sys::now();
    let Some(transfer) = &mut state.transfer else { return Duration::ZERO };
    let is_repeated = transfer.response.repeats && transfer.response.status == 407;
    let began = transfer.attempts.connect_began.filter(|_| is_repeated).unwrap_or(now);
    transfer.attempts.connect_began = Some(began);
    now.saturating_duration_since(began)
}

/// A proxy has sent a head of this size. The limit is that of all heads of the transfer: a proxy
/// may demand other credentials again and again.
fn count_heads(easy: &Easy, size: usize) -> Result<(), Failure> {
    let heads = easy.with_state(|state| {
        state.info.header_size += i64::try_from(size).unwrap_or(i64::MAX);
        state.info.header_size
    });
    match heads > LIBCURL_HEADS_SIZE_MAX.into() {
        true => Err(Failure::of_large_heads(heads, LIBCURL_HEADS_SIZE_MAX.into())),
        false => Ok(()),
    }
}

/// `host:port`, as the target of CONNECT.
fn authority((host, port): (&str, u16)) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The head of the request.
fn connect_head(
    state: &mut EasyState,
    custom: &CustomFields,
    proxy_custom: &CustomFields,
) -> Result<Vec<u8>, Failure> {
    let transfer = state.transfer.as_ref().expect("its request is being started");
    let authority = authority(transfer.end());
    let is_http10 =
        transfer.route.http.as_ref().is_some_and(|proxy| proxy.kind == ProxyScheme::Http10);
    let version = if is_http10 { "1.0" } else { "1.1" };
    let own = match state.options.values.is_on(Id::HEADEROPT) {
        true => proxy_custom,
        false => custom,
    };
    let authorization = authorize_connect(state, own, authority.as_bytes())?;
    let mut head = format!("CONNECT {authority} HTTP/{version}\r\n").into_bytes();
    let mut line = |name: &str, value: &[u8]| {
        head.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
    };
    if own.find("Host").is_none() {
        line("Host", authority.as_bytes());
    }
    if let Some(value) = authorization {
        line("Proxy-Authorization", &value);
    }
    let agent = state.options.values.bytes(Id::USERAGENT).filter(|agent| !agent.is_empty());
    if let Some(agent) = agent.filter(|_| own.find("User-Agent").is_none()) {
        line("User-Agent", agent);
    }
    if own.find("Proxy-Connection").is_none() {
        line("Proxy-Connection", b"Keep-Alive");
    }
    for custom in own.sent() {
        head.extend_from_slice(&custom);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    state.request.size += i64::try_from(head.len()).unwrap_or(i64::MAX);
    Ok(head)
}
