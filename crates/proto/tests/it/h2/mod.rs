//! HTTP/2, by its public interface.

mod wire;

mod frames;
mod messages;
mod responses;

mod windows;

mod encoded;
mod sending;
mod shutdown;

mod floods;

mod pair;
mod random;
