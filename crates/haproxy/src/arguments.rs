//! Arguments that several keywords and parameters take.

use std::net::SocketAddr;

use crate::line::Line;
use crate::model::{Level, TlsVersion};
use crate::rules::{Fault, Word};
use crate::values::address::{Ports, Written};
use crate::values::ciphers::{self, Chosen};
use crate::values::{number, one_of};

/// Connections that wait to be accepted; more than the kernel ever lets wait are as many as that.
pub(crate) fn backlog_of(line: &mut Line<'_>) -> Result<u16, Fault> {
    let most = number(&line.word("a number")?, "the backlog", 0, u32::MAX / 2)?;
    Ok(u16::try_from(most).unwrap_or(u16::MAX))
}

/// `interface` behind the address of `source`.
pub(crate) fn interface(line: &mut Line<'_>) -> Result<Option<String>, Fault> {
    if let Some(word) = line.words.peek().filter(|word| word.text == "usesrc") {
        return Err(Fault::unknown(word.column, format!("'usesrc': {NO_USESRC}")));
    }
    match line.words.take("interface") {
        true => Ok(Some(line.word("the name of an interface")?.text)),
        false => Ok(None),
    }
}

/// The address that connections come from; port 0 is any.
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
        _ => Err(Fault::unknown(word.column, "an address, or one with one port, is wanted here")),
    }
}

/// Levels of a runtime socket.
pub(crate) fn socket_level(line: &mut Line<'_>) -> Result<Level, Fault> {
    let known = [("user", Level::User), ("operator", Level::Operator), ("admin", Level::Admin)];
    one_of(&line.word("a level")?, "level", &known)
}

/// A version; older ones than 1.2 mean 1.2 as the least, as rustls has no older.
pub(crate) fn tls_version(line: &mut Line<'_>) -> Result<Option<TlsVersion>, Fault> {
    let word = line.word("a version")?;
    match &*word.text {
        "SSLv3" | "TLSv1.0" | "TLSv1.1" => {
            let message = format!("{} is not spoken: 1.2 is the oldest version", word.text);
            line.warn(word.column, message);
            Ok(Some(TlsVersion::Tls12))
        }
        "TLSv1.2" => Ok(Some(TlsVersion::Tls12)),
        "TLSv1.3" => Ok(Some(TlsVersion::Tls13)),
        other => {
            let message = format!("'{other}' is no version; there are TLSv1.2 and TLSv1.3");
            Err(Fault::new(word.column, message))
        }
    }
}

/// Suites of TLS 1.2, as rustls calls them; a warning names those that it does not have. `None`:
/// rustls' own.
pub(crate) fn suites12(line: &mut Line<'_>) -> Result<Option<Vec<String>>, Fault> {
    let word = line.word("names of ciphers, with colons")?;
    if word.text.starts_with("PROFILE=") {
        let message = "the system's choice of ciphers is OpenSSL's: rustls' own are used";
        line.warn(word.column, message);
        return Ok(None);
    }
    suites(ciphers::tls12(&word.text), &word, line).map(Some)
}

/// The same for TLS 1.3.
pub(crate) fn suites13(line: &mut Line<'_>) -> Result<Option<Vec<String>>, Fault> {
    let word = line.word("names of suites, with colons")?;
    suites(ciphers::tls13(&word.text), &word, line).map(Some)
}

fn suites(chosen: Chosen, word: &Word, line: &mut Line<'_>) -> Result<Vec<String>, Fault> {
    if chosen.suites.is_empty() {
        let message = "rustls, which speaks TLS here, has none of these suites";
        return Err(Fault::new(word.column, message));
    }
    if !chosen.missing.is_empty() {
        let missing = chosen.missing.join(", ");
        let message = format!("left out, as rustls, which speaks TLS here, lacks it: {missing}");
        line.warn(word.column, message);
    }
    Ok(chosen.suites)
}

pub(crate) const NO_USESRC: &str = "connections do not come from addresses of others, which needs privileges \
                         while they are made; 'send-proxy' tells the client's address";
