//! `server` and `default-server` lines (HAProxy's configuration manual, §5.2).

use std::time::Duration;

use super::tls::SaysTls;
use crate::draft::{Draft, ServerDraft, TlsWords};
use crate::line::Line;
use crate::model::{Observe, OnError, Resolve, ServerAddress, ServerProxy};
use crate::rules::{Fault, Word};
use crate::spot::Reference;
use crate::table::{Keyword, Unsupported, row};
use crate::values::address::{Ports, Written};
use crate::values::{Unit, duration, number, one_of};
use crate::{arguments, compile};

/// All parameters.
pub(crate) const TABLES: &[&[Keyword<ServerDraft>]] =
    &[ROWS, ServerDraft::VERSIONS, ServerDraft::TLS];

const ROWS: &[Keyword<ServerDraft>] = &[
    row("id", 0, "<number>", "its number in the statistics", id),
    row("weight", 0, "<0-256>", "its share of the load", weight),
    row("backup", 0, "", "it is used when no other is usable", backup),
    row("no-backup", 0, "", "it is one of the others", no_backup),
    row("disabled", 0, "", "it is in maintenance from the start", disabled),
    row("enabled", 0, "", "it is not", enabled),
    row("maxconn", 0, "<number>", "exchanges at a time; others wait", maxconn),
    row("minconn", 0, "<number>", "the limit while there is little load", minconn),
    row("maxqueue", 0, "<number>", "how many may wait for it", maxqueue),
    row("cookie", 0, "<value>", "the value that leads to it", cookie),
    row("check", 0, "", "its health is checked", check),
    row("no-check", 0, "", "it is not", no_check),
    row("inter", 0, "<time>", "between checks", inter),
    row("fastinter", 0, "<time>", "while it is neither up nor down", fastinter),
    row("downinter", 0, "<time>", "while it is down", downinter),
    row("rise", 0, "<number>", "good checks until it is up", rise),
    row("fall", 0, "<number>", "bad checks until it is down", fall),
    row("port", 0, "<port>", "the port of checks", port),
    row("addr", 0, "<address>", "the address of checks", addr),
    row("check-ssl", 0, "", "checks use TLS", check_ssl),
    row("no-check-ssl", 0, "", "checks use none", no_check_ssl),
    row("check-sni", 0, "<name>", "the name that checks ask TLS for", check_sni),
    row("check-send-proxy", 0, "", "checks begin with a PROXY header", check_proxy),
    row("no-check-send-proxy", 0, "", "they do not", no_check_proxy),
    row("observe", 0, "layer4 | layer7", "whose failures count beside those of checks", observe),
    row("on-error", 0, "<action>", "what too many of them do", on_error),
    row("error-limit", 0, "<number>", "how many are too many", error_limit),
    row("on-marked-down", 0, "shutdown-sessions", "connections end with it", on_down),
    row("on-marked-up", 0, "shutdown-backup-sessions", "those of backups end", on_up),
    row("track", 0, "[<backend>/]<server>", "whose health it has", track),
    row("slowstart", 0, "<time>", "until it has its full weight", slowstart),
    row("send-proxy", 0, "", "connections begin with a PROXY header", proxy1),
    row("send-proxy-v2", 0, "", "in version 2", proxy2),
    row("send-proxy-v2-ssl", 0, "", "with what is known of the client's TLS", proxy2_tls),
    row("send-proxy-v2-ssl-cn", 0, "", "with the name in its certificate", proxy2_name),
    row("no-send-proxy", 0, "", "none", no_proxy),
    row("no-send-proxy-v2", 0, "", "none", no_proxy),
    row("ssl", 0, "", "TLS", ssl),
    row("no-ssl", 0, "", "none", no_ssl),
    row("verify", 0, "none | required", "whether its certificate is checked", verify),
    row("verifyhost", 0, "<name>", "the name that has to be in it", verifyhost),
    row("ca-file", 0, "<file> | @system-ca", "who signs it", ca_file),
    row("crt", 0, "<file>", "our own certificate", crt),
    row("crl-file", 0, "<file>", "certificates that have been revoked", crl_file),
    row("no-ssl-reuse", 0, "", "every handshake is a full one", no_ssl_reuse),
    row("ssl-reuse", 0, "", "sessions are resumed, which is the default", ssl_reuse),
    row("sni", 0, "<expression>", "the name that is asked for", sni),
    row("source", 0, "<address>", "where connections come from", source),
    row("pool-max-conn", 0, "<number>", "idle connections that are kept", idle_max),
    row("pool-purge-delay", 0, "<time>", "how long", idle_timeout),
    row("max-reuse", 0, "<number>", "exchanges on a connection after the first", reuse_max),
    row("tcp-ut", 0, "<time>", "how long bytes may stay unacknowledged", user_timeout),
    row("redir", 0, "<prefix>", "GET and HEAD are sent there instead", redir),
    row("proto", 0, "h1 | none", "accepted: HTTP/1 is spoken, or nothing", super::proto),
    row("check-proto", 0, "h1 | none", "the same of checks", super::proto),
    row(
        "init-addr",
        0,
        "last | libc | none | <ip>, with commas",
        "how its name is resolved",
        init_addr,
    ),
];

