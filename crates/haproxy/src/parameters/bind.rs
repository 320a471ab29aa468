//! `bind` lines (HAProxy's configuration manual, §5.1).

use std::net::SocketAddr;

use super::certificates;
use super::tls::TlsLine;
use crate::draft::{BindDraft, TlsWords};
use crate::keyword_table::{Keyword, Unsupported, row};
use crate::line::KeywordLine;
use crate::model::{BindAddress, BindTls, ClientVerify};
use crate::rules::{Word, WordError};
use crate::values::address::{ParsedAddress, Ports};
use crate::values::{TimeUnit, duration, number, one_of};
use crate::{accounts, arguments};

/// All parameters.
pub(crate) const TABLES: &[&[Keyword<BindDraft>]] = &[ROWS, BindDraft::VERSIONS, BindDraft::TLS];

const ROWS: &[Keyword<BindDraft>] = &[
    row("name", 0, "<name>", "name in statistics", name),
    row("id", 0, "<number>", "number in statistics", id),
    row("maxconn", 0, "<number>", "maximum number of concurrent connections", maxconn),
    row("backlog", 0, "<number>", "length of the queue of pending connections", backlog),
    row("accept-proxy", 0, "", "require a PROXY header on every connection", accept_proxy),
    row("defer-accept", 0, "", "accept a connection only when data has arrived", defer_accept),
    row("v4v6", 0, "", "an IPv6 address also accepts IPv4 connections", v4v6),
    row("v6only", 0, "", "an IPv6 address accepts IPv6 connections only", v6only),
    row(
        "interface",
        0,
        "<name>",
        "accept only connections that arrive on this interface",
        interface,
    ),
    row("mss", 0, "<bytes>", "maximum segment size announced to clients", mss),
    row(
        "tcp-ut",
        0,
        "<time>",
        "TCP user timeout: maximum time that data may stay unacknowledged",
        user_timeout,
    ),
    row("tfo", 0, "", "enable TCP Fast Open", fast_open),
    row("mode", 0, "<octal>", "permissions of a Unix socket", mode),
    row("user", 0, "<name>", "owner of a Unix socket", user),
    row("uid", 0, "<number>", "owner of a Unix socket, by number", uid),
    row("group", 0, "<name>", "group of a Unix socket", group),
    row("gid", 0, "<number>", "group of a Unix socket, by number", gid),
    row("level", 0, "user | operator | admin", "permission level of a runtime socket", level),
    row(
        "expose-fd",
        0,
        "listeners",
        "allow the next process to take over the listeners",
        expose_fd,
    ),
    row("ssl", 0, "", "use TLS", ssl),
    row("crt", 0, "<file or directory>", "certificate file with its key", crt),
    row(
        "crt-list",
        0,
        "<file>",
        "file with a list of certificate files and their server names",
        crt_list,
    ),
    row("strict-sni", 0, "", "reject handshakes without a known server name", strict_sni),
    row(
        "verify",
        0,
        "none | optional | required",
        "whether client certificates are requested",
        verify,
    ),
    row("ca-file", 0, "<file>", "CAs of client certificates", ca_file),
    row("crl-file", 0, "<file>", "revoked client certificates", crl_file),
    row("proto", 0, "h1 | none", "accepted: HTTP/1 is the only protocol", super::proto),
    row("no-tls-tickets", 0, "", "disable session tickets", no_tickets),
];

/// Ignored parameters, with their number of values.
pub(crate) const ACCEPTED: &[(&str, usize)] = &[
    ("allow-0rtt", 0),
    ("ca-ignore-err", 1),
    ("crt-ignore-err", 1),
    ("curves", 1),
    ("ecdhe", 1),
    ("nice", 1),
    ("no-ca-names", 0),
    ("no-sslv3", 0),
    ("no-tlsv10", 0),
    ("no-tlsv11", 0),
    ("npn", 1),
    ("prefer-client-ciphers", 0),
    ("process", 1),
    ("severity-output", 1),
    ("shards", 1),
    ("thread", 1),
];

