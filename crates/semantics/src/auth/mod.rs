//! Credentials and challenges (RFC 9110 §11): Basic (RFC 7617), Digest (RFC 7616) and Bearer (RFC
//! 6750).
//!
//! Needs the feature `auth`.
//!
//! On the client side, the inputs are the values of `WWW-Authenticate` fields, and the outputs the
//! values of `Authorization` fields; for a proxy, `Proxy-Authenticate` and `Proxy-Authorization`.
//! Random bytes are an argument, like the time elsewhere. They must come from the kernel or from
//! the generator of TLS, not from a predictable generator.
//!
//! ```
//! use fulmar_semantics::auth::{Credentials, AuthRequest, Scheme, AuthSession, challenges};
//!
//! let credentials = Credentials::password("Aladdin", "open sesame").unwrap();
//! let field: &[u8] = b"Basic realm=\"WallyWorld\", Newauth x=y";
//! let challenges = challenges([field]);
//! let random = [7; 16];
//! let mut session = AuthSession::begin(&challenges, &credentials, Scheme::Basic, random).unwrap();
//! let request = AuthRequest { method: b"GET", target: b"/", body: None };
//! let mut value = Vec::new();
//! session.authorize(request, &mut value).unwrap();
//! assert_eq!(value, b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
//! ```
//!
//! The sequence with Digest: a request without credentials, its 401, [`AuthSession::begin`], then
//! [`AuthSession::authorize`] for each request to that origin. Pass another 401 to
//! [`AuthSession::handle_challenges`] with the [`AuthAttempt`] of its request, and
//! `Authentication-Info` to [`AuthSession::handle_info`]. The caller limits the number of attempts
//! of a transfer.
//!
//! On the server side, a [`Gate`] sends challenges for Basic or Digest and authenticates users.
//! [`Authorization`] parses the credentials for servers that verify them in another way.

mod challenge;
mod credentials;
mod digest;
mod formula;
mod gate;
mod hash;
mod nonces;
mod proof;
mod scheme;
mod session;

pub use challenge::{Challenge, challenges};
pub use credentials::{BadCredentials, Credentials};
pub use gate::{AuthDecision, BadGate, Gate, GateOptions, PendingPassword, Users, is_same_secret};
pub use proof::{Authorization, DigestProof};
pub use scheme::{AuthRequest, Scheme, Unsigned};
pub use session::{AuthAttempt, AuthSession, AuthVerdict};
