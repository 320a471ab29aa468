//! `server` and `default-server` lines (HAProxy's configuration manual, §5.2).

use std::time::Duration;

use super::tls::TlsLine;
use crate::draft::{ProxyDraft, ServerDraft, TlsWords};
use crate::keyword_table::{Keyword, Unsupported, row};
use crate::line::KeywordLine;
use crate::model::{Observe, OnError, Resolve, ServerAddress, ServerProxy};
use crate::position::NameReference;
use crate::rules::{Word, WordError};
use crate::values::address::{ParsedAddress, Ports};
use crate::values::{TimeUnit, duration, number, one_of};
use crate::{arguments, compile};

/// All parameters.
pub(crate) const TABLES: &[&[Keyword<ServerDraft>]] =
    &[ROWS, ServerDraft::VERSIONS, ServerDraft::TLS];

const ROWS: &[Keyword<ServerDraft>] = &[
    row("id", 0, "<number>", "number in statistics", id),
    row("weight", 0, "<0-256>", "share of the load", weight),
    row("backup", 0, "", "used only when no other server is usable", backup),
    row("no-backup", 0, "", "undo 'backup'", no_backup),
    row("disabled", 0, "", "start in maintenance", disabled),
    row("enabled", 0, "", "undo 'disabled'", enabled),
    row(
        "maxconn",
        0,
        "<number>",
        "maximum number of concurrent exchanges; others are queued",
        maxconn,
    ),
    row("minconn", 0, "<number>", "limit at low load", minconn),
    row("maxqueue", 0, "<number>", "maximum length of the queue", maxqueue),
    row("cookie", 0, "<value>", "cookie value that selects this server", cookie),
    row("check", 0, "", "enable health checks", check),
    row("no-check", 0, "", "disable health checks", no_check),
    row("inter", 0, "<time>", "interval between checks", inter),
    row("fastinter", 0, "<time>", "interval during a transition between up and down", fastinter),
    row("downinter", 0, "<time>", "interval while down", downinter),
    row("rise", 0, "<number>", "successful checks until it is up", rise),
    row("fall", 0, "<number>", "failed checks until it is down", fall),
    row("port", 0, "<port>", "port of checks", port),
    row("addr", 0, "<address>", "address of checks", addr),
    row("check-ssl", 0, "", "use TLS in checks", check_ssl),
    row("no-check-ssl", 0, "", "no TLS in checks", no_check_ssl),
    row("check-sni", 0, "<name>", "TLS server name in checks", check_sni),
    row("check-send-proxy", 0, "", "send a PROXY header in checks", check_proxy),
    row("no-check-send-proxy", 0, "", "no PROXY header in checks", no_check_proxy),
    row("observe", 0, "layer4 | layer7", "count errors of traffic as failed checks", observe),
    row("on-error", 0, "<action>", "action after too many observed errors", on_error),
    row("error-limit", 0, "<number>", "number of errors that are too many", error_limit),
    row(
        "on-marked-down",
        0,
        "shutdown-sessions",
        "close its connections when it goes down",
        on_down,
    ),
    row(
        "on-marked-up",
        0,
        "shutdown-backup-sessions",
        "close connections to backup servers when it comes up",
        on_up,
    ),
    row("track", 0, "[<backend>/]<server>", "server whose health it adopts", track),
    row("slowstart", 0, "<time>", "time until full weight", slowstart),
    row("send-proxy", 0, "", "send a PROXY header, version 1", proxy1),
    row("send-proxy-v2", 0, "", "send a PROXY header, version 2", proxy2),
    row("send-proxy-v2-ssl", 0, "", "the same with the client's TLS information", proxy2_tls),
    row(
        "send-proxy-v2-ssl-cn",
        0,
        "",
        "the same with the common name of the client's certificate",
        proxy2_name,
    ),
    row("no-send-proxy", 0, "", "no PROXY header", no_proxy),
    row("no-send-proxy-v2", 0, "", "no PROXY header", no_proxy),
    row("ssl", 0, "", "use TLS", ssl),
    row("no-ssl", 0, "", "no TLS", no_ssl),
    row("verify", 0, "none | required", "whether its certificate is verified", verify),
    row("verifyhost", 0, "<name>", "required name in its certificate", verifyhost),
    row("ca-file", 0, "<file> | @system-ca", "CAs of its certificate", ca_file),
    row("crt", 0, "<file>", "client certificate", crt),
    row("crl-file", 0, "<file>", "revoked certificates", crl_file),
    row("no-ssl-reuse", 0, "", "disable TLS session resumption", no_ssl_reuse),
    row("ssl-reuse", 0, "", "enable TLS session resumption (default)", ssl_reuse),
    row("sni", 0, "<expression>", "TLS server name", sni),
    row("source", 0, "<address>", "source address of connections", source),
    row("pool-max-conn", 0, "<number>", "maximum number of idle connections", idle_max),
    row("pool-purge-delay", 0, "<time>", "timeout of idle connections", idle_timeout),
    row(
        "max-reuse",
        0,
        "<number>",
        "maximum number of further exchanges per connection",
        reuse_max,
    ),
    row(
        "tcp-ut",
        0,
        "<time>",
        "TCP user timeout: maximum time that data may stay unacknowledged",
        user_timeout,
    ),
    row("redir", 0, "<prefix>", "redirect GET and HEAD requests to this prefix", redir),
    row("proto", 0, "h1 | none", "accepted: HTTP/1 is the only protocol", super::proto),
    row("check-proto", 0, "h1 | none", "accepted: HTTP/1 is the only protocol", super::proto),
    row(
        "init-addr",
        0,
        "last | libc | none | <ip>, with commas",
        "how its name is resolved at the start",
        init_addr,
    ),
];

