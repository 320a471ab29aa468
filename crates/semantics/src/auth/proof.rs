//! Parsing and verifying `Authorization` on the server side.
//!
//! This module checks only the proof. `gate` decides which nonces are valid, how old they may be
//! and which counts were used; and whether parts that Digest does not cover matter.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode;
use subtle::ConstantTimeEq as _;

use super::challenge::{Challenge, challenges};
use super::formula::{DigestAlgorithm, Formula, Protection};
use super::scheme::{AuthRequest, Scheme};

/// The credentials in `Authorization` or `Proxy-Authorization`. `Debug` does not print them.
#[non_exhaustive]
pub enum Authorization<'a> {
    /// A name and a password, as received bytes.
    Basic {
        /// Has no colon.
        user: Vec<u8>,
        /// May have colons.
        password: Vec<u8>,
    },
    /// A token.
    Bearer(&'a [u8]),
    /// A proof of knowing a password.
    Digest(DigestProof<'a>),
}

/// The proof that Digest sends instead of the password.
pub struct DigestProof<'a> {
    params: Challenge<'a>,
    algorithm: DigestAlgorithm,
    protection: Protection,
    count: Option<u32>,
}

impl<'a> Authorization<'a> {
    /// `None` if it is malformed, or has an unknown scheme.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let mut found = challenges([value]);
        let params = found.pop().filter(|_| found.is_empty())?;
        if params.is("Basic") {
            let pair = STANDARD.decode(params.token68?).ok()?;
            let colon = pair.iter().position(|byte| *byte == b':')?;
            let (user, password) = (pair[..colon].to_vec(), pair[colon + 1..].to_vec());
            return Some(Self::Basic { user, password });
        }
        if params.is("Bearer") {
            return params.token68.map(Self::Bearer);
        }
        DigestProof::new(params).map(Self::Digest)
    }
}

impl<'a> DigestProof<'a> {
    fn new(params: Challenge<'a>) -> Option<Self> {
        let algorithm = DigestAlgorithm::of(&params)?;
        let protection = Protection::of(&params)?;
        let all = ["realm", "nonce", "uri", "response"];
        let is_whole = all.iter().all(|name| params.get(name).is_some());
        let count = match protection {
            Protection::Legacy => None,
            _ => Some(count(params.get("nc")?)?),
        };
        let has_cnonce = count.is_none() && !algorithm.is_session || params.get("cnonce").is_some();
        (is_whole && has_cnonce).then_some(Self { params, algorithm, protection, count })
    }

    /// The scheme; a server should refuse schemes that it did not offer.
    pub fn scheme(&self) -> Scheme {
        self.algorithm.scheme()
    }

    /// The nonce of the proof.
    pub fn nonce(&self) -> &[u8] {
        self.param("nonce")
    }

    /// The client's count of uses of the nonce; `None` without a count (RFC 2069), which permits
    /// replays.
    pub fn count(&self) -> Option<u32> {
        self.count
    }

    /// The target of the proof, which must be the request's (RFC 7616 §3.4.6).
    pub fn target(&self) -> &[u8] {
        self.param("uri")
    }

    /// The user name sent by the client. `None` if it is missing, repeated, or hashed: see
    /// `is_of`.
    pub fn user(&self) -> Option<Cow<'_, [u8]>> {
        if self.is_user_hashed() { None } else { self.name() }
    }

    /// True if the proof is for this user name.
    pub(crate) fn is_of(&self, user: &str) -> bool {
        let Some(name) = self.name() else { return false };
        if self.is_user_hashed() {
            let hash = self.algorithm.hash.of(&[user.as_bytes(), self.param("realm")]);
            return name.eq_ignore_ascii_case(hash.as_bytes());
        }
        *name == *user.as_bytes()
    }

    fn name(&self) -> Option<Cow<'_, [u8]>> {
        match (self.params.get("username"), self.params.get("username*")) {
            (Some(name), None) => Some(name.into()),
            (None, Some(name)) => {
                let (start, rest) = name.split_at_checked(EXTENDED.len())?;
                start.eq_ignore_ascii_case(EXTENDED).then(|| percent_decode(rest).into())
            }
            _ => None,
        }
    }

    fn is_user_hashed(&self) -> bool {
        self.params.get("userhash").is_some_and(|flag| flag.eq_ignore_ascii_case(b"true"))
    }

    /// True if the proof matches this password, realm and request. Takes as long for any wrong
    /// password.
    pub fn verify(
        &self,
        realm: &str,
        user: &str,
        password: &str,
        request: AuthRequest<'_>,
    ) -> bool {
        if self.param("realm") != realm.as_bytes()
            || self.target() != request.target
            || !self.is_of(user)
        {
            return false;
        }
        let cnonce = self.params.get("cnonce").unwrap_or_default();
        let secret = self.algorithm.secret(user, realm.as_bytes(), password);
        let formula = Formula {
            hash: self.algorithm.hash,
            protection: self.protection,
            nonce: self.nonce(),
            nc: self.params.get("nc").unwrap_or_default(),
            cnonce,
        };
        let key = self.algorithm.key(&secret, self.nonce(), cnonce);
        let expected = formula.response(&key, request);
        expected.is_ok_and(|expected| expected.as_bytes().ct_eq(self.param("response")).into())
    }

    /// The value of a parameter that is always present.
    fn param(&self, name: &str) -> &[u8] {
        self.params.get(name).unwrap_or_default()
    }
}

impl fmt::Debug for Authorization<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic",
            Self::Bearer(_) => "Bearer",
            Self::Digest(_) => "Digest",
        })
    }
}

impl fmt::Debug for DigestProof<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestProof").field("count", &self.count).finish_non_exhaustive()
    }
}

