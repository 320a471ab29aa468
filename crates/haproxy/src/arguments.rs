//! Arguments that several keywords share.

use std::net::SocketAddr;

use crate::line::KeywordLine;
use crate::model::{SocketLevel, TlsVersion};
use crate::rules::{Word, WordError};
use crate::values::address::{ParsedAddress, Ports};
use crate::values::ciphers::{self, SupportedSuites};
use crate::values::{number, one_of};

/// Length of the accept queue, limited to the range of `listen(2)`.
pub(crate) fn backlog_of(line: &mut KeywordLine<'_>) -> Result<u16, WordError> {
    let most = number(&line.word("a number")?, 0, u32::MAX / 2)?;
    Ok(u16::try_from(most).unwrap_or(u16::MAX))
}

/// `interface` after the address of `source`.
pub(crate) fn interface(line: &mut KeywordLine<'_>) -> Result<Option<String>, WordError> {
    if let Some(word) = line.words.peek().filter(|word| word.text == "usesrc") {
        return Err(WordError::unknown(word.column, format!("'usesrc': {NO_USESRC}")));
    }
    match line.words.take("interface") {
        true => Ok(Some(line.word("the name of an interface")?.text)),
        false => Ok(None),
    }
}

/// A source address; port 0 is any port.
pub(crate) fn source_address(line: &mut KeywordLine<'_>) -> Result<SocketAddr, WordError> {
    let word = line.word("an address")?;
    let wrong = |message| WordError::new(word.column, message);
    match ParsedAddress::parse(&line.expanded(&word)?).map_err(wrong)? {
        ParsedAddress::Ip(host, Ports::None) => {
            Ok(SocketAddr::new(host.resolve(line.machine).map_err(wrong)?, 0))
        }
        ParsedAddress::Ip(host, Ports::Range(first, last)) if first == last => {
            Ok(SocketAddr::new(host.resolve(line.machine).map_err(wrong)?, first))
        }
        _ => Err(WordError::unknown(word.column, "expected an address, optionally with a port")),
    }
}

/// Levels of runtime sockets.
pub(crate) fn socket_level(line: &mut KeywordLine<'_>) -> Result<SocketLevel, WordError> {
    let known = [
        ("user", SocketLevel::User),
        ("operator", SocketLevel::Operator),
        ("admin", SocketLevel::Admin),
    ];
    one_of(&line.word("a level")?, "level", &known)
}

/// A TLS version; versions before 1.2 as a minimum mean 1.2, the oldest of rustls.
pub(crate) fn tls_version(line: &mut KeywordLine<'_>) -> Result<Option<TlsVersion>, WordError> {
    let word = line.word("a version")?;
    match &*word.text {
        "SSLv3" | "TLSv1.0" | "TLSv1.1" => {
            let message =
                format!("{} is not supported: using TLS 1.2, the oldest version", word.text);
            line.warn(word.column, message);
            Ok(Some(TlsVersion::Tls12))
        }
        "TLSv1.2" => Ok(Some(TlsVersion::Tls12)),
        "TLSv1.3" => Ok(Some(TlsVersion::Tls13)),
        other => {
            let message = format!("'{other}' is not a TLS version: expected TLSv1.2 or TLSv1.3");
            Err(WordError::new(word.column, message))
        }
    }
}

/// TLS 1.2 suites with rustls' names; a warning lists the ones that rustls lacks. `None`: rustls'
/// own.
pub(crate) fn suites12(line: &mut KeywordLine<'_>) -> Result<Option<Vec<String>>, WordError> {
    let word = line.word("cipher names separated by colons")?;
    if word.text.starts_with("PROFILE=") {
        let message = "'PROFILE=' is specific to OpenSSL: using the cipher suites of rustls";
        line.warn(word.column, message);
        return Ok(None);
    }
    suites(ciphers::tls12(&word.text), &word, line).map(Some)
}

/// The same for TLS 1.3.
pub(crate) fn suites13(line: &mut KeywordLine<'_>) -> Result<Option<Vec<String>>, WordError> {
    let word = line.word("cipher suites separated by colons")?;
    suites(ciphers::tls13(&word.text), &word, line).map(Some)
}

fn suites(
    chosen: SupportedSuites,
    word: &Word,
    line: &mut KeywordLine<'_>,
) -> Result<Vec<String>, WordError> {
    if chosen.suites.is_empty() {
        let message = "no supported cipher suite in this list (TLS by rustls)";
        return Err(WordError::new(word.column, message));
    }
    if !chosen.missing.is_empty() {
        let missing = chosen.missing.join(", ");
        let message = format!("cipher suites not supported by rustls: {missing}");
        line.warn(word.column, message);
    }
    Ok(chosen.suites)
}

pub(crate) const NO_USESRC: &str =
    "transparent source addresses are not supported: use 'send-proxy'";
