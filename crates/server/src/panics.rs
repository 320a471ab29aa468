//! Panics of application code, caught where the server calls it.
//!
//! [`catch`] is the only function that catches. [`crate::ServerEngine`] calls every method of an
//! [`crate::ServerApp`] through it: a panic ends one connection. [`crate::HandlerApp`] calls
//! handlers and what they leave behind through it: a panic ends one request. Either way the thread,
//! its loop and its other connections continue.
//!
//! A destructor that panics while another panic unwinds aborts the process, as in every Rust
//! program, and so does any panic in a build with `panic = "abort"`.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A panic of application code that was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic {
    message: Box<str>,
}

impl Panic {
    /// The message of `panic!`, `expect` or `assert!`.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panic: {}", self.message)
    }
}

/// From a payload of `catch_unwind` or `JoinHandle::join`. Never panics, even if dropping the
/// payload does.
impl From<Box<dyn Any + Send>> for Panic {
    fn from(payload: Box<dyn Any + Send>) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("no message").into();
        // `panic_any` takes values with destructors. One that panics has a payload of its own,
        // which is leaked, since dropping it might panic again, and so on.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
        Self { message }
    }
}

/// Calls application code. If it panics, unwinding ends here.
///
/// Without a panic this costs no allocation and no lock: the landing pad is beside the hot path.
///
/// The assertion of unwind safety rests on what the closures of this crate reach: the application
/// (or handler), the data or exchange of one connection, and that connection. The engine changes
/// none of its own tables (connections, deadlines, actions) while application code runs, so none
/// can be half changed. Afterwards the data or the exchange are dropped, and the connection sends
/// a 500 or ends. Its methods check their state before they change it, so the next call refuses or
/// completes an unfinished message. The application has to keep state consistent that its requests
/// share; unwinding releases a `RefCell` and poisons a `Mutex`.
pub(crate) fn catch<T>(call: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(call)).map_err(Panic::from)
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    /// Panics when it is dropped, with a payload that panics once less.
    struct PanicsOnDrop(u32);

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            if self.0 > 0 {
                panic_any(Self(self.0 - 1));
            }
        }
    }

    #[test]
    fn messages_are_kept() {
        assert_eq!(catch(|| 1), Ok(1));
        let message = |call: fn()| catch(call).unwrap_err().message().to_owned();
        assert_eq!(message(|| panic!("plain")), "plain");
        assert_eq!(message(|| panic!("{}", "formatted")), "formatted");
        assert_eq!(message(|| panic_any(7)), "no message");
        assert_eq!(catch(|| panic!("x")).map(|()| 1).unwrap_err().to_string(), "panic: x");
    }

    #[test]
    fn payloads_may_panic_when_they_are_dropped() {
        for depth in [0, 1, 5] {
            let panic = catch(|| panic_any(PanicsOnDrop(depth))).unwrap_err();
            assert_eq!(panic.message(), "no message");
        }
    }
}
