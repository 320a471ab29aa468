//! The client in use: downloads and uploads, proxies, redirects and identities.

mod basic;
mod coding;
mod examples;
mod files;
mod http2;
mod https;
mod identity;
mod limits;
mod peers;
mod proxies;
mod redirects;
mod uploads;
