//! Authentication of a handle with a server and a proxy, from request to request.
//!
//! Pure: a request yields the values of its fields, and a response the decision whether the request
//! is repeated with credentials. NTLM authenticates a connection, so its state is kept apart
//! (`ntlm_lanes`).

use std::fmt;

use crate::auth::{
    AuthChoice, DigestRequest, DigestState, NtlmChallenge, NtlmLogin, basic, bearer, method,
    ntlm_negotiate,
};
use crate::rare::{ConstDefault, Rare};

/// Authentication with both peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthState {
    pub(crate) server: PeerAuth,
    pub(crate) proxy: PeerAuth,
    /// The HTTP proxy that `proxy` is about.
    proxy_origin: Option<Box<str>>,
    /// Credentials were refused, or a challenge is invalid: no other attempt.
    pub(crate) is_problem: bool,
    /// The body of the current request is withheld, because it needs another one.
    pub(crate) negotiates: bool,
}

/// Authentication with one peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerAuth {
    pub(crate) choice: AuthChoice,
    digest: Rare<DigestState>,
    omits_query: bool,
    /// The credentials of the current request are complete, or none are needed.
    is_done: bool,
    /// The current request carries credentials that may need another request.
    is_multipass: bool,
}

/// The NTLM messages of a connection with one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NtlmStep {
    #[default]
    None,
    /// The peer has offered NTLM: a type 1 message follows.
    Offered,
    /// It has sent a type 2 message.
    Challenged(NtlmChallenge),
    /// The type 3 message was sent.
    Authorized,
    /// The connection is authenticated.
    Authenticated,
}

/// User and password; an absent one is empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct LoginPair {
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) password: Option<Vec<u8>>,
}

/// Without the secrets.
impl fmt::Debug for LoginPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, password) = (self.user.is_some(), self.password.is_some());
        f.debug_struct("LoginPair").field("user", &user).field("password", &password).finish()
    }
}

impl ConstDefault for LoginPair {
    const DEFAULT: &'static Self = &Self { user: None, password: None };
}

/// The values of the fields with credentials.
#[derive(Clone, Default)]
pub(crate) struct AuthFields {
    pub(crate) server: Option<Vec<u8>>,
    pub(crate) proxy: Option<Vec<u8>>,
}

/// Without the secrets.
impl fmt::Debug for AuthFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, proxy) = (self.server.is_some(), self.proxy.is_some());
        f.debug_struct("AuthFields").field("server", &server).field("proxy", &proxy).finish()
    }
}

/// The input for the field of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuthInput<'a> {
    pub(crate) login: &'a LoginPair,
    /// `CURLOPT_XOAUTH2_BEARER`.
    pub(crate) token: Option<&'a [u8]>,
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    /// The application has a field of this name: Basic and Bearer send none.
    pub(crate) has_custom: bool,
    /// 24 random bytes, for the client nonces of Digest and NTLM.
    pub(crate) random: &'a [u8; 24],
    /// Seconds since 1970.
    pub(crate) now: i64,
}

impl AuthState {
    /// A new transfer of the handle, with the masks of its options.
    pub(crate) fn begin(&mut self, server: u32, proxy: u32) {
        self.is_problem = false;
        self.negotiates = false;
        self.server.begin(server);
        self.proxy.begin(proxy);
    }

    /// The current request has no credentials, and needs none.
    pub(crate) fn skip(&mut self) {
        self.negotiates = false;
        self.server.skip();
        self.proxy.skip();
    }

    /// The proxy of the current request. What another one has challenged does not stay.
    pub(crate) fn note_proxy(&mut self, origin: Option<Box<str>>, mask: u32) {
        if self.proxy_origin != origin {
            self.proxy_origin = origin;
            self.proxy = PeerAuth::default();
            self.proxy.begin(mask);
        }
    }