/// Eight hexadecimal digits.
fn count(nc: &[u8]) -> Option<u32> {
    let is_count = nc.len() == 8 && nc.iter().all(u8::is_ascii_hexdigit);
    let text = str::from_utf8(nc).ok().filter(|_| is_count)?;
    u32::from_str_radix(text, 16).ok()
}

/// Prefix of a name in UTF-8 (RFC 8187 §3.2.1).
const EXTENDED: &[u8] = b"UTF-8''";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::auth::{AuthSession, Credentials};

    const REQUEST: AuthRequest<'_> =
        AuthRequest { method: b"PUT", target: b"/a\"b", body: Some(b"body") };

    fn authorize(challenge: &str, credentials: &Credentials) -> Vec<u8> {
        let found = challenges([challenge.as_bytes()]);
        let mut session = AuthSession::begin(&found, credentials, Scheme::Basic, [1; 16]).unwrap();
        let mut value = Vec::new();
        session.authorize(REQUEST, &mut value).unwrap();
        value
    }

    fn digest(value: &[u8]) -> DigestProof<'_> {
        match Authorization::parse(value) {
            Some(Authorization::Digest(proof)) => proof,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn client_and_server_agree() {
        let credentials = Credentials::password("Zoë \"", "pass\\wörd").unwrap();
        for algorithm in ["MD5", "MD5-sess", "SHA-256", "SHA-256-sess", "SHA-512-256-sess"] {
            for params in [
                "",
                ", qop=auth",
                ", qop=auth-int",
                ", qop=auth, charset=UTF-8",
                ", qop=auth, charset=UTF-8, userhash=true, opaque=\"\\\"\"",
            ] {
                let field =
                    format!("Digest realm=\"r\\\"\", nonce=n, algorithm={algorithm}{params}");
                let value = authorize(&field, &credentials);
                let proof = digest(&value);
                let verify =
                    |realm, user, password, request| proof.verify(realm, user, password, request);
                let (realm, user, password) = ("r\"", "Zoë \"", "pass\\wörd");
                assert!(verify(realm, user, password, REQUEST), "{field}");
                assert!(!verify("r", user, password, REQUEST), "{field}");
                assert!(!verify(realm, "Zoe", password, REQUEST), "{field}");
                assert!(!verify(realm, user, "password", REQUEST), "{field}");
                let other = AuthRequest { method: b"GET", ..REQUEST };
                assert!(!verify(realm, user, password, other), "{field}");
                let other = AuthRequest { target: b"/", ..REQUEST };
                assert!(!verify(realm, user, password, other), "{field}");
                let other = AuthRequest { body: Some(b"x"), ..REQUEST };
                let covers_body = params.contains("auth-int");
                assert_eq!(!verify(realm, user, password, other), covers_body, "{field}");
                assert_eq!(proof.count().is_some(), params.contains("qop"), "{field}");
                assert_eq!((proof.nonce(), proof.target()), (&b"n"[..], REQUEST.target));
            }
        }
    }

    #[test]
    fn basic_and_bearer() {
        for (value, expected) in [
            ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", Some(("Aladdin", "open sesame"))),
            ("basic YTpiOmM=", Some(("a", "b:c"))),
            ("Basic Og==", Some(("", ""))),
            ("Basic YQ==", None),
            ("Basic YTpiOmM", None),
            ("Basic !", None),
            ("Basic", None),
            ("Basic Og==, Basic Og==", None),
        ] {
            let found = match Authorization::parse(value.as_bytes()) {
                Some(Authorization::Basic { user, password }) => Some((user, password)),
                _ => None,
            };
            let expected = expected.map(|(user, password)| (user.into(), password.into()));
            assert_eq!(found, expected, "{value}");
        }
        let token = Authorization::parse(b"Bearer a.b-c~d+/=");
        assert!(matches!(token, Some(Authorization::Bearer(b"a.b-c~d+/="))));
        assert_eq!(format!("{token:?}"), "Some(Bearer)");
        assert!(Authorization::parse(b"Bearer").is_none());
        assert!(Authorization::parse(b"Negotiate abc").is_none());
    }

    #[test]
    fn incomplete_proofs_are_rejected() {
        let whole = "Digest username=u, realm=r, nonce=n, uri=u, response=x, qop=auth, \
            nc=00000001, cnonce=c";
        assert_eq!(digest(whole.as_bytes()).count(), Some(1));
        for part in ["realm=r, ", "nonce=n, ", "uri=u, ", "response=x, ", "nc=00000001, "] {
            let value = whole.replace(part, "");
            assert!(Authorization::parse(value.as_bytes()).is_none(), "{value}");
        }
        for nc in ["1", "0000000g", "+0000001", "000000001"] {
            let value = whole.replace("00000001", nc);
            assert!(Authorization::parse(value.as_bytes()).is_none(), "{value}");
        }
        let value = whole.replace(", cnonce=c", "");
        assert!(Authorization::parse(value.as_bytes()).is_none());
        for name in ["x=y", "username=u, username*=UTF-8''u", "username*=latin1''u", "username*=U"]
        {
            let value = whole.replace("username=u", name);
            assert!(!digest(value.as_bytes()).is_of("u"), "{value}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_are_parsed_or_rejected(
            value in prop::collection::vec(any::<u8>(), 0..64),
            params in "(, ?(username\\*?|userhash|realm|nonce|uri|qop|nc|cnonce|response|algorithm)\
                =(auth|true|UTF-8''%|0000000f|\"x\")){0,12}",
        ) {
            let digest = format!("Digest {params}");
            for value in [&value[..], digest.as_bytes()] {
                if let Some(Authorization::Digest(proof)) = Authorization::parse(value) {
                    prop_assert!(!proof.verify("x", "x", "x", REQUEST));
                }
            }
        }
    }
}
