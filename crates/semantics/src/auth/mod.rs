//! Credentials and the challenges that ask for them (RFC 9110 §11): Basic (RFC 7617), Digest
//! (RFC 7616) and Bearer (RFC 6750).
//!
//! Needs the feature `auth`.
//!
//! On the client's side, the values of `WWW-Authenticate` fields go in, those of `Authorization` come out; for a proxy,
//! `Proxy-Authenticate` and `Proxy-Authorization`. Random bytes are an argument, as the time is
//! elsewhere: they come from the kernel or from what TLS uses, never from a generator whose next
//! output can be told from its last.
//!
//! ```
//! use fulmar_semantics::auth::{Credentials, Request, Scheme, Session, challenges};
//!
//! let credentials = Credentials::password("Aladdin", "open sesame").unwrap();
//! let field: &[u8] = b"Basic realm=\"WallyWorld\", Newauth x=y";
//! let asked = challenges([field]);
//! let random = [7; 16];
//! let mut session = Session::begin(&asked, &credentials, Scheme::Basic, random).unwrap();
//! let request = Request { method: b"GET", target: b"/", body: None };
//! let mut value = Vec::new();
//! session.authorize(request, &mut value).unwrap();
//! assert_eq!(value, b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
//! ```
//!
//! The order of things with Digest: a request without credentials, its 401, [`Session::begin`],
//! and from then on [`Session::authorize`] for each request to that origin. A further 401 goes to
//! [`Session::handle_challenges`] with the [`Attempt`] that it answers, `Authentication-Info` to
//! [`Session::handle_info`]. How often one transfer tries is the caller's to bound.
//!
//! On the server's side, a [`Gate`] asks for Basic or Digest and knows whom to admit;
//! [`Authorization`] is what a client sent, for those who verify it themselves.

mod challenge;
mod credentials;
mod digest;
mod formula;
mod gate;
mod hash;
mod nonces;
mod proof;
mod session;

pub use challenge::{Challenge, challenges};
pub use credentials::{BadCredentials, Credentials};
pub use gate::{BadGate, Decision, Gate, GateOptions, PendingPassword, Users, is_same_secret};
pub use proof::{Authorization, DigestProof};
pub use session::{Attempt, Request, Scheme, Session, Unsigned, Verdict};
