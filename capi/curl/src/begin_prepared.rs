//! Transfers that begin with a request that is known (`prepared`).

use std::rc::Rc;

use fulmar_client::Request;

use crate::auth_state::LoginPair;
use crate::border::CBorder;
use crate::easy_options::{HTTP_VERSION_2_0, RequestKind};
use crate::handles::{Easy, EasyState, Multi};
use crate::option::OptionId as Id;
use crate::prepared::PreparedRequest;
use crate::proxy_choice::ProxyRoute;

impl Multi {
    /// Begins a transfer with a request that is known. False if there is none.
    pub(crate) fn begin_prepared(&self, easy: &Rc<Easy>, border: &dyn CBorder) -> bool {
        let Some(known) = self.find_prepared(easy) else { return false };
        self.reset_error(easy, border);
        let id = self.reactor.borrow_mut().with(|client, now| client.start(now, &known.request));
        self.attach(id, easy);
        easy.with_state(|state| {
            state.begin_transfer(Rc::clone(&known.target));
            state.auth.skip();
            let head = known.request.verbatim().map_or(0, |head| head.as_bytes().len());
            state.note_head(head);
            state.note_request(id, 0, None);
            state.prepared = Some(known);
        });
        true
    }

    fn find_prepared(&self, easy: &Easy) -> Option<Rc<PreparedRequest>> {
        if !self.hosts.borrow().is_empty() || self.open.borrow().has_http10() {
            return None;
        }
        easy.with_state(|state| {
            if !state.has_only_options() {
                return None;
            }
            let is_known = |known: &&Rc<PreparedRequest>| known.is_for(&state.options);
            let last = self.prepared.borrow();
            let known = state.prepared.as_ref().filter(is_known);
            let known = Rc::clone(known.or_else(|| last.as_ref().filter(is_known))?);
            // The environment may have changed.
            ProxyRoute::is_direct(&state.options, &known.target).then_some(known)
        })
    }

    /// Keeps the first request of a transfer, if another one may be the same.
    pub(crate) fn keep_prepared(&self, state: &mut EasyState, request: &Request) {
        let Some(transfer) = &state.transfer else { return };
        let is_plain = transfer.redirects == 0
            && transfer.attempts.retries == 0
            && !transfer.attempts.refuses_expect
            && *transfer.route == ProxyRoute::default()
            && transfer.connect_to.is_none()
            && *transfer.login == LoginPair::default()
            && !transfer.target.is_secure
            && !transfer.target.is_websocket; // its key is new each time
        if !is_plain || !state.follows_from_options() {
            return;
        }
        let known = PreparedRequest::new(&state.options, &transfer.target, request);
        let Some(known) = known.map(Rc::new) else { return };
        state.prepared = Some(Rc::clone(&known));
        self.prepared.replace(Some(known));
    }
}

impl EasyState {
    /// True if the first request depends on nothing but the options.
    fn follows_from_options(&self) -> bool {
        let values = &self.options.values;
        let is_plain = matches!(self.options.request, RequestKind::Get | RequestKind::Head);
        is_plain
            && self.has_only_options()
            // Whether an upgrade is requested depends on the connections.
            && values.number(Id::HTTP_VERSION) != HTTP_VERSION_2_0
            && values.bytes(Id::XOAUTH2_BEARER).is_none()
            // That of CURLOPT_PIPEWAIT depends on the multi handle.
            && ![Id::VERBOSE, Id::NETRC, Id::CONNECT_ONLY, Id::PIPEWAIT]
                .iter()
                .any(|id| values.is_on(*id))
    }

    /// True if no other state of the handle decides on requests.
    fn has_only_options(&self) -> bool {
        self.share.is_none() && self.cookies.is_unused() && self.hsts.is_unused()
    }
}