/// Unsupported parameters, with the reason and their number of values.
pub(crate) const UNSUPPORTED: &[(Unsupported, usize)] = &[
    (("accept-netscaler-cip", "use 'accept-proxy'"), 1),
    (("ca-sign-file", "certificates are not generated"), 1),
    (("ca-sign-pass", "certificates are not generated"), 1),
    (("ca-verify-file", "use 'ca-file'"), 1),
    (("force-sslv3", "TLS 1.2 is the oldest version"), 0),
    (("force-tlsv10", "TLS 1.2 is the oldest version"), 0),
    (("force-tlsv11", "TLS 1.2 is the oldest version"), 0),
    (("generate-certificates", "certificates are not generated"), 0),
    (("namespace", "set namespaces in the service manager"), 1),
    (("quic-cc-algo", "QUIC is not supported"), 1),
    (("quic-force-retry", "QUIC is not supported"), 0),
    (("tls-ticket-keys", "ticket keys are generated at the start"), 1),
    (("transparent", "binding to foreign addresses is not supported"), 0),
];

impl TlsLine for BindDraft {
    fn tls_words(&mut self) -> &mut TlsWords {
        &mut self.words
    }
}

/// Parses addresses and parameters.
pub(crate) fn parse(line: &mut KeywordLine<'_>) -> Result<Vec<BindDraft>, WordError> {
    let word = line.word("an address")?;
    let mut template = BindDraft {
        place: line.spot.place.clone(),
        bound: Vec::new(),
        name: None,
        id: None,
        connections_max: None,
        backlog: None,
        accepts_proxy: false,
        defer_accept: false,
        v6only: None,
        interface: None,
        user_timeout: None,
        segment_size_max: None,
        fast_open: false,
        permissions: None,
        owner: (None, None),
        level: None,
        exposes_listeners: false,
        is_tls: false,
        tls: BindTls::default(),
        words: line.globals.bind_tls.clone(),
    };
    let mut addresses = Vec::new();
    for text in word.text.split(',') {
        let word = Word { text: text.to_owned(), column: word.column };
        addresses.push(bound(&word, line)?);
    }
    let what = "parameter of a 'bind' line";
    super::read(&mut template, line, TABLES, ACCEPTED, UNSUPPORTED, what)?;
    finish_tls(&mut template, &word, line)?;
    let with = |bound| BindDraft { bound, ..template.clone() };
    Ok(addresses.into_iter().map(with).collect())
}

fn bound(word: &Word, line: &KeywordLine<'_>) -> Result<Vec<BindAddress>, WordError> {
    let wrong = |message| WordError::new(word.column, message);
    let text = line.expanded(word)?;
    match ParsedAddress::parse(&text).map_err(wrong)? {
        ParsedAddress::Unix(path) => Ok(vec![BindAddress::Unix(path)]),
        ParsedAddress::Abstract(name) => Ok(vec![BindAddress::Abstract(name)]),
        ParsedAddress::Descriptor(descriptor) => Ok(vec![BindAddress::Inherited(descriptor)]),
        ParsedAddress::Ip(host, Ports::Range(first, last)) => {
            let ip = host.resolve(line.machine).map_err(wrong)?;
            let at = |port| BindAddress::Tcp(SocketAddr::new(ip, port));
            Ok((first..=last).map(at).collect())
        }
        ParsedAddress::Ip(_, Ports::None) => Err(wrong(format!("'{text}': missing port"))),
        ParsedAddress::Ip(_, Ports::Offset(_)) => {
            Err(wrong(format!("'{text}': expected a port, not an offset")))
        }
    }
}

fn finish_tls(
    bind: &mut BindDraft,
    address: &Word,
    line: &mut KeywordLine<'_>,
) -> Result<(), WordError> {
    bind.tls.suites = bind.words.suites();
    bind.tls.alpn.clone_from(&bind.words.alpn);
    (bind.tls.version_min, bind.tls.version_max) = (bind.words.version_min, bind.words.version_max);
    bind.tls.no_tickets = bind.words.no_tickets;
    if bind.is_tls && bind.tls.certificates.is_empty() {
        let message = "'ssl' requires a certificate ('crt')";
        return Err(WordError::new(address.column, message));
    }
    if !bind.is_tls && !bind.tls.certificates.is_empty() {
        line.warn(address.column, "'crt' is ignored without 'ssl'");
    }
    if bind.is_tls && bind.tls.verify != ClientVerify::None && bind.tls.ca_file.is_none() {
        let message = "'verify' requires 'ca-file'";
        return Err(WordError::new(address.column, message));
    }
    Ok(())
}

