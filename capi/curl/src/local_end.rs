//! The local end of connections: `CURLOPT_INTERFACE` and `CURLOPT_LOCALPORT`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;

use crate::code::CurlCode;
use crate::easy_options::EasyOptions;
use crate::failure::Failure;
use crate::option::OptionId as Id;
use crate::refused_socket::RefusedSocket;

/// What `CURLOPT_INTERFACE` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocalEnd {
    Address(IpAddr),
    Interface(String),
    /// A host. As in libcurl its name is resolved for each socket, in the family of the peer.
    Host(String),
}

impl LocalEnd {
    /// The local end of a transfer; `None`: the system chooses it.
    ///
    /// # Errors
    /// There is no such interface.
    pub(crate) fn of(options: &EasyOptions) -> Result<Option<Self>, Failure> {
        let Some(name) = options.values.bytes(Id::INTERFACE) else { return Ok(None) };
        let name = String::from_utf8_lossy(name);
        let (may_be_interface, may_be_host, name) = match name.split_once('!') {
            Some(("if", name)) => (true, false, name),
            Some(("host", name)) => (false, true, name),
            _ => (true, true, &*name),
        };
        let address = name.parse::<IpAddr>().ok().filter(|_| may_be_host);
        match address {
            Some(address) => Ok(Some(Self::Address(address))),
            None if may_be_interface && is_interface(name) => {
                Ok(Some(Self::Interface(name.to_owned())))
            }
            None if may_be_host => Ok(Some(Self::Host(name.to_owned()))),
            None => {
                let text = format!("Couldn't bind to interface '{name}'");
                Err(Failure::new(CurlCode::InterfaceFailed, text))
            }
        }
    }

    /// The address that sockets are bound to, before the name of a host is resolved.
    pub(crate) fn address(this: Option<&Self>, port: u16) -> Option<SocketAddr> {
        let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        match this {
            Some(Self::Address(address)) => Some((*address, port).into()),
            Some(Self::Host(_)) => Some(unspecified),
            Some(Self::Interface(_)) => None,
            None => (port > 0).then_some(unspecified),
        }
    }
}

fn is_interface(name: &str) -> bool {
    !name.contains('/') && Path::new("/sys/class/net").join(name).exists()
}

/// The first address of a local host in the family of a peer. As in libcurl this waits for it.
///
/// # Errors
/// It has none.
pub(crate) fn resolve_local(host: &str, peer: IpAddr) -> io::Result<IpAddr> {
    let found = (host, 0).to_socket_addrs().into_iter().flatten().map(|it| it.ip());
    found.into_iter().find(|it| it.is_ipv4() == peer.is_ipv4()).ok_or_else(|| {
        let text = format!("Couldn't bind to '{host}'");
        io::Error::other(RefusedSocket { code: CurlCode::InterfaceFailed, text: Some(text) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::Argument;

    #[test]
    fn names_are_those_of_interfaces_and_hosts() {
        let end = |name: &str| {
            let mut options = EasyOptions::default();
            options.set(Id::INTERFACE, Argument::Bytes(Some(name.as_bytes()))).expect("a text");
            LocalEnd::of(&options).map_err(|failure| failure.text.into_owned())
        };
        let address = |text: &str| Ok(Some(LocalEnd::Address(text.parse().expect("an address"))));
        let host = |name: &str| Ok(Some(LocalEnd::Host(name.to_owned())));
        assert_eq!(end("127.0.0.2"), address("127.0.0.2"));
        assert_eq!(end("host!::1"), address("::1"));
        assert_eq!(end("lo"), Ok(Some(LocalEnd::Interface("lo".to_owned()))));
        assert_eq!(end("if!lo"), end("lo"));
        assert_eq!(end("host!lo"), host("lo"));
        assert_eq!(end("name.test"), host("name.test"));
        assert_eq!(end("if!name.test"), Err("Couldn't bind to interface 'name.test'".to_owned()));
        assert_eq!(end("../lo"), host("../lo"));
    }

    #[test]
    fn a_local_host_has_an_address_of_the_family_of_the_peer() {
        let peer = IpAddr::from(Ipv4Addr::LOCALHOST);
        assert_eq!(
            resolve_local("127.0.0.2", peer).expect("an address"),
            Ipv4Addr::new(127, 0, 0, 2)
        );
        let refused = resolve_local("::1", peer).expect_err("of the other family");
        assert_eq!(refused.to_string(), "Couldn't bind to '::1'");
    }
}
