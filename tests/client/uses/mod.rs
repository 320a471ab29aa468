//! The client in use: downloads and uploads, proxies, redirects and identities.

mod basic;
mod coding;
mod examples;
mod files;
mod https;
mod identity;
mod manners;
mod peers;
mod proxies;
mod redirects;
mod uploads;
