//! Authentication on the server side: the realm, its users and the challenges (RFC 9110 §11).
//!
//! ```text
//! no credentials ─▶ Refused: 401 with challenges    expired nonce ─▶ stale=true
//! wrong ones     ─▶ Failed: the same 401; limit their rate
//! right ones     ─▶ Admitted: the user's name
//! a password that has to be hashed ─▶ Undecided: `PendingPassword::verify`, off the event loop
//! ```

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::digest::quote;
use super::formula::DigestAlgorithm;
use super::nonces::Nonces;
use super::proof::{Authorization, DigestProof};
use super::scheme::{AuthRequest, Scheme};

/// Authenticates users. Clones share their state: give one to each thread.
///
/// ```
/// use fulmar_semantics::auth::{AuthDecision, Gate, GateOptions, AuthRequest};
///
/// let users = |user: &str| (user == "Aladdin").then(|| "open sesame".to_owned());
/// let secret = [7; 32]; // random, in a program
/// let gate = Gate::new(GateOptions::basic("WallyWorld"), users, secret)?;
/// let request = AuthRequest { method: b"GET", target: b"/", body: None };
/// let sent: &[u8] = b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
/// assert_eq!(gate.decide(0, request, [sent]), AuthDecision::Admitted("Aladdin".into()));
/// let challenges = vec!["Basic realm=\"WallyWorld\", charset=\"UTF-8\"".into()];
/// assert_eq!(gate.decide(0, request, []), AuthDecision::Refused(challenges));
/// # Ok::<(), fulmar_semantics::auth::BadGate>(())
/// ```
#[derive(Clone)]
pub struct Gate {
    shared: Arc<GateShared>,
}

struct GateShared {
    options: GateOptions,
    users: Box<dyn Users + Send + Sync>,
    nonces: Nonces,
}

/// The options of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateOptions {
    /// The realm, which clients display and use to find credentials. Without control characters.
    pub realm: String,
    /// The offered schemes in order; some clients use the first one they know. Basic sends the
    /// password itself, so it needs TLS. [`Scheme::DigestMd5`] is only better in that it does not.
    pub schemes: Vec<Scheme>,
    /// Lifetime of a nonce. The challenge for an expired nonce is marked `stale`, so that the
    /// client does not prompt its user again.
    pub nonce_lifetime: Duration,
    /// Maximum number of nonces in use, about 50 bytes each. Beyond it, the oldest are dropped and
    /// their clients need new ones.
    pub nonces_max: usize,
}

impl GateOptions {
    /// Basic.
    pub fn basic(realm: &str) -> Self {
        Self {
            realm: realm.to_owned(),
            schemes: vec![Scheme::Basic],
            nonce_lifetime: NONCE_LIFETIME_USUAL,
            nonces_max: NONCES_USUAL,
        }
    }

    /// Digest with SHA-256, and with MD5 for clients that support nothing else.
    pub fn digest(realm: &str) -> Self {
        let schemes = vec![Scheme::DigestSha256, Scheme::DigestMd5];
        Self { schemes, ..Self::basic(realm) }
    }
}

/// The users and their passwords. Implemented by any function from a name to a password.
pub trait Users {
    /// The password of a user, which Digest needs. `None` if the user does not exist, or only a
    /// hash of the password is known.
    fn password(&self, user: &str) -> Option<Cow<'_, str>>;

    /// True if the password is correct, for Basic. Runs on the event loop. `None` if the check is
    /// slow (a password hash). For an unknown user it must take as long, and return `None` in the
    /// same cases: the result must not reveal which users exist.
    fn verify_at_once(&self, user: &str, password: &str) -> Option<bool>;

    /// The same check, but it may be slow: it runs on a worker thread. Called only if
    /// [`Users::verify_at_once`] returned `None`.
    fn verify(&self, user: &str, password: &str) -> bool {
        self.verify_at_once(user, password).unwrap_or(false)
    }
}

