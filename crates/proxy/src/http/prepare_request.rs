//! The last step of a request before its server: added fields and persistence.

use std::net::IpAddr;
use std::time::Instant;

use fulmar_haproxy::model::{BackendConfig, ForwardFor, FrontendConfig};
use fulmar_haproxy::rules::{EvalContext, authority_of};
use fulmar_proto::HeaderBuf;

use crate::http::client_events::ClientEvents;
use crate::http::context::ExchangeView;
use crate::http::exchange::HttpExchange;
use crate::http::persistence_cookie;
use crate::http::route::RouteDecision;
use crate::http::session::HttpSession;

impl ClientEvents<'_> {
    /// The backend's rules were evaluated: prepares the request for a server.
    pub(super) fn ready(
        &self,
        now: Instant,
        session: &mut HttpSession,
        exchange: &mut HttpExchange,
    ) -> RouteDecision {
        let live = &self.shared.live;
        let frontend = &live.frontends[session.bind().frontend].config;
        let backend = &live.backends[exchange.selected_backend()];
        let modes = [frontend.options.http_mode, backend.config.options.http_mode];
        exchange.mode = modes.into_iter().flatten().max();
        exchange.has_response_rules = has_response_rules(frontend, &backend.config);
        let mut view = ExchangeView { now, shared: self.shared, session, exchange };
        view.write_line(frontend, &backend.config);
        for (server, condition) in &backend.config.use_servers {
            if backend.group.members()[server.0].is_reachable() && condition.holds(&view) {
                view.exchange.bound = Some(server.0);
                view.exchange.persistence.meant = Some(server.0);
                break;
            }
        }
        if let Some(known) = &backend.config.cookie {
            let ignored = backend.config.ignore_persist.iter().any(|it| it.holds(&view));
            let seconds = self.shared.since_epoch(now).as_secs();
            persistence_cookie::read(exchange, known, backend, ignored, seconds);
        }
        RouteDecision::Forward
    }
}

/// Whether the head of the response has to be kept, not only forwarded.
fn has_response_rules(frontend: &FrontendConfig, backend: &BackendConfig) -> bool {
    let rules = [
        &frontend.response_rules,
        &frontend.after_response_rules,
        &backend.response_rules,
        &backend.after_response_rules,
    ];
    rules.into_iter().any(|rules| !rules.is_empty())
        || !frontend.response_captures.is_empty()
        || frontend.cookie_capture.is_some()
        || backend.cookie.is_some()
        || !backend.response_content_rules.is_empty()
}

impl ExchangeView<'_> {
    /// Adds the fields about the client and its destination.
    fn write_line(&mut self, frontend: &FrontendConfig, backend: &BackendConfig) {
        let (front, back) = (&frontend.options, &backend.options);
        if let Some(how) = back.forward_for.as_ref().or(front.forward_for.as_ref())
            && let Some(source) = self.client_address()
        {
            forward_for(&mut self.exchange.request.fields, how, source.ip());
        }
        if let Some(name) = back.original_to.as_ref().or(front.original_to.as_ref())
            && let Some(destination) = self.destination()
        {
            let value = destination.ip().to_string();
            push(&mut self.exchange.request.fields, name, value.as_bytes());
        }
        if let Some((_, Some(name))) = &frontend.unique_id {
            let HttpExchange { request, unique_id, .. } = &mut *self.exchange;
            push(&mut request.fields, name, unique_id);
        }
        self.exchange.address();
    }
}

fn forward_for(fields: &mut HeaderBuf, how: &ForwardFor, source: IpAddr) {
    let excepted = how.except.is_some_and(|(network, bits)| is_in(source, network, bits));
    if excepted || (how.if_none && fields.as_headers().has(&how.field)) {
        return;
    }
    match source.to_canonical() {
        IpAddr::V4(address) => {
            let mut text = [0; 15];
            let text = write(&mut text, format_args!("{address}"));
            push(fields, &how.field, text);
        }
        IpAddr::V6(address) => push(fields, &how.field, address.to_string().as_bytes()),
    }
}

/// Formats without allocation.
fn write<'a>(into: &'a mut [u8; 15], text: std::fmt::Arguments<'_>) -> &'a [u8] {
    use std::io::Write;
    let mut rest = &mut into[..];
    rest.write_fmt(text).expect("an IPv4 address has 15 characters at most");
    let left = rest.len();
    &into[..15 - left]
}

fn push(fields: &mut HeaderBuf, name: &str, value: &[u8]) {
    // The name is from the configuration, and the value has no control characters. An invalid field
    // is left out.
    let _ = fields.push(name, value);
}

/// True if the first `bits` of both are equal.
fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |address: &[u8], network: &[u8]| {
        let (whole, rest) = (usize::from(bits / 8), bits % 8);
        let mask = !(0xff_u16 >> rest).to_le_bytes()[0];
        let end = |bytes: &[u8]| bytes.get(whole).map(|byte| byte & mask);
        address.get(..whole) == network.get(..whole) && (rest == 0 || end(address) == end(network))
    };
    match (address.to_canonical(), network.to_canonical()) {
        (IpAddr::V4(address), IpAddr::V4(network)) => same(&address.octets(), &network.octets()),
        (IpAddr::V6(address), IpAddr::V6(network)) => same(&address.octets(), &network.octets()),
        _ => false,
    }
}

impl HttpExchange {
    /// The authority of a target in absolute form replaces Host (RFC 9112 §3.2.2).
    fn address(&mut self) {
        let target = &self.request.target[..];
        if target.starts_with(b"/") || target == b"*" || self.request.method == b"CONNECT" {
            return;
        }
        let Some(place) = authority_of(target) else { return };
        let host = target[place].to_vec();
        if self.request.fields.as_headers().get("host") != Some(&host) {
            let _ = self.request.fields.replace("Host", &host); // a received value is valid
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_compared_by_their_prefix() {
        let is = |address: &str, network: &str, bits| {
            is_in(address.parse().unwrap(), network.parse().unwrap(), bits)
        };
        assert!(is("127.1.2.3", "127.0.0.0", 8) && !is("128.1.2.3", "127.0.0.0", 8));
        assert!(is("10.0.15.1", "10.0.0.0", 20) && !is("10.0.16.1", "10.0.0.0", 20));
        assert!(is("1.2.3.4", "9.9.9.9", 0) && is("1.2.3.4", "1.2.3.4", 32));
        assert!(is("::ffff:10.0.0.1", "10.0.0.0", 8) && !is("::1", "10.0.0.0", 8));
        assert!(is("2001:db8::1", "2001:db8::", 32) && !is("2001:db9::1", "2001:db8::", 32));
    }
}
