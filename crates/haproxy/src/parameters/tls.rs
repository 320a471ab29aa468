//! What `bind` lines, `server` lines and `ssl-default-…` say alike about TLS.

use crate::rules::Fault;

use crate::keywords;
use crate::line::Line;
use crate::model::TlsVersion;
use crate::table::{Keyword, row};

/// What is said alike on both sides of the proxy. `None`: it is not said.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsWords {
    /// `ciphers`, as rustls calls them.
    pub(crate) suites12: Option<Vec<String>>,
    /// `ciphersuites`, as rustls calls them.
    pub(crate) suites13: Option<Vec<String>>,
    /// `ssl-min-ver` and its relatives.
    pub(crate) version_min: Option<TlsVersion>,
    /// `ssl-max-ver` and its relatives.
    pub(crate) version_max: Option<TlsVersion>,
    /// `alpn`.
    pub(crate) alpn: Vec<String>,
    /// `no-tls-tickets`.
    pub(crate) no_tickets: bool,
}

/// What is made of a line that says something about TLS.
pub(crate) trait SaysTls: Sized + 'static {
    /// What it has said so far.
    fn tls_words(&mut self) -> &mut TlsWords;

    /// Words that are also options of `ssl-default-bind-options` and its sibling.
    const VERSIONS: &'static [Keyword<Self>] = &[
        row("ssl-min-ver", 0, "TLSv1.2 | TLSv1.3", "the oldest version", version_min),
        row("ssl-max-ver", 0, "TLSv1.2 | TLSv1.3", "the newest version", version_max),
        row("force-tlsv12", 0, "", "1.2 only", force12),
        row("force-tlsv13", 0, "", "1.3 only", force13),
        row("no-tlsv12", 0, "", "1.3 only", force13),
        row("no-tlsv13", 0, "", "1.2 only", no13),
    ];

    /// The others.
    const TLS: &'static [Keyword<Self>] = &[
        row("alpn", 0, "<protocols>", "what is offered, with commas", alpn),
        row("ciphers", 0, "<ciphers>", "suites of TLS 1.2", ciphers),
        row("ciphersuites", 0, "<suites>", "suites of TLS 1.3", ciphersuites),
    ];
}

impl SaysTls for TlsWords {
    fn tls_words(&mut self) -> &mut TlsWords {
        self
    }
}

impl TlsWords {
    /// What was not said here is as `others` say it.
    pub(crate) fn or(self, others: &Self) -> Self {
        Self {
            suites12: self.suites12.or_else(|| others.suites12.clone()),
            suites13: self.suites13.or_else(|| others.suites13.clone()),
            version_min: self.version_min.or(others.version_min),
            version_max: self.version_max.or(others.version_max),
            ..self
        }
    }

    /// Suites of both versions; if only those of one are said, rustls' own for the other.
    pub(crate) fn suites(&self) -> Vec<String> {
        if self.suites12.is_none() && self.suites13.is_none() {
            return Vec::new();
        }
        let said = |said: &Option<Vec<String>>, own: &[&str]| match said {
            Some(suites) => suites.clone(),
            None => own.iter().map(|name| (*name).to_owned()).collect(),
        };
        let mut suites = said(&self.suites13, OWN13);
        suites.extend(said(&self.suites12, OWN12));
        suites
    }
}

fn version_min<T: SaysTls>(draft: &mut T, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.tls_words().version_min = keywords::tls_version(line)?;
    Ok(())
}

fn version_max<T: SaysTls>(draft: &mut T, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.tls_words().version_max = keywords::tls_version(line)?;
    Ok(())
}

fn force12<T: SaysTls>(draft: &mut T, _line: &mut Line<'_>) -> Result<(), Fault> {
    draft.tls_words().version_min = Some(TlsVersion::Tls12);
    draft.tls_words().version_max = Some(TlsVersion::Tls12);
    Ok(())
}

fn force13<T: SaysTls>(draft: &mut T, _line: &mut Line<'_>) -> Result<(), Fault> {
    draft.tls_words().version_min = Some(TlsVersion::Tls13);
    draft.tls_words().version_max = None;
    Ok(())
}

fn no13<T: SaysTls>(draft: &mut T, _line: &mut Line<'_>) -> Result<(), Fault> {
    draft.tls_words().version_max = Some(TlsVersion::Tls12);
    Ok(())
}

fn ciphers<T: SaysTls>(draft: &mut T, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.tls_words().suites12 = keywords::suites12(line)?;
    Ok(())
}

fn ciphersuites<T: SaysTls>(draft: &mut T, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.tls_words().suites13 = keywords::suites13(line)?;
    Ok(())
}

/// Names of protocols; `h2` is left out.
fn alpn<T: SaysTls>(draft: &mut T, line: &mut Line<'_>) -> Result<(), Fault> {
    let word = line.word("names of protocols, with commas")?;
    let mut names: Vec<String> = word.text.split(',').map(str::to_owned).collect();
    if names.iter().any(|name| name.is_empty() || name.len() > 255) {
        let message = format!("'{}': a name has 1 to 255 bytes", word.text);
        return Err(Fault::new(word.column, message));
    }
    if names.iter().any(|name| name == "h2") {
        line.warn(word.column, "'h2' is left out: HTTP/2 is not spoken yet");
        names.retain(|name| name != "h2");
    }
    draft.tls_words().alpn = names;
    Ok(())
}

/// What rustls has itself, for the version of which nothing is said.
const OWN13: &[&str] =
    &["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"];
const OWN12: &[&str] = &[
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];
