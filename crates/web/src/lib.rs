//! Building blocks for handlers: forms, uploaded files, users, conditional requests and ranges,
//! CORS.
//!
//! All of them use a [`fulmar_server::Responder`], on its thread. System calls are made only for
//! files, and are counted in the ledger.
#![forbid(unsafe_code)]

pub mod temporary;

pub mod form;

pub mod representation;

pub mod auth;
pub mod cors;
pub mod htpasswd;

mod failures;
mod guard_options;
mod hashing;
