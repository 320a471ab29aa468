//! Splits files into words: quotes, escapes, variables, conditional blocks (HAProxy's configuration
//! manual, §2.2 to §2.4).

pub(crate) mod blocks;
mod condition;
mod words;

pub(crate) use words::{expand, split};
