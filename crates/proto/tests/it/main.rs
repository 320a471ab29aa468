//! HTTP/1, by its public interface.

mod cases;
mod contract;
mod fields;
mod pair;
mod smoke;
mod splitting;

mod common;
