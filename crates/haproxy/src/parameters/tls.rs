//! TLS settings that `bind` lines, `server` lines and `ssl-default-…` share.

use crate::arguments;
use crate::draft::TlsWords;
use crate::keyword_table::{Keyword, row};
use crate::line::KeywordLine;
use crate::model::TlsVersion;
use crate::rules::WordError;

/// A line that has TLS settings.
pub(crate) trait TlsLine: Sized + 'static {
    /// Its TLS settings.
    fn tls_words(&mut self) -> &mut TlsWords;

    /// Keywords that are also options of `ssl-default-bind-options` and
    /// `ssl-default-server-options`.
    const VERSIONS: &'static [Keyword<Self>] = &[
        row("ssl-min-ver", 0, "TLSv1.2 | TLSv1.3", "oldest TLS version", version_min),
        row("ssl-max-ver", 0, "TLSv1.2 | TLSv1.3", "newest TLS version", version_max),
        row("force-tlsv12", 0, "", "TLS 1.2 only", force12),
        row("force-tlsv13", 0, "", "TLS 1.3 only", force13),
        row("no-tlsv12", 0, "", "TLS 1.3 only", force13),
        row("no-tlsv13", 0, "", "TLS 1.2 only", no13),
    ];

    /// Other keywords.
    const TLS: &'static [Keyword<Self>] = &[
        row("alpn", 0, "<protocols>", "ALPN protocols, separated by commas", alpn),
        row("ciphers", 0, "<ciphers>", "TLS 1.2 cipher suites", ciphers),
        row("ciphersuites", 0, "<suites>", "TLS 1.3 cipher suites", ciphersuites),
    ];
}

impl TlsLine for TlsWords {
    fn tls_words(&mut self) -> &mut TlsWords {
        self
    }
}

fn version_min<T: TlsLine>(draft: &mut T, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.tls_words().version_min = arguments::tls_version(line)?;
    Ok(())
}

fn version_max<T: TlsLine>(draft: &mut T, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.tls_words().version_max = arguments::tls_version(line)?;
    Ok(())
}

fn force12<T: TlsLine>(draft: &mut T, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.tls_words().version_min = Some(TlsVersion::Tls12);
    draft.tls_words().version_max = Some(TlsVersion::Tls12);
    Ok(())
}

fn force13<T: TlsLine>(draft: &mut T, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.tls_words().version_min = Some(TlsVersion::Tls13);
    draft.tls_words().version_max = None;
    Ok(())
}

fn no13<T: TlsLine>(draft: &mut T, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.tls_words().version_max = Some(TlsVersion::Tls12);
    Ok(())
}

fn ciphers<T: TlsLine>(draft: &mut T, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.tls_words().suites12 = arguments::suites12(line)?;
    Ok(())
}

fn ciphersuites<T: TlsLine>(draft: &mut T, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.tls_words().suites13 = arguments::suites13(line)?;
    Ok(())
}

/// Protocol names; `h2` is removed.
fn alpn<T: TlsLine>(draft: &mut T, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("protocol names separated by commas")?;
    let mut names: Vec<String> = word.text.split(',').map(str::to_owned).collect();
    if names.iter().any(|name| name.is_empty() || name.len() > 255) {
        let message = format!("'{}': a protocol name must have 1 to 255 bytes", word.text);
        return Err(WordError::new(word.column, message));
    }
    if names.iter().any(|name| name == "h2") {
        line.warn(word.column, "'h2' is ignored: HTTP/2 is not supported yet");
        names.retain(|name| name != "h2");
    }
    draft.tls_words().alpn = names;
    Ok(())
}
