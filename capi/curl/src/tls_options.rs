//! TLS options of a handle for the client.
//!
//! Configurations are kept by the multi handle, or by a share of TLS sessions: transfers with equal
//! options share one, and with it connections and sessions.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use bytes::Bytes;
use fulmar_tls::{
    ClientOptions, ClientTls, ConfigError, HTTP1, HTTP2, Pem, Pin, Roots, Verify, Version,
};
use sha2::{Digest as _, Sha256};

use crate::cipher_list::{key_exchange_groups, tls12_suites, tls13_suites};
use crate::code::CurlCode;
use crate::easy_options::{EasyOptions, HTTP_VERSION_1_0, HTTP_VERSION_1_1};
use crate::failure::Failure;
use crate::handles::{EasyState, Multi};
use crate::key_log::key_log;
use crate::option::OptionId as Id;
use crate::share_kind::SharedKind;
use crate::system_roots::SYSTEM_ROOTS;
use crate::tls_configurations::{FileStamp, TlsConfigurations, TlsKey};
use crate::tls_identity::{IdentityOptions, IdentitySource};
use crate::unsupported::{refuse_unsupported_proxy_tls, refuse_unsupported_tls};
use crate::values::OptionValues;

/// Whose TLS options are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsRole {
    Server,
    /// An HTTPS proxy.
    Proxy,
}

/// The options of one peer.
#[derive(Debug)]
struct TlsOptionIds {
    ca_file: Id,
    ca_blob: Id,
    ca_path: Id,
    revoked: Id,
    verifies_peer: Id,
    verifies_host: Id,
    pins: Id,
    flags: Id,
    issuer: Id,
    issuer_blob: Id,
    cert: Id,
    cert_blob: Id,
    key: Id,
    cert_kind: Id,
    key_blob: Id,
    key_kind: Id,
    password: Id,
    version: Id,
    ciphers: Id,
    ciphers13: Id,
    /// There is none for proxies.
    curves: Option<Id>,
}

impl TlsOptionIds {
    /// Those that have a text or a blob.
    fn texts(&self) -> [Id; 16] {
        let [ca_file, ca_path, revoked, pins, cert, key, issuer] = self.files();
        [
            ca_file,
            ca_path,
            revoked,
            pins,
            cert,
            key,
            self.ca_blob,
            self.cert_blob,
            self.key_blob,
            self.ciphers,
            self.ciphers13,
            self.cert_kind,
            self.key_kind,
            self.password,
            issuer,
            self.issuer_blob,
        ]
    }

    /// Those that name a file or a folder.
    fn files(&self) -> [Id; 7] {
        [self.ca_file, self.ca_path, self.revoked, self.pins, self.cert, self.key, self.issuer]
    }
}

impl TlsRole {
    fn options(self) -> TlsOptionIds {
        match self {
            Self::Server => TlsOptionIds {
                ca_file: Id::CAINFO,
                ca_blob: Id::CAINFO_BLOB,
                ca_path: Id::CAPATH,
                revoked: Id::CRLFILE,
                verifies_peer: Id::SSL_VERIFYPEER,
                verifies_host: Id::SSL_VERIFYHOST,
                pins: Id::PINNEDPUBLICKEY,
                flags: Id::SSL_OPTIONS,
                issuer: Id::ISSUERCERT,
                issuer_blob: Id::ISSUERCERT_BLOB,
                cert: Id::SSLCERT,
                cert_blob: Id::SSLCERT_BLOB,
                key: Id::SSLKEY,
                cert_kind: Id::SSLCERTTYPE,
                key_blob: Id::SSLKEY_BLOB,
                key_kind: Id::SSLKEYTYPE,
                password: Id::KEYPASSWD,
                version: Id::SSLVERSION,
                ciphers: Id::SSL_CIPHER_LIST,
                ciphers13: Id::TLS13_CIPHERS,
                curves: Some(Id::SSL_EC_CURVES),
            },
            Self::Proxy => TlsOptionIds {
                ca_file: Id::PROXY_CAINFO,
                ca_blob: Id::PROXY_CAINFO_BLOB,
                ca_path: Id::PROXY_CAPATH,
                revoked: Id::PROXY_CRLFILE,
                verifies_peer: Id::PROXY_SSL_VERIFYPEER,
                verifies_host: Id::PROXY_SSL_VERIFYHOST,
                pins: Id::PROXY_PINNEDPUBLICKEY,
                flags: Id::PROXY_SSL_OPTIONS,
                issuer: Id::PROXY_ISSUERCERT,
                issuer_blob: Id::PROXY_ISSUERCERT_BLOB,
                cert: Id::PROXY_SSLCERT,
                cert_blob: Id::PROXY_SSLCERT_BLOB,
                key: Id::PROXY_SSLKEY,
                cert_kind: Id::PROXY_SSLCERTTYPE,
                key_blob: Id::PROXY_SSLKEY_BLOB,
                key_kind: Id::PROXY_SSLKEYTYPE,
                password: Id::PROXY_KEYPASSWD,
                version: Id::PROXY_SSLVERSION,
                ciphers: Id::PROXY_SSL_CIPHER_LIST,
                ciphers13: Id::PROXY_TLS13_CIPHERS,
                curves: None,
            },
        }
    }
}