/// Ignored parameters, with their number of values.
pub(crate) const ACCEPTED: &[(&str, usize)] = &[
    ("allow-0rtt", 0),
    ("check-alpn", 1),
    ("no-agent-check", 0),
    ("no-sslv3", 0),
    ("no-tfo", 0),
    ("no-tls-tickets", 0),
    ("no-tlsv10", 0),
    ("no-tlsv11", 0),
    ("no-verifyhost", 0),
    ("non-stick", 0),
    ("npn", 1),
    ("pool-low-conn", 1),
    ("resolve-net", 1),
    ("resolve-opts", 1),
    ("resolve-prefer", 1),
    ("stick", 0),
    ("tfo", 0),
    ("tls-tickets", 0),
];

/// Unsupported parameters, with the reason and their number of values.
pub(crate) const UNSUPPORTED: &[(Unsupported, usize)] = &[
    (("agent-addr", "agent checks are not supported"), 1),
    (("agent-check", "agent checks are not supported"), 0),
    (("agent-inter", "agent checks are not supported"), 1),
    (("agent-port", "agent checks are not supported"), 1),
    (("agent-send", "agent checks are not supported"), 1),
    (("check-via-socks4", "SOCKS is not supported"), 0),
    (("force-sslv3", "TLS 1.2 is the oldest version"), 0),
    (("force-tlsv10", "TLS 1.2 is the oldest version"), 0),
    (("force-tlsv11", "TLS 1.2 is the oldest version"), 0),
    (("log-proto", "log forwarding is not supported"), 1),
    (("namespace", "set namespaces in the service manager"), 1),
    (("proxy-v2-options", "use 'send-proxy-v2-ssl' or 'send-proxy-v2-ssl-cn'"), 1),
    (("resolvers", "names are resolved only once, at the start"), 1),
    (("socks4", "SOCKS is not supported"), 1),
    (("ws", "WebSocket uses HTTP/1.1"), 1),
];

