//! How a request reaches its host: addresses and local ends that the options select.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{IpVersion, Options};
use fulmar_sys as sys;

use crate::border::{CBorder, DebugKind};
use crate::code::CurlCode;
use crate::easy_options::EasyOptions;
use crate::failure::Failure;
use crate::handles::{Easy, Multi};
use crate::option::OptionId as Id;
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

    /// Sets the addresses of the current request, and the origin that selects its connection, if
    /// that is not the one of the URL.
    ///
    /// # Errors
    /// An option is malformed, or names an interface that does not exist.
    pub(crate) fn select_route(
        &self,
        easy: &Easy,
        options: &mut Options,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        options.family = easy.with_state(|state| family(&state.options));
        easy.with_state(|state| select_local(&state.options, options))?;
        let is_direct = easy.with_state(|state| match &state.transfer {
            Some(transfer) => transfer.route.http.is_none() && transfer.route.socks.is_none(),
            None => false,
        });
        let origin = match is_direct {
            true => self.other_origin(easy, options, border)?,
            false => None,
        };
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.other_origin = origin;
            }
        });
        Ok(())
    }

    fn other_origin(
        &self,
        easy: &Easy,
        options: &mut Options,
        border: &dyn CBorder,
    ) -> Result<Option<String>, Failure> {
        let list = easy.pointer(Id::CONNECT_TO);
        let list = if list.is_null() { Vec::new() } else { border.list(list) };
        let target = easy.with_state(|state| state.transfer.as_ref().map(|it| it.target.clone()));
        let Some(target) = target else { return Ok(None) };
        let other = ConnectTo::find(&list, &target.host, target.port)?;
        if let Some(host) = &other.host {
            self.inform(easy, &format!("Connecting to hostname: {host}"), border);
        }
        if let Some(port) = other.port {
            self.inform(easy, &format!("Connecting to port: {port}"), border);
        }
        let host = other.host.as_ref().unwrap_or(&target.host);
        let port = other.port.unwrap_or(target.port);
        let known = self.hosts.borrow().find(host, port, sys::now());
        let literal = host.parse::<IpAddr>().ok().filter(|_| other != ConnectTo::default());
        let addresses = known.or_else(|| literal.map(|address| vec![(address, port).into()]));
        if let Some(mut addresses) = addresses {
            addresses.retain(|address| options.family.is_none_or(|it| it.has(address.ip())));
            if addresses.is_empty() {
                let text = format!("Could not resolve host: {host}");
                return Err(Failure::new(CurlCode::CouldntResolveHost, text));
            }
            options.addresses = Some(Arc::from(addresses));
        }
        if other == ConnectTo::default() {
            return Ok(None);
        }
        // A connection with TLS is one to the host of the URL, whose certificate it needs.
        if target.is_secure {
            return match options.addresses {
                Some(_) => Ok(None),
                None => Err(Failure::new(
                    CurlCode::NotBuiltIn,
                    "CURLOPT_CONNECT_TO with a name and TLS is not built in",
                )),
            };
        }
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        if literal.is_some() {
            options.addresses = None; // as if it were in the URL
        }
        Ok(Some(format!("http://{host}:{port}/")))
    }

    /// A message for verbose output.
    pub(crate) fn inform(&self, easy: &Easy, text: &str, border: &dyn CBorder) {
        self.debug(easy, DebugKind::Text, format!("{text}\n").as_bytes(), border);
    }
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
    let Some(name) = options.values.bytes(Id::INTERFACE) else {
        to.local = (port > 0).then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
        return Ok(());
    };
    let name = String::from_utf8_lossy(name);
    let (may_be_interface, may_be_host, name) = match name.split_once('!') {
        Some(("if", name)) => (true, false, name),
        Some(("host", name)) => (false, true, name),
        _ => (true, true, &*name),
    };
    let is_interface =
        may_be_interface && !name.contains('/') && Path::new("/sys/class/net").join(name).exists();
    let address = name.parse::<IpAddr>().ok().filter(|_| may_be_host);
    match address {
        Some(address) => to.local = Some((address, port).into()),
        None if is_interface => to.interface = Some(name.into()),
        None => {
            let text = format!("Couldn't bind to '{name}'");
            return Err(Failure::new(CurlCode::InterfaceFailed, text));
        }
    }
    Ok(())
}
