//! The client as programs use it: what it fetches and sends, from whom, through whom, and as whom.

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