impl Multi {
    /// The configuration for the options of a transfer to an `https` URL or HTTPS proxy.
    pub(crate) fn tls(&self, state: &EasyState, peer: TlsRole) -> Result<ClientTls, Failure> {
        match peer {
            TlsRole::Server => refuse_unsupported_tls(&state.options.values)?,
            TlsRole::Proxy => refuse_unsupported_proxy_tls(&state.options.values)?,
        }
        let share = state.share.as_ref().filter(|share| share.has(SharedKind::SslSession));
        match share {
            Some(share) => {
                let mut known = share.tls.lock().unwrap_or_else(PoisonError::into_inner);
                configuration(&mut known, &state.options, peer)
            }
            None => configuration(&mut self.tls.borrow_mut(), &state.options, peer),
        }
    }
}

/// The known configuration for these options, or a new one.
fn configuration(
    known: &mut TlsConfigurations,
    options: &EasyOptions,
    peer: TlsRole,
) -> Result<ClientTls, Failure> {
    let (values, ids) = (&options.values, peer.options());
    known.get_or_make(key(values, &ids, peer)?, |key| {
        let wanted = client_options(values, &ids, key)?;
        let key = wanted.identity.as_ref().map(|identity| identity.key.clone());
        ClientTls::new(wanted).map_err(|error| unusable(values, &ids, key, &error))
    })
}

/// The failure of a file that cannot be used.
fn unusable(
    values: &OptionValues,
    ids: &TlsOptionIds,
    key: Option<Pem>,
    error: &ConfigError,
) -> Failure {
    let is = |id| error.path().is_some_and(|path| Some(path) == self::path(values, id).as_deref());
    let name = error.path().map(Path::display);
    let of = |code, text: &str| {
        let name = name.as_ref().map(ToString::to_string).unwrap_or_default();
        Failure::new(code, format!("{text}: {name}"))
    };
    match key {
        Some(Pem::Read(path, _)) if error.path() == Some(&path) => {
            identity_options(values, ids).key_failure()
        }
        _ if is(ids.issuer) || error.path() == Some(NO_FILE.as_ref()) => {
            let name = name.as_ref().map(ToString::to_string).unwrap_or_default();
            let text = format!("SSL: Unable to read issuer cert ({name})");
            Failure::new(CurlCode::SslIssuerError, text)
        }
        _ if is(ids.ca_file) => of(CurlCode::SslCaCertBadFile, "error setting certificate file"),
        _ if is(ids.revoked) => of(CurlCode::SslCrlBadFile, "error loading CRL file"),
        None if values.bytes(ids.ca_blob).is_some() => {
            Failure::new(CurlCode::SslCaCertBadFile, "error importing CA certificate blob")
        }
        _ => Failure::new(CurlCode::SslCertProblem, error.to_string()),
    }
}

/// Everything that [`client_options`] reads. Options that mean the same are the same there.
fn key(values: &OptionValues, ids: &TlsOptionIds, peer: TlsRole) -> Result<TlsKey, Failure> {
    let (version_min, version_max) = versions(values.number(ids.version))?;
    Ok(TlsKey {
        texts: ids.texts().map(|id| values.bytes(id).cloned()),
        curves: ids.curves.and_then(|id| values.bytes(id)).cloned(),
        files: ids.files().map(|id| path(values, id).and_then(|path| FileStamp::of(&path))),
        verify: verify(values, ids),
        versions: (version_min, version_max),
        alpn: alpn(values, peer),
        resumes: values.is_on(Id::SSL_SESSIONID_CACHE),
        // With a list of revocations libcurl demands whole chains, too.
        ends_at_root: values.number(ids.flags) & NO_PARTIAL_CHAIN != 0
            || values.bytes(ids.revoked).is_some(),
    })
}

/// How the certificate is verified.
fn verify(values: &OptionValues, ids: &TlsOptionIds) -> Verify {
    match (values.is_on(ids.verifies_peer), values.is_on(ids.verifies_host)) {
        (true, true) => Verify::Full,
        (true, false) => Verify::Chain,
        (false, true) => Verify::Name,
        (false, false) => Verify::Nothing,
    }
}

