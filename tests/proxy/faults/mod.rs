//! A thousand faults between clients and servers, on real sockets.
//!
//! Clients and servers are scripts, and each of them has one fault at one place. For each fault an
//! oracle defines the bytes that the client must receive, the line of the log, and how often the
//! server may receive the request. At the end of a round nothing may be left: no descriptor, no
//! session, no place, no waiting client.
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
