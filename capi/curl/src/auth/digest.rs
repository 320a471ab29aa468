//! Digest (RFC 7616), with libcurl's parser and order of parameters.

use crate::rare::ConstDefault;
use std::fmt;

use md5::{Digest as _, Md5};
use sha2::Sha256;

use super::hex;
use crate::text::Reader;

/// The challenge is invalid, or the server has refused the credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadDigest;

/// The request that a proof covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DigestRequest<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The target as in the request line.
    pub target: &'a [u8],
    /// `CURLAUTH_DIGEST_IE`: without the query.
    pub omits_query: bool,
}

/// The last challenge of a server or a proxy. The default is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct DigestState {
    realm: Option<Vec<u8>>,
    nonce: Option<Vec<u8>>,
    opaque: Option<Vec<u8>>,
    /// As received.
    algorithm: Option<Vec<u8>>,
    hash: DigestHash,
    is_session: bool,
    protection: Option<DigestScope>,
    is_user_hashed: bool,
    cnonce: Option<Vec<u8>>,
    /// Uses of the nonce so far.
    count: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DigestHash {
    #[default]
    Md5,
    Sha256,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DigestScope {
    Auth,
    AuthInt,
}

impl ConstDefault for DigestState {
    const DEFAULT: &'static Self = &Self {
        realm: None,
        nonce: None,
        opaque: None,
        algorithm: None,
        hash: DigestHash::Md5,
        is_session: false,
        protection: None,
        is_user_hashed: false,
        cnonce: None,
        count: 0,
    };
}

impl DigestState {
    /// Handles what follows `Digest` in a field.
    ///
    /// # Errors
    /// [`BadDigest`]. A second nonce without `stale=true` means that the credentials are wrong.
    pub(crate) fn handle_challenge(&mut self, value: &[u8]) -> Result<(), BadDigest> {
        let had_nonce = self.nonce.is_some();
        *self = Self::default();
        let mut is_stale = false;
        let mut reader = Reader::new(value);
        loop {
            reader.take(|byte| byte.is_ascii_whitespace());
            let Some((name, content)) = read_pair(&mut reader) else { break };
            match &name.to_ascii_lowercase()[..] {
                b"nonce" => self.nonce = Some(content),
                b"stale" => is_stale |= content.eq_ignore_ascii_case(b"true"),
                b"realm" => self.realm = Some(content),
                b"opaque" => self.opaque = Some(content),
                b"qop" => self.protection = DigestScope::select(&content).or(self.protection),
                b"algorithm" => self.set_algorithm(content)?,
                b"userhash" => self.is_user_hashed |= content.eq_ignore_ascii_case(b"true"),
                _ => {}
            }
            reader.take(|byte| byte.is_ascii_whitespace());
            reader.skip_word(b",");
        }
        let is_refused = had_nonce && !is_stale;
        let lacks_qop = self.is_session && self.protection.is_none();
        if is_refused || self.nonce.is_none() || lacks_qop {
            return Err(BadDigest);
        }
        Ok(())
    }

    fn set_algorithm(&mut self, name: Vec<u8>) -> Result<(), BadDigest> {
        let mut known = ALGORITHMS.iter();
        let known = known.find(|known| name.eq_ignore_ascii_case(known.0.as_bytes()));
        (_, self.hash, self.is_session) = *known.ok_or(BadDigest)?;
        self.algorithm = Some(name);
        Ok(())
    }

