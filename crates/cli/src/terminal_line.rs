//! One line at the bottom of a terminal that is redrawn in place.
//!
//! The cursor stays at the end of the text. The `^C` that a terminal prints there at Ctrl-C is
//! erased with the line, as long as it fits.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// The line, shared by all printing threads. Clones refer to the same line.
#[derive(Clone, Debug)]
pub(crate) struct TerminalLine(Option<Arc<Mutex<String>>>);

impl TerminalLine {
    /// If `is_shown` is false, it is never drawn.
    pub(crate) fn new(is_shown: bool) -> Self {
        Self(is_shown.then(Arc::default))
    }

    /// Replaces the text. An empty text removes the line.
    pub(crate) fn set(&self, text: String) {
        if let Some(shown) = &self.0 {
            let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            *shown = text;
            draw(&shown);
        }
    }

    /// Prints above the line.
    pub(crate) fn suspend(&self, print: impl FnOnce()) {
        match &self.0 {
            None => print(),
            Some(shown) => {
                let shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                draw("");
                print();
                draw(&shown);
            }
        }
    }
}

/// Replaces the line. Errors are ignored.
fn draw(text: &str) {
    let _ = io::stderr().lock().write_all(format!("\r{text}\x1b[K").as_bytes());
}