impl<F: Fn(&str) -> Option<String>> Users for F {
    fn password(&self, user: &str) -> Option<Cow<'_, str>> {
        self(user).map(Cow::Owned)
    }

    fn verify_at_once(&self, user: &str, password: &str) -> Option<bool> {
        let known = self(user);
        let is_same = is_same_secret(known.as_deref().unwrap_or_default(), password);
        Some(known.is_some() && is_same)
    }
}

/// Compares secrets in constant time, which reveals neither content nor length.
pub fn is_same_secret(ours: &str, theirs: &str) -> bool {
    Sha256::digest(ours).ct_eq(&Sha256::digest(theirs)).into()
}

/// The result of an authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthDecision {
    /// The credentials of this user are valid.
    Admitted(String),
    /// The request has no credentials that can be checked, or their nonce has expired: respond 401,
    /// with a `WWW-Authenticate` field for each of these values.
    Refused(Vec<String>),
    /// The credentials are wrong: respond in the same way. Callers should limit the rate of
    /// failures.
    Failed(Vec<String>),
    /// The password must be hashed first.
    Undecided(PendingPassword),
}

/// A password check that needs a hash. `Debug` does not print the password.
#[derive(Clone)]
pub struct PendingPassword {
    shared: Arc<GateShared>,
    user: String,
    password: String,
}

impl PendingPassword {
    /// True if the password is correct. Takes milliseconds or seconds of CPU time: call it on a
    /// worker thread, not on an event loop.
    pub fn verify(&self) -> bool {
        self.shared.users.verify(&self.user, &self.password)
    }

    /// The user name sent by the client.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// A salted digest of user and password; equal for equal credentials.
    pub fn digest(&self, salt: &[u8]) -> [u8; 32] {
        let len = self.user.len().to_be_bytes();
        let digest = Sha256::new().chain_update(salt).chain_update(len);
        digest.chain_update(&self.user).chain_update(&self.password).finalize().into()
    }
}

impl PartialEq for PendingPassword {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
            && self.user == other.user
            && is_same_secret(&self.password, &other.password)
    }
}

impl Eq for PendingPassword {}

impl fmt::Debug for PendingPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingPassword").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Why the options of a gate are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadGate {
    /// The realm has a control character.
    Realm,
    /// No scheme is offered, or Bearer, which has no users.
    Schemes,
}

impl fmt::Display for BadGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Realm => "realm has control characters",
            Self::Schemes => "invalid schemes: offer Basic, Digest, or both",
        })
    }
}

impl std::error::Error for BadGate {}

impl Gate {
    /// Creates a gate for these users. `secret` must be random; it authenticates nonces. Processes
    /// that serve the same realm must share it.
    ///
    /// # Errors
    /// The variant names the invalid option.
    pub fn new(
        options: GateOptions,
        users: impl Users + Send + Sync + 'static,
        secret: [u8; 32],
    ) -> Result<Self, BadGate> {
        if options.realm.chars().any(char::is_control) {
            return Err(BadGate::Realm);
        }
        if options.schemes.is_empty() || options.schemes.contains(&Scheme::Bearer) {
            return Err(BadGate::Schemes);
        }
        let nonces = Nonces::new(secret, options.nonce_lifetime.as_secs(), options.nonces_max);
        Ok(Self { shared: Arc::new(GateShared { options, users: Box::new(users), nonces }) })
    }

