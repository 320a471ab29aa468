//! The rules: how they are read, and what each does.

mod actions;
mod conditions;
mod connections;
mod expressions;
mod formats;
mod replies;
mod smoke;
