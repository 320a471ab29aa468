//! A handler from a function of the `http` crate's types.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use crate::{Handler, HandlerResult, Responder, ResponseBody};
use bytes::Bytes;
use fulmar_proto::Request;

/// A handler made of a function from requests with their complete body to responses.
pub struct Service<F> {
    body_size_max: usize,
    respond: Rc<RefCell<F>>,
}

impl<F: FnMut(http::Request<Bytes>) -> http::Response<ResponseBody> + 'static> Service<F> {
    /// `respond` is called when a request is complete. Bodies longer than `body_size_max` bytes are
    /// refused with 413, targets that the `http` crate does not accept with 400.
    pub fn new(body_size_max: usize, respond: F) -> Self {
        Self { body_size_max, respond: Rc::new(RefCell::new(respond)) }
    }
}

impl<F: FnMut(http::Request<Bytes>) -> http::Response<ResponseBody> + 'static> Handler
    for Service<F>
{
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        let Ok(head) = super::request(request) else {
            return responder.text(400, "the target is malformed\n");
        };
        let respond = Rc::clone(&self.respond);
        responder.collect(self.body_size_max, move |responder, body| {
            let response = (respond.borrow_mut())(head.map(|()| body));
            responder.respond(super::response(response)?)
        })
    }
}

impl<F> fmt::Debug for Service<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("body_size_max", &self.body_size_max).finish()
    }
}
