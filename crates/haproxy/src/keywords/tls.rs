//! TLS settings in `global`.

use crate::arguments::{suites12, suites13};
use crate::draft::{Globals, TlsWords};
use crate::keyword_table::{self, Keyword, row};
use crate::line::KeywordLine;
use crate::parameters::tls::TlsLine;
use crate::rules::WordError;
use crate::values::one_of;

pub(super) const ROWS: &[Keyword<Globals>] = &[
    row("ca-base", 0, "<directory>", "base of relative paths in 'ca-file'", ca_base),
    row("crt-base", 0, "<directory>", "base of relative paths in 'crt'", crt_base),
    row(
        "ssl-default-bind-ciphers",
        0,
        "<ciphers>",
        "default of TLS 1.2 cipher suites for clients",
        bind_ciphers,
    ),
    row(
        "ssl-default-bind-ciphersuites",
        0,
        "<suites>",
        "default of TLS 1.3 cipher suites for clients",
        bind_suites,
    ),
    row(
        "ssl-default-bind-options",
        0,
        "<option>...",
        "default TLS versions and tickets for clients",
        bind_options,
    ),
    row(
        "ssl-default-server-ciphers",
        0,
        "<ciphers>",
        "default of TLS 1.2 cipher suites for servers",
        server_ciphers,
    ),
    row(
        "ssl-default-server-ciphersuites",
        0,
        "<suites>",
        "default of TLS 1.3 cipher suites for servers",
        server_suites,
    ),
    row(
        "ssl-default-server-options",
        0,
        "<option>...",
        "default TLS versions for servers",
        server_options,
    ),
    row(
        "ssl-default-bind-curves",
        0,
        "<curves>",
        "accepted: the curves of rustls are used",
        skip_one,
    ),
    row(
        "ssl-server-verify",
        0,
        "none | required",
        "default of 'verify' for servers",
        server_verify,
    ),
    row(
        "ssl-dh-param-file",
        0,
        "<file>",
        "accepted: there is no finite-field key exchange",
        skip_one,
    ),
];

fn ca_base(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.ca_base = Some(line.word("a directory")?.text.into());
    Ok(())
}

fn crt_base(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.crt_base = Some(line.word("a directory")?.text.into());
    Ok(())
}

fn bind_ciphers(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.bind_tls.suites12 = suites12(line)?;
    Ok(())
}

fn bind_suites(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.bind_tls.suites13 = suites13(line)?;
    Ok(())
}

fn bind_options(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    options(&mut globals.bind_tls, line)
}

fn server_ciphers(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.server_tls.suites12 = suites12(line)?;
    Ok(())
}

fn server_suites(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.server_tls.suites13 = suites13(line)?;
    Ok(())
}

fn server_options(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    options(&mut globals.server_tls, line)
}

fn server_verify(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("none or required")?;
    globals.verifies_no_server = one_of(&word, "value", &[("none", true), ("required", false)])?;
    Ok(())
}

fn skip_one(_globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    line.word("a value").map(drop)
}

fn options(tls: &mut TlsWords, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    line.words.clone().expect("an option")?;
    while let Some(word) = line.words.next() {
        if let Some((row, _)) =
            keyword_table::find(&[TlsWords::VERSIONS], std::slice::from_ref(word))
        {
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
                return Err(WordError::unknown(word.column, message));
            }
        }
    }
    Ok(())
}
