//! The configuration language, by its public interface.

mod errors;
mod model;
mod page;
mod random;
mod rules;
mod smoke;

mod given;
mod memory;
mod world;
