//! Log variables (aliases) (HAProxy's manual, §8.2.6).

use std::io::Write;
use std::net::IpAddr;

use super::date::{self, DateForm};
use super::{Escape, FormatFlags, FormatString};
use crate::rules::eval_context::{EvalContext, Fact, LogField};
use crate::rules::sample::Sample;

/// An alias.
pub(super) type Alias = &'static AliasRow;

/// A row of the table.
#[derive(Debug)]
pub(super) struct AliasRow {
    pub(super) name: &'static str,
    /// Requires mode http.
    pub(super) http: bool,
    what: What,
}

/// The value of an alias.
#[derive(Debug)]
enum What {
    /// Text, which may be quoted.
    Text(Fact),
    /// A number or a value that is never quoted.
    Plain(Fact),
    /// A number or an address, optionally hexadecimal.
    Hex(Fact),
    /// A time in milliseconds since 1970.
    Date(Fact, DateForm),
    /// A part of the request line.
    Line(LinePart),
    /// Captured fields: `{a|b}`, or a list.
    Captures { request: bool, list: bool },
    /// None: sets flags for the following variables.
    Flags,
}

/// A part of the request line.
#[derive(Clone, Copy, Debug)]
enum LinePart {
    All,
    Method,
    /// Without the query.
    Uri,
    Path,
    Query,
    Target,
    Version,
}

/// The names of all aliases.
pub fn aliases() -> impl Iterator<Item = &'static str> {
    ALIASES.iter().map(|row| row.name)
}

impl AliasRow {
    /// The alias with this name.
    pub(super) fn find(name: &str) -> Option<Alias> {
        ALIASES.iter().find(|row| row.name == name)
    }

    /// True if it is a time.
    pub(super) fn is_date(&self) -> bool {
        matches!(self.what, What::Date(..))
    }

    /// True if it only sets flags (`%o`).
    pub(super) fn is_flags(&self) -> bool {
        matches!(self.what, What::Flags)
    }
}

impl FormatString {
    /// Writes the value of an alias.
    pub(super) fn write_alias(
        &self,
        alias: Alias,
        flags: FormatFlags,
        subject: &dyn EvalContext,
        out: &mut Vec<u8>,
    ) {
        match &alias.what {
            What::Flags => {}
            What::Text(fact) => {
                let text = subject.fact(fact).and_then(Sample::into_text);
                self.write_text(text.as_deref(), flags, self.escape(), out);
            }
            What::Plain(fact) => {
                let text = subject.fact(fact).and_then(Sample::into_text);
                self.write_text(text.as_deref(), FormatFlags::default(), self.escape(), out);
            }
            What::Hex(fact) => match subject.fact(fact) {
                Some(value) if flags.hex => write_hex(value, out),
                value => {
                    let text = value.and_then(Sample::into_text);
                    self.write_text(text.as_deref(), flags.unquoted(), self.escape(), out);
                }
            },
            What::Date(fact, form) => match subject.fact(fact) {
                Some(Sample::Int(ms)) if flags.hex && *form == DateForm::Seconds => {
                    write_hex(Sample::Int(ms.div_euclid(1000)), out);
                }
                Some(Sample::Int(ms)) => date::write(ms, *form, &self.zone, out),
                _ => self.write_text(None, FormatFlags::default(), self.escape(), out),
            },
            What::Line(part) => {
                let fact = subject.fact(&Fact::Log(LogField::RequestLine));
                let line = fact.and_then(Sample::into_text).filter(|line| !line.is_empty());
                match &line {
                    Some(line) => self.write_text(Some(part.of(line)), flags, Escape::Url, out),
                    None => self.write_text(Some(BAD_REQUEST), flags, Escape::Log, out),
                }
            }
            What::Captures { request, list } => {
                self.write_captures(*request, *list, flags, subject, out);
            }
        }
    }

    /// `{a|b}`, or one by one. Empty without captures.
    fn write_captures(
        &self,
        request: bool,
        list: bool,
        flags: FormatFlags,
        subject: &dyn EvalContext,
        out: &mut Vec<u8>,
    ) {
        let count = match request {
            true => LogField::RequestCaptures,
            false => LogField::ResponseCaptures,
        };
        let count = match subject.fact(&Fact::Log(count)) {
            Some(Sample::Int(count)) => usize::try_from(count).unwrap_or(0),
            _ => 0,
        };
        if count == 0 {
            return;
        }
        let mark = |out: &mut Vec<u8>| out.extend(flags.quote.then_some(b'"'));
        let value = |at: usize| {
            let fact = if request { Fact::CapturedRequest(at) } else { Fact::CapturedResponse(at) };
            subject.fact(&fact).and_then(Sample::into_text)
        };
        if list {
            for at in 0..count {
                out.extend((at > 0).then_some(b' '));
                self.write_text(value(at).as_deref(), flags, Escape::Field, out);
            }
            return;
        }
        mark(out);
        for at in 0..count {
            out.push(if at == 0 { b'{' } else { b'|' });
            let value = value(at).unwrap_or_default();
            Escape::Field.write(&value, flags.escape, out);
        }
        out.push(b'}');
        mark(out);
    }
}

impl FormatFlags {
    fn unquoted(self) -> Self {
        Self { quote: false, ..self }
    }
}