/// Parses a `server` line.
pub(crate) fn parse(
    draft: &ProxyDraft,
    line: &mut KeywordLine<'_>,
) -> Result<ServerDraft, WordError> {
    let name = name(line)?;
    let (mut server, address) = unplaced(draft, name, line)?;
    server.model.address = resolved(&server, &address, line, 0)?;
    server.finish(&address, line)?;
    Ok(server)
}

/// Parses a `server-template` line: the given number of servers, each with the next address of the
/// name. Servers without an address are down.
pub(crate) fn parse_template(
    draft: &ProxyDraft,
    line: &mut KeywordLine<'_>,
) -> Result<Vec<ServerDraft>, WordError> {
    let prefix = name(line)?;
    let range = line.word("a number or a range")?;
    let (first, last) = range.text.split_once('-').unwrap_or(("1", &range.text));
    let bound = |text: &str| {
        let word = Word { text: text.to_owned(), column: range.column };
        number(&word, 1, SERVERS_MAX)
    };
    let numbers = bound(first)?..=bound(last)?;
    if numbers.is_empty() {
        let message = format!("'{}': the range is reversed", range.text);
        return Err(WordError::new(range.column, message));
    }
    let (template, address) = unplaced(draft, prefix, line)?;
    let mut servers = Vec::new();
    for (at, number) in numbers.enumerate() {
        let mut server = template.clone();
        server.id = None;
        server.model.name = format!("{}{number}", template.model.name);
        server.model.address = resolved(&server, &address, line, at)?;
        server.finish(&address, line)?;
        servers.push(server);
    }
    Ok(servers)
}

fn name(line: &mut KeywordLine<'_>) -> Result<Word, WordError> {
    let name = line.word("the name of a server")?;
    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    match name.text.chars().find(|&c| !is_known(c)) {
        None => Ok(name),
        Some(c) => {
            let message = format!(
                "character '{c}' is not allowed in a name, only letters, digits, '-', '_', '.' \
                 and ':'"
            );
            Err(WordError::new(name.column, message))
        }
    }
}

/// Parses everything but the address, and returns the word with the address.
fn unplaced(
    draft: &ProxyDraft,
    name: Word,
    line: &mut KeywordLine<'_>,
) -> Result<(ServerDraft, Word), WordError> {
    let address = line.word("the address of a server")?;
    let mut server = draft.default_server.clone();
    server.column = name.column;
    server.model.name = name.text;
    server.model.place = line.spot.place.clone();
    server.model.written_address = line.expanded(&address)?;
    parameters(&mut server, line)?;
    Ok((server, address))
}

/// Parses a `default-server` line.
pub(crate) fn parse_default(
    draft: &mut ProxyDraft,
    line: &mut KeywordLine<'_>,
) -> Result<(), WordError> {
    line.words.clone().expect("a parameter")?;
    let column = line.words.column();
    let mut server = draft.default_server.clone();
    parameters(&mut server, line)?;
    if server.id.take().is_some() {
        return Err(WordError::new(column, "'id' is not allowed in 'default-server'"));
    }
    draft.default_server = server;
    Ok(())
}

fn parameters(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let what = "parameter of a 'server' line";
    super::read(server, line, TABLES, ACCEPTED, UNSUPPORTED, what)
}

