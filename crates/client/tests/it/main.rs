//! The client, by its public interface.

mod key;
mod names;
