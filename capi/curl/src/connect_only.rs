//! The connection of a transfer with `CURLOPT_CONNECT_ONLY`, for bytes of the application.

use std::rc::Rc;

use crate::border::CBorder;
use crate::code::CurlCode;
use crate::failure::Failure;
use crate::handles::{Easy, Multi};
use crate::option::OptionId as Id;
use crate::values::CPointer;

impl Easy {
    /// Sends bytes on the connection, and returns how many it accepted (curl_easy_send(3)).
    ///
    /// # Errors
    /// There is no such connection, or it fails.
    pub fn send(self: &Rc<Self>, _bytes: &[u8], border: &dyn CBorder) -> Result<usize, CurlCode> {
        self.own_connection(border)
    }

    /// Receives bytes from the connection, and returns how many (curl_easy_recv(3)).
    ///
    /// # Errors
    /// There is no such connection, it has no bytes now, or it fails.
    pub fn receive(
        self: &Rc<Self>,
        _buffer: &mut [u8],
        border: &dyn CBorder,
    ) -> Result<usize, CurlCode> {
        self.own_connection(border)
    }

    /// Keeps idle connections alive (curl_easy_upkeep(3)). Those of HTTP/1 need nothing.
    pub fn keep_alive(&self) {}

    fn own_connection(self: &Rc<Self>, border: &dyn CBorder) -> Result<usize, CurlCode> {
        let multi = self.multi().unwrap_or_else(|| self.private(|| Multi::new(CPointer::NULL)));
        if multi.is_calling() {
            return Err(CurlCode::RecursiveApiCall);
        }
        let connects_only = self.state.borrow().options.values.is_on(Id::CONNECT_ONLY);
        let text = match connects_only {
            true => "Failed to get recent socket",
            false => "CONNECT_ONLY is required",
        };
        let failure = Failure::new(CurlCode::UnsupportedProtocol, text);
        multi.report_failure(self, &failure, border);
        Err(failure.code)
    }
}