/// `nth`: index of the name's address, from 0.
fn resolved(
    server: &ServerDraft,
    word: &Word,
    line: &mut KeywordLine<'_>,
    nth: usize,
) -> Result<ServerAddress, WordError> {
    let wrong = |message| WordError::new(word.column, message);
    let text = &server.model.written_address;
    let (host, ports) = match ParsedAddress::parse(text).map_err(wrong)? {
        ParsedAddress::Unix(path) => return Ok(ServerAddress::Unix(path)),
        ParsedAddress::Abstract(name) => return Ok(ServerAddress::Abstract(name)),
        ParsedAddress::Descriptor(_) => {
            return Err(WordError::unknown(
                word.column,
                "the address of a server cannot be a descriptor",
            ));
        }
        ParsedAddress::Ip(host, ports) => (host, ports),
    };
    let found = match host.resolve_nth(line.machine, nth) {
        Ok(None) => return Ok(ServerAddress::Unresolved(text.clone())),
        Ok(Some(ip)) => Ok(ip),
        Err(why) => Err(why),
    };
    let ip = match found.or_else(|wrong| server.fallback.ok_or(wrong)) {
        Ok(ip) => ip,
        Err(_) if server.resolve == Resolve::None => {
            return Ok(ServerAddress::Unresolved(text.clone()));
        }
        Err(message) if line.lenient_names => {
            line.warn(word.column, format!("{message}: the server is down"));
            return Ok(ServerAddress::Unresolved(text.clone()));
        }
        Err(message) => return Err(wrong(message)),
    };
    match ports {
        Ports::Range(0, 0) => Ok(ServerAddress::Mapped { address: ip, offset: 0 }),
        Ports::Range(first, last) if first == last => Ok(ServerAddress::Tcp((ip, first).into())),
        Ports::Range(..) => Err(wrong(format!("'{text}': expected a single port"))),
        Ports::None => Ok(ServerAddress::Mapped { address: ip, offset: 0 }),
        Ports::Offset(offset) => Ok(ServerAddress::Mapped { address: ip, offset }),
    }
}

impl TlsLine for ServerDraft {
    fn tls_words(&mut self) -> &mut TlsWords {
        &mut self.words
    }
}

impl ServerDraft {
    /// Completes the settings after all words are parsed.
    fn finish(&mut self, address: &Word, line: &KeywordLine<'_>) -> Result<(), WordError> {
        if self.is_tls || self.check_tls == Some(true) {
            self.finish_tls(address, line)?;
        }
        self.model.tls = self.is_tls.then(|| self.tls.clone());
        if self.model.connections_min > self.model.connections_max {
            self.model.connections_max = self.model.connections_min;
        }
        if !self.is_checked {
            self.model.check = None;
            return Ok(());
        }
        let lacks_port =
            self.check.port.is_none() && matches!(self.model.address, ServerAddress::Mapped { .. });
        if lacks_port {
            let message = "'check' requires a port in the address or 'port'";
            return Err(WordError::new(address.column, message));
        }
        let mut check = self.check.clone();
        // With its own port or address, the check goes to another service: the server's TLS and
        // PROXY settings do not apply.
        let is_elsewhere = check.port.is_some() || check.address.is_some();
        check.tls = self.check_tls.unwrap_or(self.is_tls && !is_elsewhere);
        let sends_proxy = self.model.send_proxy != ServerProxy::None;
        check.send_proxy = self.check_send_proxy || sends_proxy && !is_elsewhere;
        self.model.check = Some(check);
        Ok(())
    }

    fn finish_tls(&mut self, address: &Word, line: &KeywordLine<'_>) -> Result<(), WordError> {
        let globals = line.globals;
        let verifies = self.verify.unwrap_or(!globals.verifies_no_server);
        if verifies && !self.ca_said {
            let message = "nobody is named who signs its certificate: say 'ca-file <file>', \
                           'ca-file @system-ca', or 'verify none' if you trust the network";
            return Err(WordError::new(address.column, message));
        }
        let words = self.words.clone().or(&globals.server_tls);
        let tls = &mut self.tls;
        tls.verify = verifies;
        (tls.version_min, tls.version_max) = (words.version_min, words.version_max);
        tls.suites = words.suites();
        tls.alpn = words.alpn;
        Ok(())
    }
}

fn id(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.id = Some(number(&line.word("a number")?, 1, u32::MAX / 2)?);
    Ok(())
}

fn weight(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.weight = number(&line.word("a number")?, 0, 256)?;
    Ok(())
}

fn backup(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.backup = true;
    Ok(())
}

fn no_backup(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.backup = false;
    Ok(())
}

fn disabled(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.disabled = true;
    Ok(())
}

fn enabled(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.disabled = false;
    Ok(())
}