    /// The current request uses a new connection, on which NTLM has not begun.
    pub(crate) fn note_new_connection(&mut self) {
        for peer in [&mut self.server, &mut self.proxy] {
            if peer.choice.picked == method::NTLM && peer.is_done {
                peer.choice.picked = 0;
                peer.is_done = false;
            }
        }
    }

    /// Decides whether the body of the current request is withheld, once both fields are written.
    pub(crate) fn decide_body(&mut self, has_body: bool) {
        let is_incomplete = |peer: &PeerAuth| peer.is_multipass && !peer.is_done;
        let is_incomplete = is_incomplete(&self.server) || is_incomplete(&self.proxy);
        self.negotiates = is_incomplete && has_body;
    }

    /// A response of this status has ended its head: true if the request is repeated.
    pub(crate) fn repeats(&mut self, facts: ResponseFacts) -> bool {
        if self.is_problem {
            return false;
        }
        let is_probe = self.negotiates && facts.status < 300;
        let mut is_picked = false;
        if (facts.has_login || facts.has_token) && (facts.status == 401 || is_probe) {
            let is_usable = self.server.choice.pick(facts.has_token);
            is_picked |= is_usable;
            self.is_problem |= !is_usable;
        }
        if facts.has_proxy_login && (facts.status == 407 || is_probe) {
            let is_usable = self.proxy.choice.pick(false);
            is_picked |= is_usable;
            self.is_problem |= !is_usable;
        }
        if !is_picked && is_probe && !self.server.is_done {
            // No credentials were needed: now the body is sent.
            self.server.is_done = true;
            return true;
        }
        is_picked
    }
}

/// The facts of a response for [`AuthState::repeats`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseFacts {
    pub(crate) status: u16,
    pub(crate) has_login: bool,
    pub(crate) has_token: bool,
    pub(crate) has_proxy_login: bool,
}

impl PeerAuth {
    fn begin(&mut self, mask: u32) {
        self.omits_query = mask & method::DIGEST_IE != 0;
        // Built without SPNEGO and without winbind.
        let mask = mask & !(method::NEGOTIATE | method::NTLM_WB);
        self.choice.wanted = AuthChoice::new(mask).wanted;
        self.choice.picked &= self.choice.wanted;
        self.choice.available = 0;
    }

    /// No credentials are sent with this request, and none are needed.
    pub(crate) fn skip(&mut self) {
        self.is_done = true;
        self.is_multipass = false;
    }

    /// The scheme of the request, if it is certain.
    pub(crate) fn scheme(&mut self) -> Option<u32> {
        self.choice.scheme()
    }

    /// The value of the field for a request.
    pub(crate) fn authorize(
        &mut self,
        input: AuthInput<'_>,
        ntlm: &mut NtlmStep,
    ) -> Option<Vec<u8>> {
        let user = input.login.user.as_deref();
        let password = input.login.password.as_deref().unwrap_or_default();
        self.is_multipass = false;
        let (is_used, value) = match self.scheme()? {
            method::DIGEST => {
                let value = self.digest(user.unwrap_or_default(), password, input);
                self.is_done = value.is_some();
                (true, value)
            }
            method::NTLM => {
                let login = NtlmLogin {
                    user: user.unwrap_or_default(),
                    password,
                    entropy: input.random[..8].try_into().expect("eight bytes"),
                    now: input.now,
                };
                let (is_done, value) = ntlm.authorize(login);
                self.is_done = is_done;
                (true, value)
            }
            method::BASIC => {
                self.is_done = true;
                let user = user.filter(|_| !input.has_custom);
                let value = user.map(|user| basic(user, password));
                (value.is_some(), value)
            }
            method::BEARER => {
                self.is_done = true;
                let value = input.token.filter(|_| !input.has_custom).map(bearer);
                (value.is_some(), value)
            }
            _ => (false, None),
        };
        self.is_multipass = is_used && !self.is_done;
        value
    }

