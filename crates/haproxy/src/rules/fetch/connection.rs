//! Fetches of connections: addresses, TLS, and the server side.

use std::net::{IpAddr, SocketAddr};

use super::{Fetch, Take};
use crate::rules::args::{Args, Takes};
use crate::rules::sample::{Sample, Type};
use crate::rules::subject::{Fact, Subject};
use crate::rules::when::Phase;

pub(super) const TABLE: &[Fetch] = &[
    client(&["src"], Type::Address, |_, s| s.source().map(address)),
    client(&["src_port"], Type::Int, |_, s| s.source().map(port)),
    client(&["src_is_local"], Type::Bool, |_, s| is_local(s, s.source()?)),
    client(&["dst"], Type::Address, |_, s| s.destination().map(address)),
    client(&["dst_port"], Type::Int, |_, s| s.destination().map(port)),
    client(&["dst_is_local"], Type::Bool, |_, s| is_local(s, s.destination()?)),
    fact(&["dst_conn"], Type::Int, Phase::Connection, |_| Fact::ListenerConnections),
    fact(&["fc_src"], Type::Address, Phase::Connection, |_| Fact::ConnectionSource),
    fact(&["fc_dst"], Type::Address, Phase::Connection, |_| Fact::ConnectionDestination),
    fact(&["fc_rcvd_proxy"], Type::Bool, Phase::Connection, |_| Fact::ReceivedProxy),
    client(&["fc_http_major"], Type::Int, |_, s| s.source().map(|_| Sample::Int(1))),
    // Clients with a failed connection are not seen here.
    client(&["fc_err"], Type::Int, |_, s| s.source().map(|_| Sample::Int(0))),
    tls(&["ssl_fc_err"]),
    tls(&["ssl_c_err"]),
    tls(&["ssl_c_ca_err"]),
    fact(&["ssl_fc"], Type::Bool, Phase::Session, |_| Fact::Tls),
    fact(&["ssl_fc_sni", "ssl_fc_npn_sni"], Type::Text, Phase::Session, |_| Fact::TlsServerName),
    session(&["ssl_fc_has_sni"], |_, s| Some(Sample::Bool(s.fact(&Fact::TlsServerName).is_some()))),
    fact(&["ssl_fc_protocol"], Type::Text, Phase::Session, |_| Fact::TlsProtocol),
    fact(&["ssl_fc_cipher"], Type::Text, Phase::Session, |_| Fact::TlsCipher),
    fact(&["ssl_fc_alpn"], Type::Text, Phase::Session, |_| Fact::TlsAlpn),
    fact(&["ssl_fc_is_resumed"], Type::Bool, Phase::Session, |_| Fact::TlsResumed),
    fact(&["ssl_fc_has_crt"], Type::Bool, Phase::Session, |_| Fact::ClientCertificate),
    fact(&["ssl_c_used"], Type::Bool, Phase::Session, |_| Fact::ClientCertificate),
    fact(&["ssl_c_verify"], Type::Int, Phase::Session, |_| Fact::ClientCertificateVerified),
    fact(&["ssl_c_der"], Type::Binary, Phase::Session, |_| Fact::ClientCertificateDer),
    fact(&["ssl_bc"], Type::Bool, Phase::Server, |_| Fact::ServerTls),
    Fetch::new(
        &["bc_http_major"],
        Takes::NONE,
        Type::Int,
        Phase::Server,
        Take::One(|_, s| s.fact(&Fact::ServerAddress).map(|_| Sample::Int(1))),
    ),
    fact(&["bc_dst"], Type::Address, Phase::Server, |_| Fact::ServerAddress),
    fact(&["bc_dst_port"], Type::Int, Phase::Server, |_| Fact::ServerPort),
    fact(&["bc_src"], Type::Address, Phase::Server, |_| Fact::ServerLocalAddress),
    fact(&["bc_src_port"], Type::Int, Phase::Server, |_| Fact::ServerLocalPort),
];

const fn client(
    names: &'static [&'static str],
    kind: Type,
    take: for<'a> fn(&'a Args, &'a dyn Subject) -> Option<Sample<'a>>,
) -> Fetch {
    Fetch::new(names, Takes::NONE, kind, Phase::Connection, Take::One(take))
}

const fn session(
    names: &'static [&'static str],
    take: for<'a> fn(&'a Args, &'a dyn Subject) -> Option<Sample<'a>>,
) -> Fetch {
    Fetch::new(names, Takes::NONE, Type::Bool, Phase::Session, Take::One(take))
}

/// A TLS error: an established connection has none.
const fn tls(names: &'static [&'static str]) -> Fetch {
    let take = Take::One(|_, s| match s.fact(&Fact::Tls)? {
        Sample::Bool(true) => Some(Sample::Int(0)),
        _ => None,
    });
    Fetch::new(names, Takes::NONE, Type::Int, Phase::Session, take)
}

const fn fact(
    names: &'static [&'static str],
    kind: Type,
    phase: Phase,
    make: fn(&Args) -> Fact,
) -> Fetch {
    Fetch::new(names, Takes::NONE, kind, phase, Take::Fact(make))
}

/// IPv4-mapped IPv6 addresses become IPv4.
fn address<'a>(address: SocketAddr) -> Sample<'a> {
    Sample::Address(address.ip().to_canonical())
}

fn port<'a>(address: SocketAddr) -> Sample<'a> {
    Sample::Int(address.port().into())
}

fn is_local(subject: &dyn Subject, address: SocketAddr) -> Option<Sample<'_>> {
    let ip: IpAddr = address.ip().to_canonical();
    subject.fact(&Fact::IsLocal(ip)).or_else(|| ip.is_loopback().then_some(Sample::Bool(true)))
}