/// Parameters that change nothing here, and how many values they have.
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

/// Parameters that are not supported, why, and how many values they have.
pub(crate) const UNSUPPORTED: &[(Unsupported, usize)] = &[
    (("agent-addr", "agents are not asked"), 1),
    (("agent-check", "agents are not asked"), 0),
    (("agent-inter", "agents are not asked"), 1),
    (("agent-port", "agents are not asked"), 1),
    (("agent-send", "agents are not asked"), 1),
    (("check-via-socks4", "SOCKS is not spoken"), 0),
    (("force-sslv3", "1.2 is the oldest version"), 0),
    (("force-tlsv10", "1.2 is the oldest version"), 0),
    (("force-tlsv11", "1.2 is the oldest version"), 0),
    (("log-proto", "logs are not forwarded"), 1),
    (("namespace", "namespaces are the service manager's"), 1),
    (("proxy-v2-options", "'send-proxy-v2-ssl' and 'send-proxy-v2-ssl-cn' are"), 1),
    (("resolvers", "names are resolved once, at the start"), 1),
    (("socks4", "SOCKS is not spoken"), 1),
    (("ws", "HTTP/1.1 is spoken"), 1),
];

/// Reads a `server` line.
pub(crate) fn parse(draft: &Draft, line: &mut Line<'_>) -> Result<ServerDraft, Fault> {
    let name = name(line)?;
    let (mut server, address) = unplaced(draft, name, line)?;
    server.model.address = resolved(&server, &address, line, 0)?;
    server.finish(&address, line)?;
    Ok(server)
}

