//! What `global` says about TLS.

use crate::rules::{Fault, Word};

use crate::draft::Globals;
use crate::line::Line;
use crate::model::TlsVersion;
use crate::parameters::tls::{SaysTls, TlsWords};
use crate::table::{self, Keyword, row};
use crate::values::ciphers::{self, Chosen};
use crate::values::one_of;

pub(super) const ROWS: &[Keyword<Globals>] = &[
    row("ca-base", 0, "<directory>", "where files of 'ca-file' are", ca_base),
    row("crt-base", 0, "<directory>", "where files of 'crt' are", crt_base),
    row("ssl-default-bind-ciphers", 0, "<ciphers>", "suites of TLS 1.2", bind_ciphers),
    row("ssl-default-bind-ciphersuites", 0, "<suites>", "suites of TLS 1.3", bind_suites),
    row("ssl-default-bind-options", 0, "<option>...", "versions and tickets", bind_options),
    row("ssl-default-server-ciphers", 0, "<ciphers>", "the same, to servers", server_ciphers),
    row("ssl-default-server-ciphersuites", 0, "<suites>", "the same, to servers", server_suites),
    row("ssl-default-server-options", 0, "<option>...", "the same, to servers", server_options),
    row("ssl-default-bind-curves", 0, "<curves>", "accepted: rustls' own are used", skip_one),
    row("ssl-server-verify", 0, "none | required", "whether servers are checked", server_verify),
    row("ssl-dh-param-file", 0, "<file>", "accepted: there is no such key exchange", skip_one),
];

fn ca_base(globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    globals.ca_base = Some(line.word("a directory")?.text.into());
    Ok(())
}

fn crt_base(globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    globals.crt_base = Some(line.word("a directory")?.text.into());
    Ok(())
}

fn bind_ciphers(globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    globals.bind_tls.suites12 = suites12(line)?;
    Ok(())
}

fn bind_suites(globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    globals.bind_tls.suites13 = suites13(line)?;
    Ok(())
}

fn bind_options(globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    options(&mut globals.bind_tls, line)
}

fn server_ciphers(globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    globals.server_tls.suites12 = suites12(line)?;
    Ok(())
}

fn server_suites(globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    globals.server_tls.suites13 = suites13(line)?;
    Ok(())
}

fn server_options(globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    options(&mut globals.server_tls, line)
}

fn server_verify(globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    let word = line.word("none or required")?;
    globals.verifies_no_server = one_of(&word, "choice", &[("none", true), ("required", false)])?;
    Ok(())
}

fn skip_one(_globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    line.word("a value").map(drop)
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

fn options(tls: &mut TlsWords, line: &mut Line<'_>) -> Result<(), Fault> {
    line.words.clone().expect("an option")?;
    while let Some(word) = line.words.next() {
        if let Some((row, _)) = table::find(&[TlsWords::VERSIONS], std::slice::from_ref(word)) {
            (row.read)(tls, line)?;
            continue;
        }
        match &*word.text {
            "no-tls-tickets" => tls.no_tickets = true,
            "no-sslv3"
            | "no-tlsv10"
            | "no-tlsv11"
            | "prefer-client-ciphers"
            | "strict-sni"
            | "tls-tickets" => {}
            other => {
                let message = format!("'{other}' is not supported here");
                return Err(Fault::unknown(word.column, message));
            }
        }
    }
    Ok(())
}

/// A version; older ones than 1.2 mean 1.2 as the least, as rustls has no older.
pub(crate) fn version(line: &mut Line<'_>) -> Result<Option<TlsVersion>, Fault> {
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
