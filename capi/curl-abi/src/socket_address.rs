//! Addresses as the functions for sockets have them.

use std::ffi::{OsStr, c_int, c_uint};
use std::mem::{offset_of, size_of};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fulmar_curl::Peer;

/// `struct curl_sockaddr`, with room for any address.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CurlSocketAddress {
    family: c_int,
    kind: c_int,
    protocol: c_int,
    len: c_uint,
    address: AnyAddress,
}

/// Room for the addresses of the families that there are.
#[derive(Clone, Copy)]
#[repr(C)]
union AnyAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
    unix: libc::sockaddr_un,
    storage: libc::sockaddr_storage,
}

impl CurlSocketAddress {
    /// The address of a peer.
    pub(crate) fn of(peer: &Peer) -> Self {
        // SAFETY: addresses are plain data; all-zero is a valid value of them.
        let storage = unsafe { std::mem::zeroed::<libc::sockaddr_storage>() };
        let mut address = AnyAddress { storage };
        let (family, protocol, len) = match peer {
            Peer::Ip(SocketAddr::V4(peer)) => {
                address.v4 = libc::sockaddr_in {
                    sin_family: family_of(libc::AF_INET),
                    sin_port: peer.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*peer.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                (libc::AF_INET, libc::IPPROTO_TCP, size_of::<libc::sockaddr_in>())
            }
            Peer::Ip(SocketAddr::V6(peer)) => {
                address.v6 = libc::sockaddr_in6 {
                    sin6_family: family_of(libc::AF_INET6),
                    sin6_port: peer.port().to_be(),
                    sin6_flowinfo: peer.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: peer.ip().octets() },
                    sin6_scope_id: peer.scope_id(),
                };
                (libc::AF_INET6, libc::IPPROTO_TCP, size_of::<libc::sockaddr_in6>())
            }
            Peer::Unix(path) => {
                let unix = unix_address(path);
                address.unix = unix;
                (libc::AF_UNIX, 0, size_of::<libc::sockaddr_un>())
            }
        };
        let len = c_uint::try_from(len).expect("addresses are short");
        Self { family, kind: libc::SOCK_STREAM, protocol, len, address }
    }

    /// The peer that the application has left there; `None` if its family is unknown.
    pub(crate) fn peer(&self) -> Option<Peer> {
        // SAFETY: every address begins with its family.
        let family = unsafe { self.address.v4.sin_family };
        match c_int::from(family) {
            libc::AF_INET => {
                // SAFETY: it is of this family.
                let v4 = unsafe { self.address.v4 };
                let ip = u32::from_be(v4.sin_addr.s_addr).into();
                let peer = SocketAddrV4::new(ip, u16::from_be(v4.sin_port));
                Some(Peer::Ip(peer.into()))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { self.address.v6 };
                let (port, ip) = (u16::from_be(v6.sin6_port), v6.sin6_addr.s6_addr.into());
                let peer = SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id);
                Some(Peer::Ip(peer.into()))
            }
            libc::AF_UNIX => {
                // SAFETY: as above.
                let unix = unsafe { self.address.unix };
                Some(Peer::Unix(unix_path(&unix)))
            }
            _ => None,
        }
    }
}

fn family_of(family: c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(family).expect("families are small numbers")
}

/// The address of a path, or of a name in the abstract namespace behind an `@`.
fn unix_address(path: &Path) -> libc::sockaddr_un {
    // SAFETY: as for other addresses.
    let mut unix = unsafe { std::mem::zeroed::<libc::sockaddr_un>() };
    unix.sun_family = family_of(libc::AF_UNIX);
    for (to, byte) in unix.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
        *to = byte.cast_signed();
    }
    if unix.sun_path[0] == b'@'.cast_signed() {
        unix.sun_path[0] = 0;
    }
    unix
}

fn unix_path(unix: &libc::sockaddr_un) -> PathBuf {
    let mut bytes = unix.sun_path.map(i8::cast_unsigned);
    if bytes[0] == 0 {
        bytes[0] = b'@';
    }
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    PathBuf::from(OsStr::from_bytes(&bytes[..end]))
}

const _: () = assert!(offset_of!(CurlSocketAddress, address) == 16, "as in libcurl's header");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_c_and_back() {
        let peers = ["127.0.0.1:80", "[::1]:8080", "[fe80::1%3]:1"];
        let peers = peers.map(|text| Peer::Ip(text.parse().expect("an address")));
        let paths = ["/tmp/a socket", "@abstract"].map(|path| Peer::Unix(path.into()));
        for peer in peers.into_iter().chain(paths) {
            assert_eq!(CurlSocketAddress::of(&peer).peer(), Some(peer));
        }
    }
}
