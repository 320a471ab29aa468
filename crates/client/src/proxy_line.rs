//! The header of the PROXY protocol in front of a connection, as a layer: one line with the
//! addresses of the connection itself (HAProxy's `proxy-protocol.txt`, version 1).

use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use fulmar_engine::{LocalAddress, Peer};
use fulmar_proto::{Input, Layer, LayerError, Opened, Sealed, Transmit};
use fulmar_semantics::proxy_protocol::{Addresses, ProxyProtocolHeader, encode_v1};

/// Sends the header; then the next layer takes over, if there is one.
#[derive(Debug)]
pub(crate) struct ProxyLine {
    /// Known once the socket is connected.
    local: LocalAddress,
    /// `None`: a Unix socket.
    peer: Option<SocketAddr>,
    /// The unsent rest of the line; `None`: it waits for the local address.
    line: Option<Bytes>,
    next: Option<Box<dyn Layer>>,
}

impl ProxyLine {
    /// For a connection that is being opened.
    pub(crate) fn new(peer: &Peer, local: LocalAddress) -> Self {
        let peer = match peer {
            Peer::Ip(address) => Some(*address),
            Peer::Unix(_) => None,
        };
        let line = peer.is_none().then(|| line(None));
        Self { local, peer, line, next: None }
    }

    /// For a connection whose addresses are known; without one of them, the line has none.
    pub(crate) fn of_connection(local: Option<SocketAddr>, peer: Option<SocketAddr>) -> Self {
        let line = Some(line(local.zip(peer)));
        Self { local: local.map(LocalAddress::from).unwrap_or_default(), peer, line, next: None }
    }

    /// Receives the local address.
    pub(crate) fn local(&self) -> &LocalAddress {
        &self.local
    }

    /// The same with the next layer.
    pub(crate) fn followed_by(self, next: Option<Box<dyn Layer>>) -> Self {
        Self { next, ..self }
    }
}

impl Layer for ProxyLine {
    fn open(&mut self, _: &mut Input<'_>, _: &mut BytesMut) -> Result<Opened, LayerError> {
        match &self.line {
            Some(line) if line.is_empty() => Ok(Opened::Replaced(self.next.take())),
            Some(_) | None => Ok(Opened::Blocked),
        }
    }

    fn seal(&mut self, _: Transmit<'_>) -> Result<Sealed, LayerError> {
        Ok(Sealed::Bytes(0))
    }

    fn seal_loaded(&mut self, _: &[u8]) -> Result<(), LayerError> {
        Ok(())
    }

    fn finish(&mut self) {}

    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        if self.line.is_none() {
            self.line = self.local.get().map(|local| line(Some(local).zip(self.peer)));
        }
        let inline = self.line.as_deref()?;
        (!inline.is_empty()).then_some(Transmit::new(inline, &[]))
    }

    fn handle_sent(&mut self, bytes: u64) {
        if let Some(line) = &mut self.line {
            line.advance(usize::try_from(bytes).unwrap_or(line.len()));
        }
    }

    fn set_queue_max(&mut self, bytes: usize) {
        if let Some(next) = &mut self.next {
            next.set_queue_max(bytes);
        }
    }
}

/// The line for a connection from the first to the second address.
fn line(addresses: Option<(SocketAddr, SocketAddr)>) -> Bytes {
    let addresses = match addresses {
        Some((SocketAddr::V4(source), SocketAddr::V4(destination))) => {
            Some(Addresses::V4 { source, destination })
        }
        Some((SocketAddr::V6(source), SocketAddr::V6(destination))) => {
            Some(Addresses::V6 { source, destination })
        }
        _ => None,
    };
    let mut line = Vec::new();
    let header = ProxyProtocolHeader { addresses, ..ProxyProtocolHeader::default() };
    encode_v1(&header, &mut line).expect("version 1 has IP addresses");
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that the layer sends, `step` bytes at a time.
    fn sent(layer: &mut ProxyLine, step: usize) -> String {
        let mut sent = Vec::new();
        while let Some(transmit) = layer.poll_transmit() {
            let bytes = transmit.inline[..step.min(transmit.inline.len())].to_vec();
            layer.handle_sent(bytes.len() as u64);
            sent.extend(bytes);
        }
        String::from_utf8(sent).expect("text")
    }

    fn opened(layer: &mut ProxyLine) -> Opened {
        let mut empty = BytesMut::new();
        layer.open(&mut Input::all(&mut empty, false), &mut BytesMut::new()).expect("no error")
    }

    #[test]
    fn the_line_is_sent_once_the_local_address_is_known() {
        for (peer, local, expected) in [
            ("192.0.2.1:80", "192.0.2.2:4711", "PROXY TCP4 192.0.2.2 192.0.2.1 4711 80\r\n"),
            ("[2001:db8::1]:80", "[::1]:4711", "PROXY TCP6 ::1 2001:db8::1 4711 80\r\n"),
        ] {
            for step in 1..=expected.len() {
                let peer = Peer::Ip(peer.parse().expect("an address"));
                let mut layer = ProxyLine::new(&peer, LocalAddress::default());
                assert!(layer.poll_transmit().is_none());
                assert!(matches!(opened(&mut layer), Opened::Blocked));
                layer.local().clone().set(local.parse().expect("an address"));
                assert_eq!(sent(&mut layer, step), expected);
                assert!(matches!(opened(&mut layer), Opened::Replaced(None)));
            }
        }
    }

    #[test]
    fn unix_sockets_have_no_addresses() {
        let mut layer = ProxyLine::new(&Peer::Unix("/x".into()), LocalAddress::default());
        assert_eq!(sent(&mut layer, 3), "PROXY UNKNOWN\r\n");
        let mut layer = ProxyLine::of_connection(None, Some(([127, 0, 0, 1], 80).into()));
        assert_eq!(sent(&mut layer, 100), "PROXY UNKNOWN\r\n");
    }
}
