//! What the rules of a proxy are made of: samples taken from a message, conditions on them, what
//! is done then, and lines that tell of it.
//!
//! Everything is compiled once from the words of a configuration, and then asked about a
//! [`Subject`]: an exchange or a connection, as the proxy shows it. Nothing here knows sockets or
//! has a clock, and files are read ([`Files`]) only while something is compiled. The language is
//! HAProxy's (its configuration manual, §7 and §8.2).

pub mod words;

pub mod head;
pub mod sample;
pub mod subject;

pub mod context;
pub mod when;

pub mod args;
pub mod convert;
pub mod expression;
pub mod fetch;

mod acl;
pub mod condition;
pub mod lists;
pub mod pattern;

pub mod hash;
mod hello;
mod hex;
mod map;
mod masks;
mod nearest;
mod number;
pub mod regex;

pub mod format;
pub mod reply;

mod elements;
pub mod exchange;
pub mod http;
pub mod tcp;

mod parts;
mod target;
mod time_format;

pub use condition::{Acl, Acls, Condition};
pub use context::Context;
pub use exchange::{Effect, Exchange};
pub use expression::Expression;
pub use format::Format;
pub use head::{RequestHead, ResponseHead};
pub use lists::{Files, List, Lists};
pub use parts::{part_len, parts};
pub use reply::Reply;
pub use sample::{Sample, Type};
pub use subject::Subject;
pub use target::{authority_of, path_and_query_of};
pub use when::{Phase, Point};
pub use words::{Fault, Word, Words};
