//! Fetches of connections: addresses, TLS, and the server side.

use std::net::{IpAddr, SocketAddr};

use super::{FetchMethod, Take};
use crate::rules::args::{Args, Takes};
use crate::rules::eval_context::{EvalContext, Fact};
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;

pub(super) const TABLE: &[FetchMethod] = &[
    client(&["src"], Type::Address, |_, s| s.source().map(address)),
    client(&["src_port"], Type::Int, |_, s| s.source().map(port)),
    client(&["src_is_local"], Type::Bool, |_, s| is_local(s, s.source()?)),
    client(&["dst"], Type::Address, |_, s| s.destination().map(address)),
    client(&["dst_port"], Type::Int, |_, s| s.destination().map(port)),
    client(&["dst_is_local"], Type::Bool, |_, s| is_local(s, s.destination()?)),
    fact(&["dst_conn"], Type::Int, SamplePhase::Connection, |_| Fact::ListenerConnections),
    fact(&["fc_src"], Type::Address, SamplePhase::Connection, |_| Fact::ConnectionSource),
    fact(&["fc_dst"], Type::Address, SamplePhase::Connection, |_| Fact::ConnectionDestination),
    fact(&["fc_rcvd_proxy"], Type::Bool, SamplePhase::Connection, |_| Fact::ReceivedProxy),
    client(&["fc_http_major"], Type::Int, |_, s| s.source().map(|_| Sample::Int(1))),
    // Clients with a failed connection are not seen here.
    client(&["fc_err"], Type::Int, |_, s| s.source().map(|_| Sample::Int(0))),
    tls(&["ssl_fc_err"]),
    tls(&["ssl_c_err"]),
    tls(&["ssl_c_ca_err"]),
    fact(&["ssl_fc"], Type::Bool, SamplePhase::Session, |_| Fact::Tls),
    fact(&["ssl_fc_sni", "ssl_fc_npn_sni"], Type::Text, SamplePhase::Session, |_| {
        Fact::TlsServerName
    }),
    session(&["ssl_fc_has_sni"], |_, s| Some(Sample::Bool(s.fact(&Fact::TlsServerName).is_some()))),
    fact(&["ssl_fc_protocol"], Type::Text, SamplePhase::Session, |_| Fact::TlsProtocol),
    fact(&["ssl_fc_cipher"], Type::Text, SamplePhase::Session, |_| Fact::TlsCipher),
    fact(&["ssl_fc_alpn"], Type::Text, SamplePhase::Session, |_| Fact::TlsAlpn),
    fact(&["ssl_fc_is_resumed"], Type::Bool, SamplePhase::Session, |_| Fact::TlsResumed),
    fact(&["ssl_fc_has_crt"], Type::Bool, SamplePhase::Session, |_| Fact::ClientCertificate),
    fact(&["ssl_c_used"], Type::Bool, SamplePhase::Session, |_| Fact::ClientCertificate),
    fact(&["ssl_c_verify"], Type::Int, SamplePhase::Session, |_| Fact::ClientCertificateVerified),
    fact(&["ssl_c_der"], Type::Binary, SamplePhase::Session, |_| Fact::ClientCertificateDer),
    fact(&["ssl_bc"], Type::Bool, SamplePhase::Server, |_| Fact::ServerTls),
    FetchMethod::new(
        &["bc_http_major"],
        Takes::NONE,
        Type::Int,
        SamplePhase::Server,
        Take::One(|_, s| s.fact(&Fact::ServerAddress).map(|_| Sample::Int(1))),
    ),
    fact(&["bc_dst"], Type::Address, SamplePhase::Server, |_| Fact::ServerAddress),
    fact(&["bc_dst_port"], Type::Int, SamplePhase::Server, |_| Fact::ServerPort),
    fact(&["bc_src"], Type::Address, SamplePhase::Server, |_| Fact::ServerLocalAddress),
    fact(&["bc_src_port"], Type::Int, SamplePhase::Server, |_| Fact::ServerLocalPort),
];

const fn client(
    names: &'static [&'static str],
    kind: Type,
    take: for<'a> fn(&'a Args, &'a dyn EvalContext) -> Option<Sample<'a>>,
) -> FetchMethod {
    FetchMethod::new(names, Takes::NONE, kind, SamplePhase::Connection, Take::One(take))
}

const fn session(
    names: &'static [&'static str],
    take: for<'a> fn(&'a Args, &'a dyn EvalContext) -> Option<Sample<'a>>,
) -> FetchMethod {
    FetchMethod::new(names, Takes::NONE, Type::Bool, SamplePhase::Session, Take::One(take))
}

/// A TLS error: an established connection has none.
const fn tls(names: &'static [&'static str]) -> FetchMethod {
    let take = Take::One(|_, s| match s.fact(&Fact::Tls)? {
        Sample::Bool(true) => Some(Sample::Int(0)),
        _ => None,
    });
    FetchMethod::new(names, Takes::NONE, Type::Int, SamplePhase::Session, take)
}

const fn fact(
    names: &'static [&'static str],
    kind: Type,
    phase: SamplePhase,
    make: fn(&Args) -> Fact,
) -> FetchMethod {
    FetchMethod::new(names, Takes::NONE, kind, phase, Take::Fact(make))
}

/// IPv4-mapped IPv6 addresses become IPv4.
fn address<'a>(address: SocketAddr) -> Sample<'a> {
    Sample::Address(address.ip().to_canonical())
}

fn port<'a>(address: SocketAddr) -> Sample<'a> {
    Sample::Int(address.port().into())
}

fn is_local(subject: &dyn EvalContext, address: SocketAddr) -> Option<Sample<'_>> {
    let ip: IpAddr = address.ip().to_canonical();
    subject.fact(&Fact::IsLocal(ip)).or_else(|| ip.is_loopback().then_some(Sample::Bool(true)))
}