fn name(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.name = Some(line.word("a name")?.text);
    Ok(())
}

fn id(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.id = Some(number(&line.word("a number")?, 1, u32::MAX / 2)?);
    Ok(())
}

fn maxconn(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let most = number(&line.word("a number")?, 0, usize::MAX / 2)?;
    bind.connections_max = (most > 0).then_some(most);
    Ok(())
}

fn backlog(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.backlog = Some(arguments::backlog_of(line)?);
    Ok(())
}

fn accept_proxy(bind: &mut BindDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.accepts_proxy = true;
    Ok(())
}

fn defer_accept(bind: &mut BindDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.defer_accept = true;
    Ok(())
}

fn v4v6(bind: &mut BindDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.v6only = Some(false);
    Ok(())
}

fn v6only(bind: &mut BindDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.v6only = Some(true);
    Ok(())
}

fn interface(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.interface = Some(line.word("an interface")?.text);
    Ok(())
}

fn mss(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.segment_size_max = Some(number(&line.word("a number of bytes")?, 1, u16::MAX)?);
    Ok(())
}

fn user_timeout(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.user_timeout = Some(duration(&line.word("a time")?, TimeUnit::Millis)?);
    Ok(())
}

fn fast_open(bind: &mut BindDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.fast_open = true;
    Ok(())
}

fn mode(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("octal permissions")?;
    let mode = u32::from_str_radix(&word.text, 8).ok().filter(|&mode| mode <= 0o777);
    let wrong = || {
        let message =
            format!("'{}': invalid permissions, expected octal digits, for example 660", word.text);
        WordError::new(word.column, message)
    };
    bind.permissions = Some(mode.ok_or_else(wrong)?);
    Ok(())
}

fn user(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("the name of a user")?;
    bind.owner.0 = Some(accounts::user(&word, line.machine)?);
    Ok(())
}

fn uid(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.owner.0 = Some(number(&line.word("a number")?, 0, u32::MAX - 1)?);
    Ok(())
}

fn group(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("the name of a group")?;
    bind.owner.1 = Some(accounts::group(&word, line.machine)?);
    Ok(())
}

fn gid(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.owner.1 = Some(number(&line.word("a number")?, 0, u32::MAX - 1)?);
    Ok(())
}

fn level(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.level = Some(arguments::socket_level(line)?);
    Ok(())
}

fn expose_fd(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("listeners")?;
    bind.exposes_listeners = one_of(&word, "descriptor type", &[("listeners", true)])?;
    Ok(())
}

fn ssl(bind: &mut BindDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.is_tls = true;
    Ok(())
}

fn crt(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let column = line.words.column();
    let path = line.path("a file with a certificate", line.globals.crt_base.as_ref())?;
    let found = certificates::at(&path, &[], column, line)?;
    bind.tls.certificates.extend(found);
    Ok(())
}

fn crt_list(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let found = certificates::list(line)?;
    bind.tls.certificates.extend(found);
    Ok(())
}

fn strict_sni(bind: &mut BindDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.tls.strict_sni = true;
    Ok(())
}

fn verify(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let known = [
        ("none", ClientVerify::None),
        ("optional", ClientVerify::Optional),
        ("required", ClientVerify::Required),
    ];
    bind.tls.verify = one_of(&line.word("a value")?, "value", &known)?;
    Ok(())
}

fn ca_file(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let column = line.words.column();
    let path = line.path("a file with certificates", line.globals.ca_base.as_ref())?;
    line.machine.read(&path).map_err(|error| {
        WordError::new(column, format!("cannot read '{}': {error}", path.display()))
    })?;
    bind.tls.ca_file = Some(path);
    Ok(())
}

fn crl_file(bind: &mut BindDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let column = line.words.column();
    let path = line.path("a file with lists", line.globals.ca_base.as_ref())?;
    line.machine.read(&path).map_err(|error| {
        WordError::new(column, format!("cannot read '{}': {error}", path.display()))
    })?;
    bind.tls.crl_file = Some(path);
    Ok(())
}

fn no_tickets(bind: &mut BindDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    bind.words.no_tickets = true;
    Ok(())
}