    /// Authenticates a request with these `Authorization` fields. Several fields, or a malformed
    /// one, count as no credentials.
    pub fn decide<'a>(
        &self,
        unix_now: i64,
        request: AuthRequest<'_>,
        fields: impl IntoIterator<Item = &'a [u8]>,
    ) -> AuthDecision {
        let mut fields = fields.into_iter();
        let field = fields.next().filter(|_| fields.next().is_none());
        match field.and_then(Authorization::parse) {
            Some(Authorization::Basic { user, password }) => self.basic(unix_now, &user, &password),
            Some(Authorization::Digest(proof)) => self.digest(unix_now, request, &proof),
            Some(Authorization::Bearer(_)) | None => self.refuse(unix_now, false),
        }
    }

    fn basic(&self, unix_now: i64, user: &[u8], password: &[u8]) -> AuthDecision {
        if !self.offers(Scheme::Basic) {
            return self.refuse(unix_now, false);
        }
        let (Ok(user), Ok(password)) = (str::from_utf8(user), str::from_utf8(password)) else {
            return AuthDecision::Failed(self.challenges(unix_now));
        };
        match self.shared.users.verify_at_once(user, password) {
            Some(true) => AuthDecision::Admitted(user.to_owned()),
            Some(false) => AuthDecision::Failed(self.challenges(unix_now)),
            None => AuthDecision::Undecided(PendingPassword {
                shared: Arc::clone(&self.shared),
                user: user.to_owned(),
                password: password.to_owned(),
            }),
        }
    }

    /// The proof is checked before the nonce: invalid proofs reveal nothing about nonces and use no
    /// memory.
    fn digest(
        &self,
        unix_now: i64,
        request: AuthRequest<'_>,
        proof: &DigestProof<'_>,
    ) -> AuthDecision {
        let GateShared { options, users, nonces } = &*self.shared;
        let user = proof.user().and_then(|user| String::from_utf8(user.into_owned()).ok());
        let (Some(user), Some(count)) = (user, proof.count()) else {
            return self.refuse(unix_now, false);
        };
        let known = users.password(&user);
        let password = known.as_deref().unwrap_or_default();
        let is_right = proof.verify(&options.realm, &user, password, request);
        if !is_right || known.is_none() || !self.offers(proof.scheme()) {
            return AuthDecision::Failed(self.challenges(unix_now));
        }
        if nonces.take(unix_now, proof.nonce(), count) {
            return AuthDecision::Admitted(user);
        }
        self.refuse(unix_now, true)
    }

    fn offers(&self, scheme: Scheme) -> bool {
        self.shared.options.schemes.contains(&scheme)
    }

    fn refuse(&self, unix_now: i64, is_stale: bool) -> AuthDecision {
        AuthDecision::Refused(self.challenges_of(unix_now, is_stale))
    }

    /// The challenges of a 401: the values of the `WWW-Authenticate` fields.
    pub fn challenges(&self, unix_now: i64) -> Vec<String> {
        self.challenges_of(unix_now, false)
    }

    fn challenges_of(&self, unix_now: i64, is_stale: bool) -> Vec<String> {
        let mut realm = Vec::new();
        quote(self.shared.options.realm.as_bytes(), &mut realm);
        let realm = String::from_utf8_lossy(&realm);
        let challenge = |scheme: &Scheme| match DigestAlgorithm::of_scheme(*scheme) {
            None => format!("Basic realm={realm}, charset=\"UTF-8\""),
            Some(algorithm) => {
                let nonce = self.shared.nonces.issue(unix_now);
                let stale = if is_stale { ", stale=true" } else { "" };
                let name = algorithm.name;
                format!(
                    "Digest realm={realm}, qop=\"auth\", algorithm={name}, nonce=\"{nonce}\", \
                     charset=UTF-8{stale}"
                )
            }
        };
        self.shared.options.schemes.iter().map(challenge).collect()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

/// Long enough for a user's visit, short enough that stolen nonces are of little use.
const NONCE_LIFETIME_USUAL: Duration = Duration::from_secs(300);
/// About 200 KB.
const NONCES_USUAL: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{AuthSession, Credentials, challenges};

    const REQUEST: AuthRequest<'_> = AuthRequest { method: b"GET", target: b"/a", body: None };

    fn gate(options: GateOptions) -> Gate {
        let users = |user: &str| (user == "Zoë").then(|| "pass:wörd".to_owned());
        Gate::new(options, users, [7; 32]).unwrap()
    }

    fn refused(decision: AuthDecision) -> Vec<String> {
        match decision {
            AuthDecision::Refused(challenges) | AuthDecision::Failed(challenges) => challenges,
            other => panic!("{other:?}"),
        }
    }

    /// The response of our client to a 401.
    fn begin(refusal: &[String], password: &str) -> AuthSession {
        let asked = challenges(refusal.iter().map(String::as_bytes));
        let credentials = Credentials::password("Zoë", password).unwrap();
        AuthSession::begin(&asked, &credentials, Scheme::Basic, [3; 16]).unwrap()
    }

    fn authorize(session: &mut AuthSession) -> Vec<u8> {
        let mut value = Vec::new();
        session.authorize(REQUEST, &mut value).unwrap();
        value
    }

    fn admitted() -> AuthDecision {
        AuthDecision::Admitted("Zoë".to_owned())
    }

    #[test]
    fn the_client_is_admitted_with_every_scheme() {
        for schemes in [
            &[Scheme::Basic][..],
            &[Scheme::DigestMd5],
            &[Scheme::DigestSha256],
            &[Scheme::DigestSha512],
            &[Scheme::DigestSha256, Scheme::DigestMd5, Scheme::Basic],
        ] {
            let options =
                GateOptions { schemes: schemes.to_vec(), ..GateOptions::basic("a \"b\"") };
            let gate = gate(options);
            let refusal = refused(gate.decide(5, REQUEST, []));
            assert_eq!(refusal.len(), schemes.len());
            let mut session = begin(&refusal, "pass:wörd");
            assert_eq!(session.scheme(), schemes[0]);
            for _ in 0..3 {
                let value = authorize(&mut session);
                assert_eq!(gate.clone().decide(5, REQUEST, [&value[..]]), admitted());
            }
            let value = authorize(&mut begin(&refusal, "password"));
            let again = refused(gate.decide(5, REQUEST, [&value[..]]));
            assert!(again.iter().all(|challenge| !challenge.contains("stale")), "{again:?}");
        }
    }

    #[test]
    fn a_proof_is_valid_once_for_its_request_until_it_expires() {
        let gate = gate(GateOptions::digest("r"));
        let refusal = refused(gate.decide(100, REQUEST, []));
        let mut session = begin(&refusal, "pass:wörd");
        let value = authorize(&mut session);
        let decide = |now, request, value: &[u8]| gate.decide(now, request, [value]);
        let is_stale = |decision| refused(decision)[0].ends_with(", stale=true");
        for other in
            [AuthRequest { method: b"PUT", ..REQUEST }, AuthRequest { target: b"/b", ..REQUEST }]
        {
            assert!(!is_stale(decide(100, other, &value)));
        }
        assert_eq!(decide(100, REQUEST, &value), admitted());
        assert!(is_stale(decide(100, REQUEST, &value)), "replayed");
        let value = authorize(&mut session);
        assert!(is_stale(decide(401, REQUEST, &value)), "too old");
        // As a client does: with the new nonce, without prompting the user.
        let next = refused(decide(401, REQUEST, &value));
        let mut session = begin(&next, "pass:wörd");
        assert_eq!(decide(401, REQUEST, &authorize(&mut session)), admitted());
        // After a restart with another secret.
        let other = Gate::new(GateOptions::digest("r"), |_: &str| Some("x".to_owned()), [8; 32]);
        let value = authorize(&mut begin(&refusal, "x"));
        assert!(is_stale(other.unwrap().decide(100, REQUEST, [&value[..]])));
    }

    #[test]
    fn schemes_that_are_not_offered_are_refused() {
        let basic = authorize(&mut begin(&["Basic realm=r".into()], "pass:wörd"));
        let digest = gate(GateOptions::digest("r"));
        refused(digest.decide(0, REQUEST, [&basic[..]]));
        let sha_only =
            GateOptions { schemes: vec![Scheme::DigestSha256], ..GateOptions::digest("r") };
        let refusal = refused(digest.decide(0, REQUEST, []));
        let md5 = authorize(&mut begin(&refusal[1..], "pass:wörd"));
        refused(gate(sha_only).decide(0, REQUEST, [&md5[..]]));
        let nonce = refusal[0].split('"').nth(5).unwrap();
        let legacy = format!("Digest realm=r, nonce=\"{nonce}\", algorithm=SHA-256");
        let legacy = authorize(&mut begin(&[legacy], "pass:wörd"));
        refused(digest.decide(0, REQUEST, [&legacy[..]]));
    }

    #[test]
    fn malformed_credentials_are_refused() {
        let gate = gate(GateOptions::basic("r"));
        let good = authorize(&mut begin(&["Basic realm=r".into()], "pass:wörd"));
        assert_eq!(gate.decide(0, REQUEST, [&good[..]]), admitted());
        refused(gate.decide(0, REQUEST, [&good[..], &good[..]]));
        for bad in
            ["", "Basic", "Basic !", "Basic Og==", "Bearer x", "Basic //86/w==", "Digest a=b"]
        {
            assert_eq!(refused(gate.decide(0, REQUEST, [bad.as_bytes()])).len(), 1, "{bad}");
        }
    }

    #[test]
    fn wrong_credentials_fail_and_missing_ones_are_refused() {
        let gate = gate(GateOptions {
            schemes: vec![Scheme::Basic, Scheme::DigestSha256],
            ..GateOptions::basic("r")
        });
        let decide = |value: &[u8]| gate.decide(0, REQUEST, [value]);
        let refusal = refused(gate.decide(0, REQUEST, []));
        let digest = |password| authorize(&mut begin(&refusal[1..], password));
        let right = digest("pass:wörd");
        assert_eq!(decide(&right), admitted());
        for missing in [&b""[..], b"Bearer x", b"Basic !", b"Digest a=b", &right] {
            assert!(matches!(decide(missing), AuthDecision::Refused(_)), "{missing:?}");
        }
        for wrong in [&b"Basic Wm/DqzpwYXNz"[..], b"Basic //86/w==", b"Basic Og==", &digest("x")] {
            assert!(matches!(decide(wrong), AuthDecision::Failed(_)), "{wrong:?}");
        }
    }

    /// Users with hashed passwords.
    struct Slow;

    impl Users for Slow {
        fn password(&self, _: &str) -> Option<Cow<'_, str>> {
            None
        }

        fn verify_at_once(&self, _: &str, _: &str) -> Option<bool> {
            None
        }

        fn verify(&self, user: &str, password: &str) -> bool {
            (user, password) == ("Zoë", "pass:wörd")
        }
    }

    #[test]
    fn slow_checks_are_left_to_the_caller() {
        let gate = Gate::new(GateOptions::basic("r"), Slow, [7; 32]).unwrap();
        let pending = |password| {
            let value = authorize(&mut begin(&["Basic realm=r".into()], password));
            match gate.decide(0, REQUEST, [&value[..]]) {
                AuthDecision::Undecided(pending) => pending,
                other => panic!("{other:?}"),
            }
        };
        let (right, wrong) = (pending("pass:wörd"), pending("password"));
        assert_eq!((right.verify(), wrong.verify(), right.user()), (true, false, "Zoë"));
        assert!(right == pending("pass:wörd") && right != wrong);
        assert_eq!(right.digest(b"salt"), pending("pass:wörd").digest(b"salt"));
        assert_ne!(right.digest(b"salt"), right.digest(b"pepper"));
        assert_ne!(right.digest(b"salt"), wrong.digest(b"salt"));
        assert!(!format!("{right:?}").contains("wörd"));
        let plain = self::gate(GateOptions::basic("r"));
        assert_eq!(plain.challenges(0), refused(plain.decide(0, REQUEST, [])));
    }

    #[test]
    fn invalid_options_are_rejected() {
        let of = |options| Gate::new(options, |_: &str| None, [0; 32]).map(drop).unwrap_err();
        assert_eq!(of(GateOptions::basic("a\r\nb")), BadGate::Realm);
        assert_eq!(of(GateOptions { schemes: vec![], ..GateOptions::basic("") }), BadGate::Schemes);
        let schemes = vec![Scheme::Basic, Scheme::Bearer];
        assert_eq!(of(GateOptions { schemes, ..GateOptions::basic("") }), BadGate::Schemes);
    }

    #[test]
    fn secrets_are_compared() {
        assert!(is_same_secret("", "") && is_same_secret("ab", "ab"));
        assert!(!is_same_secret("ab", "abc") && !is_same_secret("ab", "aB"));
    }
}
