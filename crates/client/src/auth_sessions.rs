//! Authentication sessions with origins.

use std::collections::HashMap;
use std::sync::Arc;

use fulmar_semantics::auth::{AuthSession, Credentials};
use url::Origin;

use crate::request::Request;

/// Authentication sessions by origin and credentials. Their number is bounded: the next challenge
/// makes a new one.
#[derive(Debug, Default)]
pub(crate) struct AuthSessions {
    known: HashMap<(Origin, Arc<Credentials>), AuthSession>,
}

impl AuthSessions {
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(crate) fn get_mut(&mut self, request: &Request) -> Option<&mut AuthSession> {
        let credentials = request.credentials().filter(|_| !self.known.is_empty())?;
        self.known.get_mut(&name(request, credentials))
    }

    pub(crate) fn insert(
        &mut self,
        request: &Request,
        credentials: &Arc<Credentials>,
        session: AuthSession,
    ) {
        if self.known.len() >= SESSIONS_LEN_MAX {
            self.known.clear();
        }
        self.known.insert(name(request, credentials), session);
    }
}

fn name(request: &Request, credentials: &Arc<Credentials>) -> (Origin, Arc<Credentials>) {
    (request.url().origin(), Arc::clone(credentials))
}

const SESSIONS_LEN_MAX: usize = 1024;
