//! Requests that are sent again: what was made for an earlier transfer serves another one whose
//! options lead to the same bytes on the same kind of connection.
//!
//! Only requests are kept that follow from the options alone: GET and HEAD without credentials,
//! cookies, proxies, TLS, or lists of the application, which may change without a call.

use std::rc::Rc;

use fulmar_client::Request;

use crate::easy_options::{EasyOptions, RequestKind};
use crate::hop_target::HopTarget;
use crate::option::OptionId as Id;
use crate::values::{OptionValue, OptionValues};

/// The first request of a transfer.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    /// The options that it was made from.
    values: Vec<(Id, OptionValue)>,
    kind: RequestKind,
    is_bodiless: bool,
    pub(crate) target: Rc<HopTarget>,
    pub(crate) request: Request,
}

impl PreparedRequest {
    /// A request that was made from these options; `None` if a list of the application is among
    /// them.
    pub(crate) fn new(
        options: &EasyOptions,
        target: &Rc<HopTarget>,
        request: &Request,
    ) -> Option<Self> {
        let is_listed = |(_, value): &(Id, OptionValue)| matches!(value, OptionValue::Pointer(_));
        if values_of_request(&options.values).any(is_listed) {
            return None;
        }
        Some(Self {
            values: values_of_request(&options.values).cloned().collect(),
            kind: options.request,
            is_bodiless: options.is_bodiless,
            target: Rc::clone(target),
            request: request.clone(),
        })
    }

    /// True if these options lead to the same request.
    pub(crate) fn is_for(&self, options: &EasyOptions) -> bool {
        (self.kind, self.is_bodiless) == (options.request, options.is_bodiless)
            && self.values.iter().eq(values_of_request(&options.values))
    }
}

/// The options that a request and its connection follow from.
fn values_of_request(values: &OptionValues) -> impl Iterator<Item = &(Id, OptionValue)> {
    values.iter().filter(|(id, _)| !is_for_response(*id))
}

/// True for options that matter only once the request was sent, if it has a body, or when its
/// socket is closed.
fn is_for_response(id: Id) -> bool {
    matches!(
        id,
        Id::PRIVATE
            | Id::WRITEDATA
            | Id::WRITEFUNCTION
            | Id::READDATA
            | Id::READFUNCTION
            | Id::SEEKDATA
            | Id::SEEKFUNCTION
            | Id::HEADERDATA
            | Id::HEADERFUNCTION
            | Id::ERRORBUFFER
            | Id::NOSIGNAL
            | Id::NOPROGRESS
            | Id::XFERINFODATA
            | Id::XFERINFOFUNCTION
            | Id::PROGRESSFUNCTION
            | Id::DEBUGFUNCTION
            | Id::DEBUGDATA
            | Id::STDERR
            | Id::LOW_SPEED_LIMIT
            | Id::LOW_SPEED_TIME
            | Id::FAILONERROR
            | Id::FOLLOWLOCATION
            | Id::HEADER
            | Id::CLOSESOCKETFUNCTION
            | Id::CLOSESOCKETDATA
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::Argument;
    use crate::values::CPointer;

    #[test]
    fn options_of_responses_do_not_select_a_request() {
        let mut options = EasyOptions::default();
        let place = Argument::Pointer(CPointer(std::ptr::dangling_mut()));
        for (id, argument) in [
            (Id::WRITEDATA, place),
            (Id::WRITEFUNCTION, place),
            (Id::READDATA, place),
            (Id::PRIVATE, place),
            (Id::NOSIGNAL, Argument::Number(1)),
            (Id::URL, Argument::Bytes(Some(b"http://x/"))),
            (Id::TIMEOUT, Argument::Number(1)),
        ] {
            options.set(id, argument).expect("valid");
        }
        let of_request: Vec<_> = values_of_request(&options.values).map(|(id, _)| *id).collect();
        assert_eq!(of_request, [Id::TIMEOUT_MS, Id::URL]);
    }
}
