//! A thousand faults between clients and servers, on real sockets.
//!
//! Clients and servers are scripts, and each of them does one thing wrong at one place. For each an
//! oracle says what the client must see, what the log must tell of it, and how often the server may
//! have heard the request. At the end of a round nothing may be left: no descriptor, no session, no
//! place, nobody who waits.
//!
//! Everything is in the thread of the test, and the proxy lives in a time of its own, which passes
//! only when nothing else happens: a stall costs nothing, and a slow machine makes no timeouts.
//! What a round does follows from its seed, which every failure names.

mod cases;
mod http;
mod message;
mod origin;
mod peer;
mod tcp;

mod world;
