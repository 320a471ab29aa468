//! Rules of a proxy: samples, conditions, actions, and log formats.
//!
//! Everything is compiled once from the configuration, then evaluated on an [`EvalContext`]: an
//! exchange or a connection of the proxy. This module has no sockets and no clock; files are read
//! ([`ConfigFiles`]) only during compilation. The language is HAProxy's (its configuration manual,
//! §7 and §8.2).

pub mod words;

pub mod eval_context;
pub mod head;
pub mod sample;

pub mod compile_context;
pub mod sample_phase;

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
pub mod eval_context_mut;
pub mod http;
pub mod tcp;

mod parts;
mod target;
mod time_format;

pub use compile_context::CompileContext;
pub use condition::{Acl, Acls, Condition};
pub use eval_context::EvalContext;
pub use eval_context_mut::{Effect, EvalContextMut};
pub use expression::Expression;
pub use format::FormatString;
pub use head::{RequestHead, ResponseHead};
pub use lists::{ConfigFiles, List, Lists};
pub use parts::{part_len, parts};
pub use reply::ReplyTemplate;
pub use sample::{Sample, Type};
pub use sample_phase::{EvalPoint, SamplePhase};
pub use target::{authority_of, path_and_query_of};
pub use words::{Word, WordCursor, WordError};