    fn digest(&mut self, user: &[u8], password: &[u8], input: AuthInput<'_>) -> Option<Vec<u8>> {
        let request = DigestRequest {
            method: input.method,
            target: input.target,
            omits_query: self.omits_query,
        };
        let cnonce = crate::auth::client_nonce(input.random);
        self.digest.authorize(user, password, request, &cnonce)
    }

    /// Handles a field with challenges. Returns whether credentials were refused; `None`: the
    /// field decides nothing.
    pub(crate) fn handle_challenge(&mut self, value: &[u8], ntlm: &mut NtlmStep) -> Option<bool> {
        let input = self.choice.handle_challenge(value, &mut self.digest);
        if input.is_problem {
            return Some(true);
        }
        input.ntlm.map(|message| !ntlm.handle_challenge(&message))
    }
}

impl NtlmStep {
    /// Whether the credentials are complete, and the value.
    fn authorize(&mut self, login: NtlmLogin<'_>) -> (bool, Option<Vec<u8>>) {
        if *self == Self::Authorized {
            *self = Self::Authenticated;
        }
        match self {
            Self::Authenticated => (true, None),
            Self::Challenged(challenge) => {
                let value = challenge.authorize(login);
                let is_done = value.is_some();
                if is_done {
                    *self = Self::Authorized;
                }
                (is_done, value)
            }
            Self::None | Self::Offered | Self::Authorized => (false, Some(ntlm_negotiate())),
        }
    }

