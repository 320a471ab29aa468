//! What is not built in, and so refused.

use crate::code::CurlCode;
use crate::easy_options::EasyOptions;
use crate::failure::Failure;
use crate::option::OptionId as Id;

/// A transfer that would silently differ from what its options demand does not begin.
pub(crate) fn refuse_unsupported(options: &EasyOptions) -> Result<(), Failure> {
    let values = &options.values;
    let refused = [
        // It may forbid a request, so ignoring it would be unsafe.
        (!values.pointer(Id::PREREQFUNCTION).is_null(), "CURLOPT_PREREQFUNCTION is not built in"),
    ];
    match refused.into_iter().find(|(is_set, _)| *is_set) {
        Some((_, text)) => Err(Failure::new(CurlCode::NotBuiltIn, text)),
        None => Ok(()),
    }
}