/// Reads a `server-template` line: as many servers as it says, and each has the next address of the
/// name. Those beyond the last one are down.
pub(crate) fn parse_template(
    draft: &Draft,
    line: &mut Line<'_>,
) -> Result<Vec<ServerDraft>, Fault> {
    let prefix = name(line)?;
    let range = line.word("how many there are")?;
    let (first, last) = range.text.split_once('-').unwrap_or(("1", &range.text));
    let bound = |text: &str| {
        let word = Word { text: text.to_owned(), column: range.column };
        number(&word, "the number of a server", 1, SERVERS_MAX)
    };
    let numbers = bound(first)?..=bound(last)?;
    if numbers.is_empty() {
        let message = format!("'{}': the first number comes first", range.text);
        return Err(Fault::new(range.column, message));
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

fn name(line: &mut Line<'_>) -> Result<Word, Fault> {
    let name = line.word("the name of a server")?;
    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    match name.text.chars().find(|&c| !is_known(c)) {
        None => Ok(name),
        Some(c) => {
            let message = format!("'{c}' may not stand in a name: letters, digits, - _ . : may");
            Err(Fault::new(name.column, message))
        }
    }
}

/// Everything but where it is, and the word that says that.
fn unplaced(draft: &Draft, name: Word, line: &mut Line<'_>) -> Result<(ServerDraft, Word), Fault> {
    let address = line.word("the address of a server")?;
    let mut server = draft.default_server.clone();
    server.column = name.column;
    server.model.name = name.text;
    server.model.place = line.spot.place.clone();
    server.model.written_address = line.expanded(&address)?;
    parameters(&mut server, line)?;
    Ok((server, address))
}

/// Reads a `default-server` line.
pub(crate) fn parse_default(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    line.words.clone().expect("a parameter")?;
    let column = line.words.column();
    let mut server = draft.default_server.clone();
    parameters(&mut server, line)?;
    if server.id.take().is_some() {
        return Err(Fault::new(column, "'id' is each server's own: it cannot stand here"));
    }
    draft.default_server = server;
    Ok(())
}

fn parameters(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let what = "parameter of a 'server' line";
    super::read(server, line, TABLES, ACCEPTED, UNSUPPORTED, what)
}

/// `nth`: which address of a name, from 0.
fn resolved(
    server: &ServerDraft,
    word: &Word,
    line: &mut Line<'_>,
    nth: usize,
) -> Result<ServerAddress, Fault> {
    let wrong = |message| Fault::new(word.column, message);
    let text = &server.model.written_address;
    let (host, ports) = match Written::parse(text).map_err(wrong)? {
        Written::Unix(path) => return Ok(ServerAddress::Unix(path)),
        Written::Abstract(name) => return Ok(ServerAddress::Abstract(name)),
        Written::Descriptor(_) => {
            return Err(Fault::unknown(word.column, "a server cannot be an open descriptor"));
        }
        Written::Ip(host, ports) => (host, ports),
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
        Ports::Range(..) => Err(wrong(format!("'{text}': one port is wanted here"))),
        Ports::None => Ok(ServerAddress::Mapped { address: ip, offset: 0 }),
        Ports::Offset(offset) => Ok(ServerAddress::Mapped { address: ip, offset }),
    }
}

impl SaysTls for ServerDraft {
    fn tls_words(&mut self) -> &mut TlsWords {
        &mut self.words
    }
}

impl ServerDraft {
    /// Puts together what belongs together, once all words have been read.
    fn finish(&mut self, address: &Word, line: &Line<'_>) -> Result<(), Fault> {
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
            let message = "a server that is checked wants a port: in its address, or by 'port'";
            return Err(Fault::new(address.column, message));
        }
        let mut check = self.check.clone();
        // A port or an address of its own is another service: it is not asked as the server is.
        let is_elsewhere = check.port.is_some() || check.address.is_some();
        check.tls = self.check_tls.unwrap_or(self.is_tls && !is_elsewhere);
        let sends_proxy = self.model.send_proxy != ServerProxy::None;
        check.send_proxy = self.check_send_proxy || sends_proxy && !is_elsewhere;
        self.model.check = Some(check);
        Ok(())
    }

    fn finish_tls(&mut self, address: &Word, line: &Line<'_>) -> Result<(), Fault> {
        let globals = line.globals;
        let verifies = self.verify.unwrap_or(!globals.verifies_no_server);
        if verifies && !self.ca_said {
            let message = "nobody is named who signs its certificate: say 'ca-file <file>', \
                           'ca-file @system-ca', or 'verify none' if you trust the network";
            return Err(Fault::new(address.column, message));
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

fn id(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.id = Some(number(&line.word("a number")?, "it", 1, u32::MAX / 2)?);
    Ok(())
}

fn weight(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.weight = number(&line.word("a number")?, "a weight", 0, 256)?;
    Ok(())
}

fn backup(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.backup = true;
    Ok(())
}

fn no_backup(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.backup = false;
    Ok(())
}

fn disabled(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.disabled = true;
    Ok(())
}

fn enabled(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.disabled = false;
    Ok(())
}

fn maxconn(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.connections_max = number(&line.word("a number")?, "it", 0, u32::MAX)?;
    Ok(())
}

fn minconn(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.connections_min = number(&line.word("a number")?, "it", 0, u32::MAX)?;
    Ok(())
}

fn maxqueue(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.queue_max = number(&line.word("a number")?, "it", 0, u32::MAX)?;
    Ok(())
}

fn cookie(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.cookie = Some(line.word("a value")?.text);
    Ok(())
}

fn check(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.is_checked = true;
    Ok(())
}

fn no_check(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.is_checked = false;
    Ok(())
}

/// A time that is not 0.
fn positive_time(line: &mut Line<'_>, unit: Unit) -> Result<Duration, Fault> {
    let word = line.word("a time")?;
    let time = duration(&word, "it", unit)?;
    match time.is_zero() {
        true => Err(Fault::new(word.column, "a time that is not 0 is wanted here")),
        false => Ok(time),
    }
}

fn inter(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.check.interval = positive_time(line, Unit::Millis)?;
    Ok(())
}

fn fastinter(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.check.fast_interval = Some(positive_time(line, Unit::Millis)?);
    Ok(())
}

fn downinter(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.check.down_interval = Some(positive_time(line, Unit::Millis)?);
    Ok(())
}

fn rise(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.check.rise = number(&line.word("a number")?, "it", 1, 65_535)?;
    Ok(())
}

fn fall(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.check.fall = number(&line.word("a number")?, "it", 1, 65_535)?;
    Ok(())
}

fn port(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.check.port = Some(number(&line.word("a port")?, "it", 1, u16::MAX)?);
    Ok(())
}

fn addr(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let word = line.word("an address")?;
    let wrong = |message| Fault::new(word.column, message);
    let Written::Ip(host, ports) = Written::parse(&line.expanded(&word)?).map_err(wrong)? else {
        return Err(Fault::unknown(word.column, "an address of IP is wanted here"));
    };
    server.check.address = Some(host.resolve(line.machine).map_err(wrong)?);
    if let Ports::Range(port, _) = ports {
        server.check.port = Some(port);
    }
    Ok(())
}

fn check_ssl(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.check_tls = Some(true);
    Ok(())
}

fn no_check_ssl(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.check_tls = Some(false);
    Ok(())
}

fn check_sni(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.check.sni = Some(line.word("a name")?.text);
    Ok(())
}

fn check_proxy(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.check_send_proxy = true;
    Ok(())
}

fn no_check_proxy(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.check_send_proxy = false;
    Ok(())
}

fn observe(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let known =
        [("none", None), ("layer4", Some(Observe::Layer4)), ("layer7", Some(Observe::Layer7))];
    server.model.observe = one_of(&line.word("a layer")?, "layer", &known)?;
    Ok(())
}

fn on_error(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let known = [
        ("fastinter", OnError::FastInter),
        ("fail-check", OnError::FailCheck),
        ("sudden-death", OnError::SuddenDeath),
        ("mark-down", OnError::MarkDown),
    ];
    server.model.on_error = one_of(&line.word("an action")?, "action", &known)?;
    Ok(())
}

fn error_limit(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.error_limit = number(&line.word("a number")?, "it", 1, u32::MAX)?;
    Ok(())
}

fn on_down(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let known = [("none", false), ("shutdown-sessions", true)];
    server.model.shutdown_when_down = one_of(&line.word("an action")?, "action", &known)?;
    Ok(())
}

fn on_up(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let known = [("none", false), ("shutdown-backup-sessions", true)];
    server.model.shutdown_backups_when_up = one_of(&line.word("an action")?, "action", &known)?;
    Ok(())
}

fn slowstart(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let time = duration(&line.word("a time")?, "it", Unit::Millis)?;
    server.model.slow_start = (!time.is_zero()).then_some(time);
    Ok(())
}

fn proxy1(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.send_proxy = ServerProxy::V1;
    Ok(())
}

fn proxy2(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.send_proxy = ServerProxy::V2 { tls: false, common_name: false };
    Ok(())
}

fn proxy2_tls(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.send_proxy = ServerProxy::V2 { tls: true, common_name: false };
    Ok(())
}

fn proxy2_name(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.send_proxy = ServerProxy::V2 { tls: true, common_name: true };
    Ok(())
}

fn no_proxy(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.send_proxy = ServerProxy::None;
    Ok(())
}

fn ssl(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.is_tls = true;
    Ok(())
}

fn no_ssl(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.is_tls = false;
    Ok(())
}

fn verify(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let known = [("none", false), ("required", true)];
    server.verify = Some(one_of(&line.word("none or required")?, "choice", &known)?);
    Ok(())
}

fn verifyhost(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.tls.verify_host = Some(line.word("a name")?.text);
    Ok(())
}

fn ca_file(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
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

fn crt(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let column = line.words.column();
    let path = line.path("a file with a certificate", line.globals.crt_base.as_ref())?;
    readable(&path, column, line)?;
    server.tls.certificate = Some(path);
    Ok(())
}

fn crl_file(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let column = line.words.column();
    let path = line.path("a file with revoked certificates", line.globals.ca_base.as_ref())?;
    readable(&path, column, line)?;
    server.tls.crl_file = Some(path);
    Ok(())
}

fn no_ssl_reuse(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.tls.always_anew = true;
    Ok(())
}

fn ssl_reuse(server: &mut ServerDraft, _line: &mut Line<'_>) -> Result<(), Fault> {
    server.tls.always_anew = false;
    Ok(())
}

fn readable(path: &std::path::Path, column: u32, line: &Line<'_>) -> Result<(), Fault> {
    let read = line.machine.read(path);
    read.map(drop).map_err(|error| {
        Fault::new(column, format!("'{}' cannot be read: {error}", path.display()))
    })
}

fn sni(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let word = line.word("an expression")?;
    server.tls.sni = Some(compile::expression(&word, line)?);
    Ok(())
}

fn source(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.source = Some(arguments::source_address(line)?);
    server.model.interface = arguments::interface(line)?;
    Ok(())
}

fn idle_max(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let most = number(&line.word("a number")?, "it", -1, i64::MAX)?;
    server.model.idle_max = usize::try_from(most).ok();
    Ok(())
}

fn idle_timeout(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.idle_timeout = duration(&line.word("a time")?, "it", Unit::Millis)?;
    Ok(())
}

fn reuse_max(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let most = number(&line.word("a number")?, "it", -1, i64::from(u32::MAX))?;
    server.model.reuse_max = u32::try_from(most).ok();
    Ok(())
}

fn user_timeout(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.user_timeout = Some(duration(&line.word("a time")?, "it", Unit::Millis)?);
    Ok(())
}

fn track(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let name = line.word("the name of a server")?;
    server.follows = Some(Reference { name, spot: line.spot.clone() });
    Ok(())
}

fn redir(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    server.model.redirect_prefix = Some(line.word("a prefix")?.text);
    Ok(())
}

/// The first way that is known decides: what comes behind `none` is never tried.
fn init_addr(server: &mut ServerDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let word = line.word("how it is resolved")?;
    for way in word.text.split(',') {
        match way {
            "last" | "libc" => {}
            "none" => server.resolve = Resolve::None,
            way => match way.parse() {
                Ok(ip) => server.fallback = server.fallback.or(Some(ip)),
                Err(_) => {
                    let message =
                        format!("'{way}': here may stand last, libc, none and an address");
                    return Err(Fault::new(word.column, message));
                }
            },
        }
    }
    Ok(())
}

/// Of one `server-template`.
const SERVERS_MAX: u32 = 10_000;