    /// Handles what follows `NTLM` in a field. False: the peer refuses, or its message is invalid.
    fn handle_challenge(&mut self, message: &[u8]) -> bool {
        if !message.is_empty() {
            return match NtlmChallenge::parse(message) {
                Ok(challenge) => {
                    *self = Self::Challenged(challenge);
                    true
                }
                Err(_) => false,
            };
        }
        match self {
            Self::None | Self::Authenticated => {
                *self = Self::Offered;
                true
            }
            Self::Authorized => {
                *self = Self::None;
                false
            }
            Self::Offered | Self::Challenged(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: ResponseFacts =
        ResponseFacts { status: 401, has_login: true, has_token: false, has_proxy_login: false };

    /// The field of a request with a body.
    fn send(auth: &mut AuthState, ntlm: &mut NtlmStep) -> Option<String> {
        let login = LoginPair { user: Some(b"u".to_vec()), password: Some(b"p".to_vec()) };
        let input = AuthInput {
            login: &login,
            token: None,
            method: b"POST",
            target: b"/",
            has_custom: false,
            random: &[7; 24],
            now: 0,
        };
        auth.proxy.skip();
        let value = auth.server.authorize(input, ntlm);
        auth.decide_body(true);
        value.map(|value| String::from_utf8(value).expect("text"))
    }

    fn receive(auth: &mut AuthState, ntlm: &mut NtlmStep, challenges: &[&str]) -> bool {
        for value in challenges {
            let is_refused = auth.server.handle_challenge(value.as_bytes(), ntlm);
            auth.is_problem = is_refused.unwrap_or(auth.is_problem);
        }
        auth.repeats(NONE)
    }

    fn begin(mask: u32) -> (AuthState, NtlmStep) {
        let mut auth = AuthState::default();
        auth.begin(mask, method::BASIC);
        (auth, NtlmStep::None)
    }

    #[test]
    fn one_scheme_is_used_at_once_and_several_need_a_challenge() {
        let (mut auth, mut ntlm) = begin(method::BASIC);
        assert_eq!(send(&mut auth, &mut ntlm).as_deref(), Some("Basic dTpw"));
        assert!(!auth.negotiates);
        assert!(!receive(&mut auth, &mut ntlm, &["Basic realm=\"x\""]), "it was refused");

        let (mut auth, mut ntlm) = begin(method::BASIC | method::DIGEST);
        assert_eq!(send(&mut auth, &mut ntlm), None);
        assert!(!auth.negotiates, "the server may need no credentials");
        assert!(receive(&mut auth, &mut ntlm, &["Basic realm=\"x\"", "Digest nonce=\"n\""]));
        assert!(send(&mut auth, &mut ntlm).is_some_and(|value| value.starts_with("Digest ")));
    }

    #[test]
    fn challenges_are_of_one_proxy() {
        let mut auth = AuthState::default();
        auth.begin(method::BASIC, method::DIGEST);
        auth.note_proxy(Some("http://a:1/".into()), method::DIGEST);
        let challenge = auth.proxy.handle_challenge(b"Digest nonce=\"n\"", &mut NtlmStep::None);
        assert_eq!(challenge, None);
        let responds = |auth: &mut AuthState| {
            let login = LoginPair { user: Some(b"u".to_vec()), password: Some(b"p".to_vec()) };
            let input = AuthInput {
                login: &login,
                token: None,
                method: b"GET",
                target: b"/",
                has_custom: false,
                random: &[7; 24],
                now: 0,
            };
            auth.proxy.authorize(input, &mut NtlmStep::None).is_some()
        };
        assert!(responds(&mut auth));
        auth.note_proxy(Some("http://a:1/".into()), method::DIGEST);
        assert!(responds(&mut auth), "the proxy is the same");
        auth.note_proxy(Some("http://b:1/".into()), method::DIGEST);
        assert!(!responds(&mut auth));
        assert_eq!(auth.proxy.scheme(), Some(method::DIGEST));
    }

    /// The request without its body is a probe.
    #[test]
    fn body_is_withheld_until_the_credentials_are_complete() {
        let (mut auth, mut ntlm) = begin(method::DIGEST);
        assert_eq!(send(&mut auth, &mut ntlm), None);
        assert!(auth.negotiates);
        assert!(receive(&mut auth, &mut ntlm, &["Digest nonce=\"n\""]));
        assert!(send(&mut auth, &mut ntlm).is_some());
        assert!(!auth.negotiates);
    }

    #[test]
    fn ntlm_messages_follow_each_other_on_one_connection() {
        let (mut auth, mut ntlm) = begin(method::NTLM);
        let first = send(&mut auth, &mut ntlm);
        assert_eq!(first.as_deref(), Some("NTLM TlRMTVNTUAABAAAABoIIAAAAAAAAAAAAAAAAAAAAAAA="));
        assert!(auth.negotiates);
        assert!(receive(&mut auth, &mut ntlm, &[TYPE_2]));
        let last = send(&mut auth, &mut ntlm);
        assert!(last.is_some_and(|value| value.starts_with("NTLM TlRMTVNTUAAD")));
        assert!(!auth.negotiates);
        assert_eq!(send(&mut auth, &mut ntlm), None, "the connection is authenticated");
        auth.note_new_connection();
        assert_eq!(send(&mut auth, &mut NtlmStep::None), first);
    }

    #[test]
    fn refused_and_invalid_ntlm_messages_end_the_attempt() {
        for challenges in [&["NTLM", "NTLM"][..], &["NTLM bad"], &["NTLM AAAA"]] {
            let (mut auth, mut ntlm) = begin(method::NTLM);
            send(&mut auth, &mut ntlm);
            assert!(!receive(&mut auth, &mut ntlm, challenges), "{challenges:?}");
        }
        let (mut auth, mut ntlm) = begin(method::NTLM);
        send(&mut auth, &mut ntlm);
        assert!(receive(&mut auth, &mut ntlm, &[TYPE_2]));
        send(&mut auth, &mut ntlm);
        assert!(!receive(&mut auth, &mut ntlm, &["NTLM"]), "the password is wrong");
    }

    /// Without extended security.
    const TYPE_2: &str = "NTLM TlRMTVNTUAACAAAAAAAAADAAAAAGggEAc51AYVDgyNcAAAAAAAAAAAAAAAAAAAAA";
}