/// The protocols that are offered.
fn alpn(values: &OptionValues, peer: TlsRole) -> &'static [&'static [u8]] {
    match (values.is_on(Id::SSL_ENABLE_ALPN), values.number(Id::HTTP_VERSION)) {
        (false, _) => &[],
        (true, HTTP_VERSION_1_0 | HTTP_VERSION_1_1) => &[HTTP1],
        (true, _) if peer == TlsRole::Proxy => &[HTTP1],
        (true, _) => &[HTTP2, HTTP1],
    }
}

fn client_options(
    values: &OptionValues,
    ids: &TlsOptionIds,
    key: &TlsKey,
) -> Result<ClientOptions, Failure> {
    let pins = match values.bytes(ids.pins) {
        Some(text) => public_key_pins(text)?,
        None => Vec::new(),
    };
    Ok(ClientOptions {
        roots: roots(values, ids, key),
        verify: key.verify,
        revoked: path(values, ids.revoked).into_iter().collect(),
        pins,
        issuer: issuer(values, ids)?,
        identity: identity_options(values, ids).identity()?,
        version_min: key.versions.0,
        version_max: key.versions.1,
        ciphers: ciphers(values, ids, key)?,
        groups: groups(key)?,
        alpn: key.alpn.iter().map(|name| name.to_vec()).collect(),
        resumption_len: if key.resumes { ClientOptions::default().resumption_len } else { 0 },
        key_log: key_log(),
        ..ClientOptions::default()
    })
}

/// The cipher suites, by their names in TLS: all, unless an option has a list.
fn ciphers(
    values: &OptionValues,
    ids: &TlsOptionIds,
    key: &TlsKey,
) -> Result<Vec<String>, Failure> {
    let list = |id| values.bytes(id).map(|list| String::from_utf8_lossy(list));
    let (older, newer) = (list(ids.ciphers), list(ids.ciphers13));
    if older.is_none() && newer.is_none() {
        return Ok(Vec::new());
    }
    let newer = tls13_suites(newer.as_deref())?;
    let older = tls12_suites(older.as_deref())?;
    if newer.is_empty() && key.versions.1 == Version::Tls13 {
        return Err(Failure::new(CurlCode::SslConnectError, "no ciphers available"));
    }
    Ok(newer.into_iter().chain(older).map(str::to_owned).collect())
}

/// The groups for key exchange, by their names in TLS: all, unless the option has a list.
fn groups(key: &TlsKey) -> Result<Vec<String>, Failure> {
    let Some(list) = &key.curves else { return Ok(Vec::new()) };
    let found = key_exchange_groups(&String::from_utf8_lossy(list))?;
    Ok(found.into_iter().map(str::to_owned).collect())
}

/// The trusted certificates: those of the system, or of the options instead. As in libcurl, the
/// environment does not replace them.
fn roots(values: &OptionValues, ids: &TlsOptionIds, key: &TlsKey) -> Roots {
    let own = match (values.bytes(ids.ca_blob), path(values, ids.ca_file)) {
        (Some(blob), _) => Roots::empty().pem(Bytes::copy_from_slice(blob)),
        (None, Some(file)) => Roots::empty().file(file),
        (None, None) if Path::new(SYSTEM_ROOTS).exists() => Roots::empty().file(SYSTEM_ROOTS),
        (None, None) => Roots::platform(),
    };
    let all = match path(values, ids.ca_path) {
        Some(folder) => own.hashed_folder(folder),
        None => own,
    };
    if key.ends_at_root { all.self_signed_only() } else { all }
}

/// The certificate that must have issued the server's.
fn issuer(values: &OptionValues, ids: &TlsOptionIds) -> Result<Option<Pem>, Failure> {
    if let Some(blob) = values.bytes(ids.issuer_blob) {
        let name = NO_FILE.into();
        return Ok(Some(Pem::Read(name, Bytes::copy_from_slice(blob))));
    }
    let Some(path) = values.bytes(ids.issuer) else { return Ok(None) };
    let path = Path::new(OsStr::from_bytes(path));
    let read = Pem::read(path).map_err(|_| {
        let text = format!("SSL: Unable to open issuer cert ({})", path.display());
        Failure::new(CurlCode::SslIssuerError, text)
    });
    read.map(Some)
}

/// The client certificate and its key.
fn identity_options<'a>(values: &'a OptionValues, ids: &TlsOptionIds) -> IdentityOptions<'a> {
    let text = |id| values.bytes(id).map(|text| &text[..]);
    IdentityOptions {
        cert: IdentitySource {
            file: text(ids.cert),
            blob: text(ids.cert_blob),
            kind: text(ids.cert_kind),
        },
        key: IdentitySource {
            file: text(ids.key),
            blob: text(ids.key_blob),
            kind: text(ids.key_kind),
        },
        password: text(ids.password),
    }
}

