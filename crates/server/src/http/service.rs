//! A function of their types as a handler.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use crate::{Handler, HandlerResult, Responder, ResponseBody};
use bytes::Bytes;
use fulmar_proto::Request;

/// A handler made of a function from requests with their whole body to answers.
pub struct Service<F> {
    body_size_max: usize,
    answer: Rc<RefCell<F>>,
}

impl<F: FnMut(http::Request<Bytes>) -> http::Response<ResponseBody> + 'static> Service<F> {
    /// `answer` is called when a request is complete. Bodies longer than `body_size_max` bytes are
    /// answered 413, targets that the `http` crate does not take 400.
    pub fn new(body_size_max: usize, answer: F) -> Self {
        Self { body_size_max, answer: Rc::new(RefCell::new(answer)) }
    }
}

impl<F: FnMut(http::Request<Bytes>) -> http::Response<ResponseBody> + 'static> Handler
    for Service<F>
{
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        let Ok(head) = super::request(request) else {
            return responder.text(400, "the target is malformed\n");
        };
        let answer = Rc::clone(&self.answer);
        responder.collect(self.body_size_max, move |responder, body| {
            let response = (answer.borrow_mut())(head.map(|()| body));
            responder.respond(super::response(response)?)
        })
    }
}

impl<F> fmt::Debug for Service<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("body_size_max", &self.body_size_max).finish()
    }
}
