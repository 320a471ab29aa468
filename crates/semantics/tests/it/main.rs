//! What messages mean, by the public interface.

mod coding;
mod form;
mod proxy;
mod proxy_protocol;
mod redirect;
mod smoke;
mod tunnel;
mod userinfo;
