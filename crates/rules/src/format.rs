//! Log formats: text with aliases (`%ci`) and expressions (`%[src]`) in it (HAProxy's manual,
//! §8.2.6). Also used wherever a rule takes text.

use crate::subject::Subject;

/// A compiled format.
#[derive(Clone, Debug, Default)]
pub struct Format {
    literal: Vec<u8>,
}

impl Format {
    /// Writes it.
    pub fn render(&self, _subject: &dyn Subject, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.literal);
    }
}
