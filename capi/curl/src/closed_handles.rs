//! Handles that are freed while a callback runs, and multi handles in which something has panicked.

use std::rc::Rc;

use crate::border::CBorder;
use crate::easy_options::EasyOptions;
use crate::handles::{Easy, Multi};

impl Multi {
    /// A handle is freed within a callback, of its own transfer or of another one. It is removed
    /// when the callback has returned; until then nothing of the application is used for it.
    pub(crate) fn close_later(&self, easy: &Rc<Easy>) {
        easy.with_state(|state| {
            state.options = EasyOptions::default();
            if let Some(transfer) = &mut state.transfer {
                transfer.upload.is_stopped = true;
                transfer.download.is_paused = true;
            }
        });
        easy.membership.is_closed.set(true);
        self.closed.borrow_mut().push(Rc::clone(easy));
    }

    /// Removes the handles that were freed within callbacks.
    pub(crate) fn remove_closed(&self, border: &dyn CBorder) {
        while let Some(easy) = self.next_closed_handle() {
            let _ = self.remove(&easy, border); // refused if the multi handle is poisoned
        }
    }

    fn next_closed_handle(&self) -> Option<Rc<Easy>> {
        self.closed.borrow_mut().pop()
    }

    /// Poisons the multi handle if the function that holds the result panics.
    pub(crate) fn watch_panics(&self) -> PanicWatch<'_> {
        PanicWatch(self)
    }
}

/// See [`Multi::watch_panics`].
#[derive(Debug)]
pub(crate) struct PanicWatch<'a>(&'a Multi);

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::code::MultiCode;
    use crate::values::CPointer;

    #[test]
    fn a_panic_poisons_the_multi_handle() {
        let multi = Multi::new(CPointer::NULL);
        drop(multi.watch_panics());
        assert_eq!(multi.check_usable(), Ok(()));
        let panics = catch_unwind(AssertUnwindSafe(|| {
            let _watch = multi.watch_panics();
            panic!("a broken invariant");
        }));
        assert!(panics.is_err());
        assert_eq!(multi.check_usable(), Err(MultiCode::InternalError));
    }
}
