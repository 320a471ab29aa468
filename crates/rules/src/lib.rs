//! What the rules of a proxy are made of: samples taken from a message, conditions on them, what
//! is done then, and lines that tell of it.
//!
//! Everything is compiled once from the words of a configuration, and then asked about a
//! [`Subject`]: an exchange or a connection, as the proxy shows it. Nothing here does I/O, knows
//! sockets or has a clock. The language is HAProxy's (its configuration manual, §7 and §8.2).
#![forbid(unsafe_code)]

pub mod words;

pub mod head;
pub mod sample;
pub mod subject;

pub mod expression;

pub mod condition;

pub mod format;
pub mod reply;

pub mod http;
pub mod tcp;

pub use condition::Condition;
pub use expression::Expression;
pub use format::Format;
pub use head::{RequestHead, ResponseHead};
pub use reply::Reply;
pub use sample::Sample;
pub use subject::Subject;
pub use words::{Fault, Word, Words};
