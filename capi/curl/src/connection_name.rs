//! Names of connections: what distinguishes them, besides the server and the client's options.
//!
//! A name is a SHA-256 hash of typed fields. So it means the same whatever the fields contain, and
//! keys of connections hold no passwords.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::auth_state::LoginPair;
use crate::option::OptionId as Id;
use crate::proxy_choice::ProxyServer;
use crate::transfer::EasyTransfer;
use crate::values::OptionValues;

/// The name of the connection of the current request; `None` if there is nothing to distinguish.
///
/// Connections of NTLM have a lane. Those to proxies serve no requests to the proxy's host itself,
/// and have a use and a login, as of libcurl in Debian: the proxy may remember the login. Functions
/// that may refuse a socket have connections of their own: each is called for every socket that
/// serves its transfers.
pub(crate) fn connection_name(transfer: &EasyTransfer, values: &OptionValues) -> Option<Arc<[u8]>> {
    let hooks =
        [(Id::OPENSOCKETFUNCTION, Id::OPENSOCKETDATA), (Id::SOCKOPTFUNCTION, Id::SOCKOPTDATA)];
    let has_hooks = hooks.iter().any(|(function, _)| !values.pointer(*function).is_null());
    let end = values.bytes(Id::INTERFACE);
    if transfer.lane.is_none() && transfer.route.http.is_none() && !has_hooks && end.is_none() {
        return None;
    }
    let mut name = NameHasher::default();
    name.option(end.map(|it| &it[..]));
    match &transfer.lane {
        Some(lane) => name.field(&lane.name),
        None => {
            name.flag(transfer.route.http.is_some());
            name.flag(transfer.route.tunnels);
            name.login(&transfer.proxy_login);
        }
    }
    if has_hooks {
        for (function, data) in hooks {
            for pointer in [values.pointer(function), values.pointer(data)] {
                name.field(&pointer.0.addr().to_ne_bytes());
            }
        }
    }
    Some(name.finish())
}

/// The name of a tunnel: the proxies that it leads through, the login that it was opened with, and
/// its end.
pub(crate) fn tunnel_name(transfer: &EasyTransfer) -> Arc<[u8]> {
    let EasyTransfer { route, proxy_login, target, connect_to, .. } = transfer;
    let mut name = NameHasher::default();
    name.server(route.http.as_ref());
    name.server(route.socks.as_ref());
    name.login(proxy_login);
    name.field(target.origin().as_bytes());
    let end = connect_to.as_deref();
    name.option(end.map(|(host, _)| host.as_bytes()));
    name.field(&end.map_or(0, |(_, port)| *port).to_be_bytes());
    name.finish()
}

/// The name of a connection that was upgraded to HTTP/2, of a server or a Unix socket.
pub(crate) fn upgraded_name(transfer: &EasyTransfer, socket: Option<&Path>) -> Arc<[u8]> {
    let mut name = NameHasher::default();
    name.field(b"h2c");
    name.field(&tunnel_name(transfer));
    name.option(socket.map(|path| path.as_os_str().as_bytes()));
    name.finish()
}

/// The name of logins with peers, as NTLM uses them: origins and pairs in order.
pub(crate) fn logins_name(logins: [(&str, &LoginPair); 2]) -> Arc<[u8]> {
    let mut name = NameHasher::default();
    for (origin, login) in logins {
        name.field(origin.as_bytes());
        name.login(login);
    }
    name.finish()
}

/// Hashes fields, each behind its length.
#[derive(Default)]
struct NameHasher(Sha256);

impl NameHasher {
    fn field(&mut self, bytes: &[u8]) {
        self.0.update(bytes.len().to_be_bytes());
        self.0.update(bytes);
    }

    fn flag(&mut self, is_set: bool) {
        self.0.update([u8::from(is_set)]);
    }

    fn option(&mut self, bytes: Option<&[u8]>) {
        self.flag(bytes.is_some());
        self.field(bytes.unwrap_or_default());
    }

    fn login(&mut self, login: &LoginPair) {
        self.option(login.user.as_deref());
        self.option(login.password.as_deref());
    }

    fn server(&mut self, server: Option<&ProxyServer>) {
        self.flag(server.is_some());
        let Some(ProxyServer { kind, host, port, socket, login }) = server else { return };
        self.0.update([*kind as u8]);
        self.field(host.as_bytes());
        self.field(&port.to_be_bytes());
        self.option(socket.as_deref());
        self.login(login);
    }

    fn finish(self) -> Arc<[u8]> {
        self.0.finalize().as_slice().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(pairs: [Option<&str>; 2]) -> Arc<[u8]> {
        let [user, password] = pairs.map(|text| text.map(|text| text.as_bytes().to_vec()));
        let login = LoginPair { user, password };
        logins_name([("http://x/", &login), ("", &LoginPair::default())])
    }

    #[test]
    fn names_distinguish_where_a_field_ends() {
        let pairs = [
            [None, None],
            [None, Some("")],
            [Some(""), None],
            [Some("a"), Some("bc")],
            [Some("ab"), Some("c")],
            [Some("ab\0c"), None],
        ];
        let names: std::collections::BTreeSet<_> = pairs.into_iter().map(name_of).collect();
        assert_eq!(names.len(), pairs.len());
        assert_eq!(name_of(pairs[3]), name_of(pairs[3]));
    }

    #[test]
    fn passwords_are_in_no_name_and_no_debug_output() {
        let name = name_of([Some("user"), Some("geheim")]);
        assert!(!name.windows(6).any(|part| part == b"geheim"));
        let login = LoginPair { user: Some(b"user".to_vec()), password: Some(b"geheim".to_vec()) };
        let shown = format!("{login:?}");
        assert!(!shown.contains("103") && !shown.contains("geheim"), "{shown}");
    }
}
