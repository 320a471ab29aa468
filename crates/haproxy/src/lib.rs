//! The configuration language of HAProxy, read into a model that is checked and complete.
//!
//! What comes out has every default applied, every name resolved and every expression compiled:
//! nothing that runs has to know that there was a text. Follows HAProxy's configuration manual
//! (2.6); what is not in its table of keywords is an error that says where, and what is nearest.
#![forbid(unsafe_code)]

pub mod model;

pub use model::{
    Backend, BackendId, Bind, Config, Frontend, Global, Mode, Place, Server, ServerId,
};
