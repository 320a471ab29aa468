//! Cookies, and authentication after a server's challenge.

use std::time::Instant;

use fulmar_proto::{Added, ClientConnection, Connection, Headers, Response, StreamId, UsageError};
use fulmar_semantics::auth::{self, AuthAttempt, AuthSession, AuthVerdict, Scheme, challenges};
use fulmar_semantics::cookies::UrlParts;

use crate::error::Error;
use crate::request::{Request, RequestBody};
use crate::state::{ClientState, RUNNING};
use crate::transfer::{BodyUse, FollowUp, TransferId};

impl ClientState {
    /// True if a request is sent exactly as it was compiled.
    pub(crate) fn adds_nothing(&self, request: &Request) -> bool {
        if request.verbatim().is_some() {
            return true;
        }
        let jar = self.jar.as_ref().is_some_and(|jar| !jar.is_empty());
        !(jar && request.options().cookies) && request.credentials().is_none()
    }

    /// Queues the head of a request, with cookies and credentials.
    pub(crate) fn send_head(
        &mut self,
        now: Instant,
        id: TransferId,
        request: &Request,
        connection: &mut ClientConnection,
        stream: StreamId,
    ) -> Result<(), UsageError> {
        if let Some(head) = request.verbatim() {
            let len = request.body().len();
            return match connection {
                ClientConnection::Http1(it, _) => it.send_verbatim(stream, head, len),
                ClientConnection::Http2(it) => it.send_head(stream, request.head(&[]), len),
            };
        }
        let (mut cookie, mut proof) = (Vec::new(), Vec::new());
        let wall = self.wall(now);
        if request.options().cookies
            && !request.has("cookie")
            && let Some(jar) = &self.jar
        {
            jar.header(wall, parts(request), &mut cookie);
        }
        let attempt = self.prove(request, &mut proof);
        if let Some(transfer) = self.transfers.get_mut(id.0)
            && (attempt.is_some() || transfer.extra.is_some())
        {
            transfer.extra().proof = attempt;
        }
        let fields: [(&str, &[u8]); 2] = [("Cookie", &cookie), ("Authorization", &proof)];
        let added: Added<'_> = match (cookie.is_empty(), proof.is_empty()) {
            (true, true) => &[],
            (false, true) => &fields[..1],
            (true, false) => &fields[1..],
            (false, false) => &fields,
        };
        connection.send_head(stream, request.head(added), request.body().len())
    }

    /// Appends the credentials that the server's challenge requires.
    fn prove(&mut self, request: &Request, out: &mut Vec<u8>) -> Option<AuthAttempt> {
        let session = self.sessions.get_mut(request)?;
        if request.has("authorization") {
            return None;
        }
        // Also through a proxy that receives the absolute form: the server sees the origin form.
        let target = request.path().as_bytes();
        let body: Option<&[u8]> = match request.body() {
            RequestBody::Empty => Some(&[]),
            RequestBody::Bytes(bytes) => Some(bytes),
            RequestBody::File(_) | RequestBody::Segments(_) | RequestBody::Stream(_) => None,
        };
        let request = auth::AuthRequest { method: request.method().as_bytes(), target, body };
        session.authorize(request, out).ok()
    }

    /// Stores the cookies of a response, and the nonce for the next request.
    pub(crate) fn take_identity(&mut self, now: Instant, id: TransferId, headers: Headers<'_>) {
        if self.jar.is_none() && self.sessions.is_empty() {
            return;
        }
        let wall = self.wall(now);
        let transfer = self.transfers.get(id.0).expect(RUNNING);
        let request = &transfer.request;
        if let Some(jar) = self.jar.as_mut().filter(|_| request.options().cookies) {
            for field in headers.get_all("set-cookie") {
                // An invalid cookie is ignored.
                let _ = jar.store(wall, parts(request), field);
            }
        }
        if let Some(session) = self.sessions.get_mut(request) {
            for field in headers.get_all("authentication-info") {
                session.handle_info(field);
            }
        }
    }

    /// Retries a challenged request with credentials, if there are any.
    pub(crate) fn authenticate(
        &mut self,
        id: TransferId,
        response: Response<'_>,
    ) -> Result<bool, Error> {
        if response.status != 401 {
            return Ok(false);
        }
        let transfer = self.transfers.get_mut(id.0).expect(RUNNING);
        let request = transfer.request.clone();
        let Some(credentials) = request.credentials() else { return Ok(false) };
        let proofs = transfer.extra.as_ref().map_or(0, |extra| extra.proofs);
        if proofs >= PROOFS_MAX || request.has("authorization") {
            return Ok(false);
        }
        let mut random = [0; 16];
        if getrandom::fill(&mut random).is_err() {
            return Ok(false); // the 401 is the response
        }
        let asked = challenges(response.headers.get_all("www-authenticate"));
        let proof = transfer.extra.as_ref().and_then(|extra| extra.proof);
        let again = match (proof, self.sessions.get_mut(&request)) {
            (Some(attempt), Some(session)) => {
                session.handle_challenges(attempt, &asked, random) == AuthVerdict::Retry
            }
            (None, Some(_)) => true, // another response began a session meanwhile
            (_, None) => match AuthSession::begin(&asked, credentials, Scheme::Basic, random) {
                Some(session) => {
                    self.sessions.insert(&request, credentials, session);
                    true
                }
                None => false,
            },
        };
        if !again {
            return Ok(false);
        }
        self.check_replayable(id)?;
        let transfer = self.transfers.get_mut(id.0).expect(RUNNING);
        transfer.extra().proofs = proofs + 1;
        transfer.body = BodyUse::Ignore(FollowUp::Follow);
        Ok(true)
    }
}

fn parts(request: &Request) -> UrlParts<'_> {
    let url = request.url();
    UrlParts {
        is_secure: url.scheme() == "https",
        host: url.host_str().unwrap_or_default(),
        path: url.path(),
    }
}

/// One attempt, one with a newer nonce, and one more if many transfers share a session.
const PROOFS_MAX: u8 = 3;
