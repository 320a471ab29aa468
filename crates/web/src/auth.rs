//! Users: a request is answered only if we know who asks.
//!
//! ```no_run
//! use fulmar_proto::Request;
//! use fulmar_server::{Call, Outcome};
//! use fulmar_semantics::auth::{Gate, GateOptions};
//! use fulmar_web::auth::{admit, secret};
//! use fulmar_web::htpasswd::Htpasswd;
//!
//! # fn handler() -> Result<(), Box<dyn std::error::Error>> {
//! let users = Htpasswd::parse(&std::fs::read_to_string("users")?)?;
//! let gate = Gate::new(GateOptions::basic("private"), users, secret()?)?;
//! let handler = move |call: &mut Call<'_>, request: &Request<'_>| -> Outcome {
//!     let Some(user) = admit(&gate, call, request)? else { return Ok(()) };
//!     call.text(200, format!("hello, {user}\n"))
//! };
//! # let _ = handler;
//! # Ok(())
//! # }
//! ```

use std::io;

use fulmar_proto::{HeaderBuf, Misuse, Request, Response};
use fulmar_semantics::auth::{self, Decision, Gate};
use fulmar_server::Call;

/// The user who asks. `None` if it is nobody we know: then 401 has been answered, and nothing is
/// left to be done.
///
/// # Errors
/// Passed on from `call`.
pub fn admit(
    gate: &Gate,
    call: &mut Call<'_>,
    request: &Request<'_>,
) -> Result<Option<String>, Misuse> {
    let unix_now = call.clock().unix();
    let asked = auth::Request { method: request.method, target: request.target, body: None };
    match gate.decide(unix_now, asked, request.headers.get_all("Authorization")) {
        Decision::Admitted(user) => Ok(Some(user)),
        Decision::Refused(challenges) => {
            let mut headers = HeaderBuf::new();
            for challenge in &challenges {
                headers.push("WWW-Authenticate", challenge.as_bytes())?;
            }
            headers.push("Content-Type", b"text/plain; charset=utf-8")?;
            call.reply(Response::new(401, headers.as_headers()), "who are you?\n")?;
            Ok(None)
        }
    }
}

/// Random bytes for a [`Gate`], from the kernel.
///
/// # Errors
/// The kernel has none.
pub fn secret() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}
