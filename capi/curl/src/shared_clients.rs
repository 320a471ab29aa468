//! Connections that handles share (`CURL_LOCK_DATA_CONNECT`).
//!
//! A client with its connections works in one thread. The share keeps those that no thread uses;
//! `curl_easy_perform` takes one of them, and returns it at its end. Handles that perform one after
//! the other so use the same connections, and those that perform at the same time in several
//! threads have a client each.

use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};

use fulmar_client::Client;
use fulmar_drive::{ExternalLoop, Reactor};

use crate::events::EventQueue;
use crate::open_sockets::SharedSockets;
use crate::tls_configurations::TlsConfigurations;

/// A client between the transfers of two handles.
#[derive(Debug)]
pub(crate) struct SharedClient {
    pub(crate) reactor: Reactor<Client<EventQueue>, ExternalLoop>,
    pub(crate) tls: TlsConfigurations,
    /// The descriptors that are waited for, such as those of the resolver.
    pub(crate) watched: Vec<(RawFd, i32)>,
    /// Its sockets.
    pub(crate) open: SharedSockets,
}

/// The clients that no thread uses.
#[derive(Debug, Default)]
pub(crate) struct SharedClients(Mutex<Vec<SharedClient>>);

impl SharedClients {
    /// The client that was returned last.
    pub(crate) fn take(&self) -> Option<SharedClient> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a client, and at most [`CLIENTS_MAX`]: the surplus one is returned.
    pub(crate) fn put(&self, client: SharedClient) -> Option<SharedClient> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let surplus = (clients.len() == CLIENTS_MAX).then(|| clients.remove(0));
        clients.push(client);
        surplus
    }

    /// Removes all clients.
    pub(crate) fn take_all(&self) -> Vec<SharedClient> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Clients that are kept while no thread uses them.
const CLIENTS_MAX: usize = 8;
