//! Rules: parsing, and the effect of each.

mod actions;
mod conditions;
mod connections;
mod expressions;
mod formats;
mod replies;
mod smoke;