fn maxconn(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.connections_max = number(&line.word("a number")?, 0, u32::MAX)?;
    Ok(())
}

fn minconn(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.connections_min = number(&line.word("a number")?, 0, u32::MAX)?;
    Ok(())
}

fn maxqueue(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.queue_max = number(&line.word("a number")?, 0, u32::MAX)?;
    Ok(())
}

fn cookie(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.cookie = Some(line.word("a value")?.text);
    Ok(())
}

fn check(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.is_checked = true;
    Ok(())
}

fn no_check(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.is_checked = false;
    Ok(())
}

/// A time other than 0.
fn positive_time(line: &mut KeywordLine<'_>, unit: TimeUnit) -> Result<Duration, WordError> {
    let word = line.word("a time")?;
    let time = duration(&word, unit)?;
    match time.is_zero() {
        true => Err(WordError::new(word.column, "expected a time other than 0")),
        false => Ok(time),
    }
}

fn inter(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.check.interval = positive_time(line, TimeUnit::Millis)?;
    Ok(())
}

fn fastinter(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.check.fast_interval = Some(positive_time(line, TimeUnit::Millis)?);
    Ok(())
}

fn downinter(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.check.down_interval = Some(positive_time(line, TimeUnit::Millis)?);
    Ok(())
}

fn rise(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.check.rise = number(&line.word("a number")?, 1, 65_535)?;
    Ok(())
}

fn fall(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.check.fall = number(&line.word("a number")?, 1, 65_535)?;
    Ok(())
}

fn port(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.check.port = Some(number(&line.word("a port")?, 1, u16::MAX)?);
    Ok(())
}

fn addr(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("an address")?;
    let wrong = |message| WordError::new(word.column, message);
    let ParsedAddress::Ip(host, ports) =
        ParsedAddress::parse(&line.expanded(&word)?).map_err(wrong)?
    else {
        return Err(WordError::unknown(word.column, "expected an IP address"));
    };
    server.check.address = Some(host.resolve(line.machine).map_err(wrong)?);
    if let Ports::Range(port, _) = ports {
        server.check.port = Some(port);
    }
    Ok(())
}

fn check_ssl(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.check_tls = Some(true);
    Ok(())
}

fn no_check_ssl(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.check_tls = Some(false);
    Ok(())
}

fn check_sni(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.check.sni = Some(line.word("a name")?.text);
    Ok(())
}

fn check_proxy(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.check_send_proxy = true;
    Ok(())
}

fn no_check_proxy(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.check_send_proxy = false;
    Ok(())
}

fn observe(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let known =
        [("none", None), ("layer4", Some(Observe::Layer4)), ("layer7", Some(Observe::Layer7))];
    server.model.observe = one_of(&line.word("a layer")?, "layer", &known)?;
    Ok(())
}

fn on_error(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let known = [
        ("fastinter", OnError::FastInter),
        ("fail-check", OnError::FailCheck),
        ("sudden-death", OnError::SuddenDeath),
        ("mark-down", OnError::MarkDown),
    ];
    server.model.on_error = one_of(&line.word("an action")?, "action", &known)?;
    Ok(())
}

fn error_limit(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.error_limit = number(&line.word("a number")?, 1, u32::MAX)?;
    Ok(())
}

fn on_down(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let known = [("none", false), ("shutdown-sessions", true)];
    server.model.shutdown_when_down = one_of(&line.word("an action")?, "action", &known)?;
    Ok(())
}

fn on_up(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let known = [("none", false), ("shutdown-backup-sessions", true)];
    server.model.shutdown_backups_when_up = one_of(&line.word("an action")?, "action", &known)?;
    Ok(())
}

fn slowstart(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let time = duration(&line.word("a time")?, TimeUnit::Millis)?;
    server.model.slow_start = (!time.is_zero()).then_some(time);
    Ok(())
}

fn proxy1(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.send_proxy = ServerProxy::V1;
    Ok(())
}