impl LinePart {
    /// This part of `GET /a?b HTTP/1.1`.
    fn of(self, line: &[u8]) -> &[u8] {
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let mut word = || words.next().unwrap_or_default();
        let (method, target, version) = (word(), word(), word());
        let path = crate::rules::target::path_of(target);
        match self {
            Self::All => line,
            Self::Method => method,
            Self::Uri => &target[..path.end],
            Self::Path => &target[path],
            Self::Query => &target[path.end..],
            Self::Target => target,
            Self::Version => version,
        }
    }
}

/// Addresses byte by byte, numbers with at least four digits.
fn write_hex(value: Sample<'_>, out: &mut Vec<u8>) {
    let _ = match value {
        Sample::Int(number) => write!(out, "{number:04X}"),
        Sample::Address(IpAddr::V4(address)) => write!(out, "{:08X}", address.to_bits()),
        Sample::Address(IpAddr::V6(address)) => write!(out, "{:032X}", address.to_bits()),
        other => out.write_all(&other.into_text().unwrap_or_default()),
    };
}

/// The request line of an invalid request.
const BAD_REQUEST: &[u8] = b"<BADREQ>";

const fn row(name: &'static str, what: What) -> AliasRow {
    AliasRow { name, http: false, what }
}

const fn http(name: &'static str, what: What) -> AliasRow {
    AliasRow { name, http: true, what }
}

const fn plain(field: LogField) -> What {
    What::Plain(Fact::Log(field))
}

const fn text(field: LogField) -> What {
    What::Text(Fact::Log(field))
}

const fn hex(field: LogField) -> What {
    What::Hex(Fact::Log(field))
}

const fn accepted(form: DateForm) -> What {
    What::Date(Fact::Log(LogField::Accepted), form)
}

const fn began(form: DateForm) -> What {
    What::Date(Fact::Log(LogField::RequestBegan), form)
}

static ALIASES: [AliasRow; 64] = [
    row("o", What::Flags),
    row("B", plain(LogField::BytesRead)),
    http("CC", text(LogField::CapturedRequestCookie)),
    http("CS", text(LogField::CapturedResponseCookie)),
    row("H", What::Text(Fact::Hostname)),
    http("HM", What::Line(LinePart::Method)),
    http("HP", What::Line(LinePart::Uri)),
    http("HPO", What::Line(LinePart::Path)),
    http("HQ", What::Line(LinePart::Query)),
    http("HU", What::Line(LinePart::Target)),
    http("HV", What::Line(LinePart::Version)),
    row("ID", What::Text(Fact::UniqueId)),
    row("ST", plain(LogField::Status)),
    row("T", accepted(DateForm::Utc)),
    http("Ta", plain(LogField::TimeActive)),
    row("Tc", plain(LogField::TimeConnect)),
    row("Td", plain(LogField::TimeData)),
    row("Tl", accepted(DateForm::Local)),
    row("Th", plain(LogField::TimeHandshake)),
    http("Ti", plain(LogField::TimeIdle)),
    http("Tq", plain(LogField::TimeQuery)),
    http("TR", plain(LogField::TimeRequest)),
    http("Tr", plain(LogField::TimeResponse)),
    row("Ts", accepted(DateForm::Seconds)),
    row("Tt", plain(LogField::TimeTotal)),
    row("Tu", plain(LogField::TimeUser)),
    row("Tw", plain(LogField::TimeWait)),
    row("U", plain(LogField::BytesUploaded)),
    row("ac", plain(LogField::ProcessConnections)),
    row("b", text(LogField::Backend)),
    row("bc", plain(LogField::BackendConnections)),
    row("bi", hex(LogField::ServerLocalAddress)),
    row("bp", hex(LogField::ServerLocalPort)),
    row("bq", plain(LogField::BackendQueue)),
    row("ci", hex(LogField::ClientAddress)),
    row("cp", hex(LogField::ClientPort)),
    row("f", text(LogField::Frontend)),
    row("fc", plain(LogField::FrontendConnections)),
    row("fi", hex(LogField::FrontendAddress)),
    row("fp", hex(LogField::FrontendPort)),
    row("ft", text(LogField::FrontendTransport)),
    row("lc", plain(LogField::LogCounter)),
    row("hr", What::Captures { request: true, list: false }),
    row("hrl", What::Captures { request: true, list: true }),
    row("hs", What::Captures { request: false, list: false }),
    row("hsl", What::Captures { request: false, list: true }),
    row("ms", accepted(DateForm::MillisOnly)),
    row("pid", What::Hex(Fact::Process)),
    http("r", What::Line(LinePart::All)),
    row("rc", plain(LogField::Retries)),
    row("rt", hex(LogField::RequestCounter)),
    row("s", text(LogField::Server)),
    row("sc", plain(LogField::ServerConnections)),
    row("si", hex(LogField::ServerAddress)),
    row("sp", hex(LogField::ServerPort)),
    row("sq", plain(LogField::ServerQueue)),
    row("sslc", text(LogField::TlsCipher)),
    row("sslv", text(LogField::TlsVersion)),
    row("t", accepted(DateForm::Millis)),
    http("tr", began(DateForm::Millis)),
    http("trg", began(DateForm::Utc)),
    http("trl", began(DateForm::Local)),
    row("ts", plain(LogField::TerminationState)),
    http("tsc", plain(LogField::TerminationStateCookie)),
];
