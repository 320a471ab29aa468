//! What handlers of web programs use: forms, uploaded files, users, conditions and ranges, pages of
//! elsewhere.
//!
//! Everything here goes on with a [`fulmar_server::Call`], on the thread that it belongs to. System
//! calls are made for files only, and stand in the ledger.
#![forbid(unsafe_code)]

pub mod temporary;

pub mod form;

pub mod representation;

pub mod auth;
pub mod cors;
pub mod htpasswd;

mod failures;
mod hashing;
