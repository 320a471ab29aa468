//! A line's place, and words of it that are looked at again later.

use std::sync::Arc;

use crate::model::Place;
use crate::rules::Word;

/// A line's place and text, kept for what is found later.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) place: Place,
    pub(crate) text: Arc<str>,
}

/// What stands in front of a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing.
    Plain,
    /// `no`.
    No,
    /// `default`.
    Default,
}

impl Said {
    /// What a switch is then: off by default.
    pub(crate) fn is_on(self) -> bool {
        self == Self::Plain
    }
}

/// A name that is looked up when everything has been read.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) name: Word,
    pub(crate) spot: Spot,
}
