//! Texts for the application: `CURLOPT_VERBOSE`, `CURLOPT_DEBUGFUNCTION`, `CURLOPT_ERRORBUFFER`.

use std::rc::Rc;

use crate::border::{CBorder, DebugKind};
use crate::failure::Failure;
use crate::handles::{Easy, Multi};
use crate::option::OptionId;
use crate::values::CPointer;

impl Easy {
    /// Reports a message, if verbose output is on.
    pub(crate) fn note(&self, text: &str, border: &dyn CBorder) {
        let text = format!("{text}\n");
        match self.multi() {
            Some(multi) => multi.debug(self, DebugKind::Text, text.as_bytes(), border),
            None => {
                if let Some((function, user)) = self.debug_call() {
                    border.debug(function, user, self.handle, DebugKind::Text, text.as_bytes());
                }
            }
        }
    }

    /// The debug callback and its argument. `None` unless verbose output is on.
    fn debug_call(&self) -> Option<(CPointer, CPointer)> {
        let state = self.state.borrow();
        let values = &state.options.values;
        values.is_on(OptionId::VERBOSE).then(|| match values.pointer(OptionId::DEBUGFUNCTION) {
            function if function.is_null() => (function, values.pointer(OptionId::STDERR)),
            function => (function, values.pointer(OptionId::DEBUGDATA)),
        })
    }
}

impl Multi {
    /// Passes what is sent or received to the debug callback, if verbose output is on.
    pub(crate) fn debug(&self, easy: &Easy, kind: DebugKind, text: &[u8], border: &dyn CBorder) {
        let Some((function, user)) = easy.debug_call() else { return };
        self.call(|| border.debug(function, user, easy.handle, kind, text));
    }

    /// Reports the text of a failure: to the error buffer, and as a message.
    pub(crate) fn report_failure(&self, easy: &Rc<Easy>, failure: &Failure, border: &dyn CBorder) {
        let text = &failure.text[..];
        if text.is_empty() {
            return; // there is no text besides that of the code
        }
        let buffer = easy.pointer(OptionId::ERRORBUFFER);
        if !buffer.is_null() {
            border.set_error(buffer, text);
        }
        self.debug(easy, DebugKind::Text, format!("{text}\n").as_bytes(), border);
    }
}
