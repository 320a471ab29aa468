//! Arguments that several keywords share.

use std::net::SocketAddr;

use crate::line::Line;
use crate::model::{Level, TlsVersion};
use crate::rules::{Fault, Word};
use crate::values::address::{Ports, Written};
use crate::values::ciphers::{self, Chosen};
use crate::values::{number, one_of};

/// Length of the accept queue, limited to the range of `listen(2)`.
pub(crate) fn backlog_of(line: &mut Line<'_>) -> Result<u16, Fault> {
    let most = number(&line.word("a number")?, 0, u32::MAX / 2)?;
    Ok(u16::try_from(most).unwrap_or(u16::MAX))
}

/// `interface` after the address of `source`.
pub(crate) fn interface(line: &mut Line<'_>) -> Result<Option<String>, Fault> {
    if let Some(word) = line.words.peek().filter(|word| word.text == "usesrc") {
        return Err(Fault::unknown(word.column, format!("'usesrc': {NO_USESRC}")));
    }
    match line.words.take("interface") {
        true => Ok(Some(line.word("the name of an interface")?.text)),
        false => Ok(None),
    }
}

/// A source address; port 0 is any port.
pub(crate) fn source_address(line: &mut Line<'_>) -> Result<SocketAddr, Fault> {
    let word = line.word("an address")?;
    let wrong = |message| Fault::new(word.column, message);
    match Written::parse(&line.expanded(&word)?).map_err(wrong)? {
        Written::Ip(host, Ports::None) => {
            Ok(SocketAddr::new(host.resolve(line.machine).map_err(wrong)?, 0))
        }
        Written::Ip(host, Ports::Range(first, last)) if first == last => {
            Ok(SocketAddr::new(host.resolve(line.machine).map_err(wrong)?, first))
        }
        _ => Err(Fault::unknown(word.column, "expected an address, optionally with a port")),
    }
}

/// Levels of runtime sockets.
pub(crate) fn socket_level(line: &mut Line<'_>) -> Result<Level, Fault> {
    let known = [("user", Level::User), ("operator", Level::Operator), ("admin", Level::Admin)];
    one_of(&line.word("a level")?, "level", &known)
}

/// A TLS version; versions before 1.2 as a minimum mean 1.2, the oldest of rustls.
pub(crate) fn tls_version(line: &mut Line<'_>) -> Result<Option<TlsVersion>, Fault> {
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
            Err(Fault::new(word.column, message))
        }
    }
}

/// TLS 1.2 suites with rustls' names; a warning lists the ones that rustls lacks. `None`: rustls'
/// own.
pub(crate) fn suites12(line: &mut Line<'_>) -> Result<Option<Vec<String>>, Fault> {
    let word = line.word("cipher names separated by colons")?;
    if word.text.starts_with("PROFILE=") {
        let message = "'PROFILE=' is specific to OpenSSL: using the cipher suites of rustls";
        line.warn(word.column, message);
        return Ok(None);
    }
    suites(ciphers::tls12(&word.text), &word, line).map(Some)
}

/// The same for TLS 1.3.
pub(crate) fn suites13(line: &mut Line<'_>) -> Result<Option<Vec<String>>, Fault> {
    let word = line.word("cipher suites separated by colons")?;
    suites(ciphers::tls13(&word.text), &word, line).map(Some)
}

fn suites(chosen: Chosen, word: &Word, line: &mut Line<'_>) -> Result<Vec<String>, Fault> {
    if chosen.suites.is_empty() {
        let message = "no supported cipher suite in this list (TLS by rustls)";
        return Err(Fault::new(word.column, message));
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
