//! HTTP/2 on `http:` URLs by an upgrade from HTTP/1.1 (RFC 7540 §3.2), which libcurl requests with
//! `CURL_HTTP_VERSION_2_0`.
//!
//! A response of 101 turns the connection into a tunnel, in which HTTP/2 begins; the request is its
//! first stream. Any other response is that of the request. Later requests use the tunnel while it
//! is idle.

use std::num::NonZeroU32;
use std::rc::Rc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use fulmar_client::{CompiledOrigin, OpenedTunnel, Options, Protocol, RequestBody, VerbatimHead};
use fulmar_sys as sys;

use crate::border::CBorder;
use crate::code::CurlCode;
use crate::connection_name::upgraded_name;
use crate::easy_options::HTTP_VERSION_2_0;
use crate::failure::Failure;
use crate::handles::{Easy, EasyState, Multi};
use crate::option::OptionId as Id;
use crate::transfer::EasyTransfer;

/// The fields of a request, in front of the settings.
pub(crate) const UPGRADE_FIELDS: &[u8] =
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: ";

impl Multi {
    /// Selects an idle connection that was upgraded, or requests an upgrade.
    pub(crate) fn select_upgrade(&self, easy: &Easy, options: &mut Options) {
        if !easy.with_state(|state| may_upgrade(state)) {
            return;
        }
        self.reactor.borrow_mut().check_unwatched(sys::now());
        easy.with_state(|state| {
            let Some(transfer) = &mut state.transfer else { return };
            let upgraded = upgraded_options(transfer, options.clone());
            let has_idle = self.reactor.borrow().engine.has_idle(&transfer.hop_origin(), &upgraded);
            match has_idle && !options.fresh_connection {
                true => *options = upgraded,
                false => {
                    let streams_max = self.options.borrow().streams_max;
                    let streams_max = u32::try_from(streams_max).ok().and_then(NonZeroU32::new);
                    transfer.http2_streams = Some(streams_max.unwrap_or(NonZeroU32::MAX));
                }
            }
        });
    }

    /// The server has accepted the upgrade of the current request.
    pub(crate) fn continue_as_http2(
        &self,
        easy: &Rc<Easy>,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let Some(upgraded) = self.release(easy) else { return Ok(()) };
        let request = self.options_of_hop(easy, border).and_then(|options| {
            easy.with_state(|state| {
                let transfer = state.transfer.as_mut().expect("its request is under way");
                transfer.response.reset();
                // Only the method matters: nothing is sent.
                let head = [&*transfer.method, b" / HTTP/1.1\r\n\r\n"].concat();
                let mut head = VerbatimHead::new(head)
                    .map_err(|_| Failure::new(CurlCode::UrlMalformat, "the method is malformed"))?;
                head.is_sent = true;
                let mut options = upgraded_options(transfer, options);
                options.fresh_connection = true; // no other one that was upgraded
                CompiledOrigin::new(&transfer.hop_origin(), options)
                    .and_then(|origin| origin.request(head, RequestBody::Empty))
                    .map_err(|error| Failure::of_build(&error, transfer.peer()))
            })
        });
        let request = match request {
            Ok(request) => request,
            Err(failure) => {
                self.forget(upgraded);
                return Err(failure);
            }
        };
        let id = self
            .reactor
            .borrow_mut()
            .with(|client, now| client.start_in_tunnel(now, upgraded, &request, None));
        self.attach(id, easy);
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.id = Some(id);
                if let Some(texts) = &mut transfer.texts {
                    texts.request = None; // it was sent
                }
            }
        });
        Ok(())
    }
}

/// The options of a request on an upgraded connection.
fn upgraded_options(transfer: &EasyTransfer, options: Options) -> Options {
    let name = upgraded_name(transfer, options.unix_socket.as_deref());
    Options {
        tunnel: Some(OpenedTunnel { name, tls: None }),
        protocol: Protocol::Http2,
        proxy_header: false, // it was sent
        unix_socket: None,
        ..options
    }
}

/// True if the current request may request an upgrade.
fn may_upgrade(state: &EasyState) -> bool {
    state.options.values.number(Id::HTTP_VERSION) == HTTP_VERSION_2_0
        && state.transfer.as_ref().is_some_and(|transfer| {
            !transfer.target.is_secure
                && !transfer.target.is_websocket
                && transfer.route.http.is_none()
                && transfer.lane.is_none()
        })
}

/// True if an upgrade was requested with the current request.
pub(crate) fn requests_http2(state: &EasyState) -> bool {
    state.transfer.as_ref().is_some_and(|transfer| transfer.http2_streams.is_some())
}

/// The connection of a request has ended before its response, or there was none.
pub(crate) fn failure_without_tunnel(state: &EasyState) -> Failure {
    match requests_http2(state) {
        true => Failure::new(CurlCode::Http2, "Error in the HTTP2 framing layer"),
        false => Failure::of_connect(),
    }
}

/// The settings of libcurl, as they are sent in a request: streams, 32 MB of window, no pushes.
/// Those that HTTP/2 begins with replace them.
pub(crate) fn encoded_settings(streams_max: NonZeroU32) -> String {
    let settings = [(3_u16, streams_max.get()), (4, 32 << 20), (2, 0)];
    let bytes: Vec<u8> = settings
        .iter()
        .flat_map(|(id, value)| id.to_be_bytes().into_iter().chain(value.to_be_bytes()))
        .collect();
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As of libcurl with `CURLMOPT_MAX_CONCURRENT_STREAMS`.
    #[test]
    fn settings_have_the_streams_of_the_multi_handle() {
        let encoded = |max| encoded_settings(NonZeroU32::new(max).expect("streams"));
        assert_eq!(encoded(100), "AAMAAABkAAQCAAAAAAIAAAAA");
        assert_eq!(encoded(7), "AAMAAAAHAAQCAAAAAAIAAAAA");
    }
}
