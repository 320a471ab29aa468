//! HTTP/1 and HTTP/2, by their public interface.

mod cases;
mod contract;
mod fields;
mod h2;
mod libcurl;
mod pair;
mod smoke;
mod splitting;

mod common;