    /// The value for a request. `None` without a challenge, or for a user with control characters,
    /// which would end the line.
    ///
    /// `cnonce` is used for the first request of a challenge; libcurl's is the base64 form of 32
    /// random hexadecimal digits.
    pub(crate) fn authorize(
        &mut self,
        user: &[u8],
        password: &[u8],
        request: DigestRequest<'_>,
        cnonce: &[u8],
    ) -> Option<Vec<u8>> {
        let nonce = self.nonce.as_deref().filter(|_| !user.iter().any(u8::is_ascii_control))?;
        let cnonce = &*self.cnonce.get_or_insert_with(|| cnonce.to_vec());
        self.count = self.count.max(1);
        let (hash, count) = (self.hash, format!("{:08x}", self.count));
        let realm = self.realm.as_deref().unwrap_or_default();
        let mut target = request.target;
        if request.omits_query {
            target = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        }
        let mut key = hash.of(&[user, realm, password]);
        if self.is_session {
            key = hash.of(&[key.as_bytes(), nonce, cnonce]);
        }
        let body = hash.of(&[b""]);
        let covered = match self.protection {
            Some(DigestScope::AuthInt) => hash.of(&[request.method, target, body.as_bytes()]),
            _ => hash.of(&[request.method, target]),
        };
        let (key, covered) = (key.as_bytes(), covered.as_bytes());
        let response = match self.protection {
            Some(protection) => {
                let qop = protection.name().as_bytes();
                hash.of(&[key, nonce, count.as_bytes(), cnonce, qop, covered])
            }
            None => hash.of(&[key, nonce, covered]),
        };
        let hashed = self.is_user_hashed.then(|| hash.of(&[user, realm]));
        let user = hashed.as_ref().map_or(user, |hashed| hashed.as_bytes());
        let mut out = b"Digest username=".to_vec();
        quote(user, &mut out);
        for (name, value) in [("realm", realm), ("nonce", nonce)] {
            out.extend_from_slice(format!(", {name}=").as_bytes());
            quote(value, &mut out);
        }
        out.extend_from_slice(&[b", uri=\"", target, b"\""].concat());
        if let Some(protection) = self.protection {
            out.extend_from_slice(&[b", cnonce=\"", &cnonce[..], b"\""].concat());
            let rest = format!(", nc={count}, qop={}", protection.name());
            out.extend_from_slice(rest.as_bytes());
            self.count += u32::from(protection == DigestScope::Auth);
        }
        out.extend_from_slice(format!(", response=\"{response}\"").as_bytes());
        if let Some(opaque) = &self.opaque {
            out.extend_from_slice(b", opaque=");
            quote(opaque, &mut out);
        }
        if let Some(algorithm) = &self.algorithm {
            out.extend_from_slice(&[b", algorithm=", &algorithm[..]].concat());
        }
        if self.is_user_hashed {
            out.extend_from_slice(b", userhash=true");
        }
        Some(out)
    }
}

impl DigestScope {
    /// `auth` is preferred. `None` without a known value.
    fn select(list: &[u8]) -> Option<Self> {
        let has = |name: &[u8]| {
            let mut items = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii_start);
            items.any(|item| item.eq_ignore_ascii_case(name))
        };
        let int = || has(b"auth-int").then_some(Self::AuthInt);
        if has(b"auth") { Some(Self::Auth) } else { int() }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::AuthInt => "auth-int",
        }
    }
}

impl DigestHash {
    /// The hash of the parts with colons between them.
    fn of(self, parts: &[&[u8]]) -> HexText {
        let text = parts.join(&b':');
        HexText(match self {
            Self::Md5 => hex(&Md5::digest(text)),
            Self::Sha256 => hex(&Sha256::digest(text)),
        })
    }
}

/// A hash as text.
struct HexText(String);

impl HexText {
    fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Display for HexText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A parameter, with the quotes of its value removed. A value without quotes ends at a comma or at
/// the end of the line.
fn read_pair(reader: &mut Reader<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let name = reader.take(|byte| byte != b'=');
    if name.is_empty() || name.len() > NAME_LEN_MAX || !reader.skip_word(b"=") {
        return None;
    }
    if !reader.skip_word(b"\"") {
        let value = reader.take(|byte| !matches!(byte, b',' | b'\r' | b'\n'));
        return (!value.contains(&b'"')).then(|| (name.to_vec(), value.to_vec()));
    }
    let (mut value, mut is_escaped, mut len) = (Vec::new(), false, 0);
    for byte in reader.rest() {
        len += 1;
        match byte {
            b'"' if !is_escaped => break,
            b'\r' | b'\n' if !is_escaped => return None,
            b'\\' if !is_escaped => is_escaped = true,
            byte => {
                value.push(*byte);
                is_escaped = false;
            }
        }
    }
    if is_escaped {
        return None;
    }
    *reader = Reader::new(&reader.rest()[len..]);
    Some((name.to_vec(), value))
}

fn quote(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

const ALGORITHMS: &[(&str, DigestHash, bool)] = &[
    ("MD5", DigestHash::Md5, false),
    ("MD5-sess", DigestHash::Md5, true),
    ("SHA-256", DigestHash::Sha256, false),
    ("SHA-256-sess", DigestHash::Sha256, true),
    // libcurl 7.88 hashes with SHA-256 under this name.
    ("SHA-512-256", DigestHash::Sha256, false),
    ("SHA-512-256-sess", DigestHash::Sha256, true),
];

const NAME_LEN_MAX: usize = 255;
