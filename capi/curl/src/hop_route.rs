//! How a request reaches its host: addresses and local ends that the options select.

use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{IpVersion, Options};
use fulmar_sys as sys;

use crate::border::{CBorder, DebugKind};
use crate::client_options::refuse_long_path;
use crate::code::CurlCode;
use crate::easy_options::EasyOptions;
use crate::failure::Failure;
use crate::handles::{Easy, Multi};
use crate::local_end::LocalEnd;
use crate::option::OptionId as Id;
use crate::socks_failure::socks_unresolved;
use crate::static_hosts::ConnectTo;

impl Multi {
    /// Applies `CURLOPT_RESOLVE`.
    ///
    /// # Errors
    /// An entry is malformed.
    pub(crate) fn load_hosts(&self, easy: &Easy, border: &dyn CBorder) -> Result<(), Failure> {
        let list = easy.pointer(Id::RESOLVE);
        if list.is_null() {
            return Ok(());
        }
        let age = easy.with_state(|state| state.options.values.number(Id::DNS_CACHE_TIMEOUT));
        let age = u64::try_from(age).ok().map(Duration::from_secs);
        let mut messages = Vec::new();
        for entry in border.list(list) {
            let entry = String::from_utf8_lossy(&entry);
            let applied = self.hosts.borrow_mut().apply(&entry, sys::now(), age, &mut messages);
            for message in messages.drain(..) {
                self.inform(easy, &message, border);
            }
            applied?;
        }
        Ok(())
    }

    /// Applies `CURLOPT_CONNECT_TO` to the current request. Through an HTTP proxy, a tunnel leads
    /// to the other host.
    ///
    /// # Errors
    /// An entry is malformed.
    pub(crate) fn select_end(&self, easy: &Easy, border: &dyn CBorder) -> Result<(), Failure> {
        let list = easy.pointer(Id::CONNECT_TO);
        let list = if list.is_null() { Vec::new() } else { border.list(list) };
        let target = easy.with_state(|state| {
            let target = &state.transfer.as_ref()?.target;
            Some((target.host.clone(), target.port))
        });
        let Some((host, port)) = target else { return Ok(()) };
        let other = ConnectTo::find(&list, &host, port)?;
        if let Some(host) = &other.host {
            self.inform(easy, &format!("Connecting to hostname: {host}"), border);
        }
        if let Some(port) = other.port {
            self.inform(easy, &format!("Connecting to port: {port}"), border);
        }
        let end = (other.host.unwrap_or_else(|| host.clone()), other.port.unwrap_or(port));
        let differs = !end.0.eq_ignore_ascii_case(&host) || end.1 != port;
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.connect_to = differs.then(|| Box::new(end));
                let tunnels = differs || transfer.target.is_websocket;
                transfer.route.tunnels |= tunnels && transfer.route.http.is_some();
            }
        });
        Ok(())
    }

    /// Sets the way of the current request: its addresses, and the local end.
    ///
    /// # Errors
    /// `CURLOPT_RESOLVE` has no address of the demanded family, the host is an address of the other
    /// one, or an option names an interface that does not exist.
    pub(crate) fn select_route(&self, easy: &Easy, options: &mut Options) -> Result<(), Failure> {
        options.family = easy.with_state(|state| family(&state.options));
        easy.with_state(|state| {
            select_local(&state.options, options)?;
            let Some(transfer) = &state.transfer else { return Ok(()) };
            let (host, port) = transfer.peer();
            if let Some(family) = options.family
                && address_of(host).is_some_and(|address| !family.has(address))
            {
                return Err(Failure::new(CurlCode::CouldntConnect, ""));
            }
            options.addresses = self.known_addresses(host, port, options).map_err(|()| {
                match transfer.is_proxied() {
                    true => proxy_unresolved(host),
                    false => host_unresolved(host),
                }
            })?;
            if transfer.route.http.is_none() {
                let end = transfer.connect_to.as_deref();
                options.connect_to = end.map(|(host, port)| (host.as_str().into(), *port));
            }
            let Some(socks) = &transfer.route.socks else { return Ok(()) };
            if let Some(path) = &socks.socket {
                refuse_long_path(path)?;
                options.proxy_socket = Some(OsStr::from_bytes(path).into());
            }
            if socks.kind.resolves_itself() {
                return Ok(());
            }
            let (host, port) = transfer.socks_target();
            let known = self.known_addresses(host, port, options);
            let known = known.map_err(|()| {
                let text = socks_unresolved(socks.kind.socks_version(), host);
                Failure::new(CurlCode::Proxy, text)
            })?;
            options.target_addresses = known.map(|it| it.iter().map(SocketAddr::ip).collect());
            Ok(())
        })
    }

    /// The addresses of `CURLOPT_RESOLVE` for a host, if there are any. `Err`: none is of the
    /// demanded family.
    fn known_addresses(
        &self,
        host: &str,
        port: u16,
        options: &Options,
    ) -> Result<Option<Arc<[SocketAddr]>>, ()> {
        let Some(mut known) = self.hosts.borrow().find(host, port, sys::now()) else {
            return Ok(None);
        };
        known.retain(|address| options.family.is_none_or(|it| it.has(address.ip())));
        if known.is_empty() { Err(()) } else { Ok(Some(Arc::from(known))) }
    }

    /// A message for verbose output.
    pub(crate) fn inform(&self, easy: &Easy, text: &str, border: &dyn CBorder) {
        self.debug(easy, DebugKind::Text, format!("{text}\n").as_bytes(), border);
    }
}

/// The address that a host is, with the brackets of a URL or without.
fn address_of(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

fn host_unresolved(host: &str) -> Failure {
    Failure::new(CurlCode::CouldntResolveHost, format!("Could not resolve host: {host}"))
}

fn proxy_unresolved(host: &str) -> Failure {
    Failure::new(CurlCode::CouldntResolveProxy, format!("Could not resolve proxy: {host}"))
}

/// `CURLOPT_IPRESOLVE`.
fn family(options: &EasyOptions) -> Option<IpVersion> {
    match options.values.number(Id::IPRESOLVE) {
        1 => Some(IpVersion::V4),
        2 => Some(IpVersion::V6),
        _ => None,
    }
}

/// `CURLOPT_INTERFACE` and `CURLOPT_LOCALPORT`.
fn select_local(options: &EasyOptions, to: &mut Options) -> Result<(), Failure> {
    let port = u16::try_from(options.values.number(Id::LOCALPORT)).unwrap_or(0);
    let end = LocalEnd::of(options)?;
    to.local = LocalEnd::address(end.as_ref(), port);
    if let Some(LocalEnd::Interface(name)) = end {
        to.interface = Some(name.into());
    }
    Ok(())
}