fn proxy2(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.send_proxy = ServerProxy::V2 { tls: false, common_name: false };
    Ok(())
}

fn proxy2_tls(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.send_proxy = ServerProxy::V2 { tls: true, common_name: false };
    Ok(())
}

fn proxy2_name(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.send_proxy = ServerProxy::V2 { tls: true, common_name: true };
    Ok(())
}

fn no_proxy(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.send_proxy = ServerProxy::None;
    Ok(())
}

fn ssl(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.is_tls = true;
    Ok(())
}

fn no_ssl(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.is_tls = false;
    Ok(())
}

fn verify(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let known = [("none", false), ("required", true)];
    server.verify = Some(one_of(&line.word("none or required")?, "value", &known)?);
    Ok(())
}

fn verifyhost(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.tls.verify_host = Some(line.word("a name")?.text);
    Ok(())
}

fn ca_file(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.ca_said = true;
    if line.words.take("@system-ca") {
        server.tls.ca_file = None;
        return Ok(());
    }
    let column = line.words.column();
    let path = line.path("a file with certificates", line.globals.ca_base.as_ref())?;
    readable(&path, column, line)?;
    server.tls.ca_file = Some(path);
    Ok(())
}

fn crt(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let column = line.words.column();
    let path = line.path("a file with a certificate", line.globals.crt_base.as_ref())?;
    readable(&path, column, line)?;
    server.tls.certificate = Some(path);
    Ok(())
}

fn crl_file(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let column = line.words.column();
    let path = line.path("a file with revoked certificates", line.globals.ca_base.as_ref())?;
    readable(&path, column, line)?;
    server.tls.crl_file = Some(path);
    Ok(())
}

fn no_ssl_reuse(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.tls.always_anew = true;
    Ok(())
}

fn ssl_reuse(server: &mut ServerDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.tls.always_anew = false;
    Ok(())
}

fn readable(path: &std::path::Path, column: u32, line: &KeywordLine<'_>) -> Result<(), WordError> {
    let read = line.machine.read(path);
    read.map(drop).map_err(|error| {
        WordError::new(column, format!("cannot read '{}': {error}", path.display()))
    })
}

fn sni(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("an expression")?;
    server.tls.sni = Some(compile::expression(&word, line)?);
    Ok(())
}

fn source(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.source = Some(arguments::source_address(line)?);
    server.model.interface = arguments::interface(line)?;
    Ok(())
}

fn idle_max(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let most = number(&line.word("a number")?, -1, i64::MAX)?;
    server.model.idle_max = usize::try_from(most).ok();
    Ok(())
}

fn idle_timeout(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.idle_timeout = duration(&line.word("a time")?, TimeUnit::Millis)?;
    Ok(())
}

fn reuse_max(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let most = number(&line.word("a number")?, -1, i64::from(u32::MAX))?;
    server.model.reuse_max = u32::try_from(most).ok();
    Ok(())
}

fn user_timeout(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.user_timeout = Some(duration(&line.word("a time")?, TimeUnit::Millis)?);
    Ok(())
}

fn track(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = line.word("the name of a server")?;
    server.follows = Some(NameReference { name, spot: line.spot.clone() });
    Ok(())
}

fn redir(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server.model.redirect_prefix = Some(line.word("a prefix")?.text);
    Ok(())
}

/// The first known method decides: methods after `none` are never tried.
fn init_addr(server: &mut ServerDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("a resolution method")?;
    for way in word.text.split(',') {
        match way {
            "last" | "libc" => {}
            "none" => server.resolve = Resolve::None,
            way => match way.parse() {
                Ok(ip) => server.fallback = server.fallback.or(Some(ip)),
                Err(_) => {
                    let message = format!("'{way}': expected 'last', 'libc', 'none' or an address");
                    return Err(WordError::new(word.column, message));
                }
            },
        }
    }
    Ok(())
}

/// Maximum number of servers of a `server-template`.
const SERVERS_MAX: u32 = 10_000;