/// `CURLOPT_SSLVERSION`: the lower half has the lowest version, the upper half the highest one.
fn versions(number: i64) -> Result<(Version, Version), Failure> {
    let lowest = match number & 0xffff {
        VERSION_TLS_1_3 => Version::Tls13,
        _ => Version::Tls12, // older ones are not offered
    };
    let highest = match number >> 16 {
        VERSION_DEFAULT | VERSION_TLS_1 | VERSION_TLS_1_3 => Version::Tls13,
        VERSION_TLS_1_2 => Version::Tls12,
        _ => {
            let text = "TLS before version 1.2 is not built in";
            return Err(Failure::new(CurlCode::SslConnectError, text));
        }
    };
    Ok((lowest, highest))
}

/// `CURLOPT_PINNEDPUBLICKEY`: hashes of public keys, or a file with one.
fn public_key_pins(text: &[u8]) -> Result<Vec<Pin>, Failure> {
    let bad = || Failure::new(CurlCode::SslPinnedPubKeyNotMatch, "");
    if !text.starts_with(b"sha256//") {
        let file = std::fs::read(OsStr::from_bytes(text)).map_err(|_| bad())?;
        let key = public_key(&file).ok_or_else(bad)?;
        return Ok(vec![Pin(Sha256::digest(key).into())]);
    }
    let text = std::str::from_utf8(text).map_err(|_| bad())?;
    let pins: Vec<Pin> = text.split(';').filter_map(|pin| pin.parse().ok()).collect();
    if pins.is_empty() { Err(bad()) } else { Ok(pins) }
}

/// A public key in DER, of a file in PEM or DER.
fn public_key(file: &[u8]) -> Option<Vec<u8>> {
    let Some(begin) = memchr::memmem::find(file, PEM_BEGIN) else { return Some(file.to_vec()) };
    let base64 = &file[begin + PEM_BEGIN.len()..];
    let base64 = &base64[..memchr::memmem::find(base64, PEM_END)?];
    let base64: Vec<u8> = base64.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    STANDARD.decode(base64).ok()
}

fn path(values: &OptionValues, id: Id) -> Option<PathBuf> {
    let path = values.bytes(id).filter(|path| !path.is_empty())?;
    Some(OsStr::from_bytes(path).into())
}

const PEM_BEGIN: &[u8] = b"-----BEGIN PUBLIC KEY-----";
const PEM_END: &[u8] = b"-----END PUBLIC KEY-----";
/// The name of a blob in errors: the `NULL` that libcurl prints.
const NO_FILE: &str = "(nil)";
/// `CURLSSLOPT_NO_PARTIALCHAIN`.
const NO_PARTIAL_CHAIN: i64 = 4;
/// `CURL_SSLVERSION_DEFAULT`.
const VERSION_DEFAULT: i64 = 0;
/// `CURL_SSLVERSION_TLSv1`: any version of TLS.
const VERSION_TLS_1: i64 = 1;
/// `CURL_SSLVERSION_TLSv1_2`.
const VERSION_TLS_1_2: i64 = 6;
/// `CURL_SSLVERSION_TLSv1_3`.
const VERSION_TLS_1_3: i64 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_option() {
        for (number, expected) in [
            (0, (Version::Tls12, Version::Tls13)),
            (1, (Version::Tls12, Version::Tls13)),
            (4, (Version::Tls12, Version::Tls13)),
            (7, (Version::Tls13, Version::Tls13)),
            (1 << 16, (Version::Tls12, Version::Tls13)),
            (6 << 16, (Version::Tls12, Version::Tls12)),
            (6 | 7 << 16, (Version::Tls12, Version::Tls13)),
        ] {
            assert_eq!(versions(number).expect("supported"), expected, "{number:x}");
        }
        let refused = versions(5 << 16).expect_err("TLS 1.1");
        assert_eq!(refused.code, CurlCode::SslConnectError);
    }

    #[test]
    fn pins_are_hashes_or_a_file() {
        let pin = Pin([7; 32]);
        let found = public_key_pins(format!("{pin};sha256//bad").as_bytes());
        assert_eq!(found.expect("one is valid"), [pin]);
        for bad in [&b"sha256//bad"[..], b"/no such file"] {
            let refused = public_key_pins(bad).expect_err("no pin");
            assert_eq!(refused.code, CurlCode::SslPinnedPubKeyNotMatch);
        }
        let pem = b"-----BEGIN PUBLIC KEY-----\nAQID\n-----END PUBLIC KEY-----\n";
        assert_eq!(public_key(pem), Some(vec![1, 2, 3]));
        assert_eq!(public_key(b"\x30\x01"), Some(b"\x30\x01".to_vec()));
    }
}
