//! Cookies of a transfer: those that a request sends, and those that a response sets.

use fulmar_proto::Version;
use fulmar_sys as sys;

use crate::border::CBorder;
use crate::cookies::{CookieOrigin, SET_COOKIE_MAX, SentCookie, is_secure_context};
use crate::custom_fields::CustomFields;
use crate::handles::{Easy, EasyState};
use crate::response_field::ResponseField;
use crate::share_kind::SharedKind;
use crate::stamp::unix_time;

impl Easy {
    /// Selects the cookies of the request that is about to be sent.
    pub(crate) fn select_cookies(&self, custom: &CustomFields, border: &dyn CBorder) {
        let is_active = self.with_state(|state| {
            note_custom_host(state, custom);
            if let Some(transfer) = &mut state.transfer {
                transfer.cookies.clear();
            }
            state.cookies.is_active()
        });
        if !is_active {
            return;
        }
        self.lock(SharedKind::Cookie, border);
        let cookies = self.cookies_of_hop(|engine, origin, now| engine.sent(origin, now));
        let cookies: Vec<SentCookie> = cookies.unwrap_or_default();
        self.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.cookies = cookies;
            }
        });
        self.unlock(SharedKind::Cookie, border);
    }

    /// Stores what a field sets: a cookie, HTTPS for its host, alternative services.
    pub(crate) fn store_field(
        &self,
        field: ResponseField,
        value: &[u8],
        version: Option<Version>,
        border: &dyn CBorder,
    ) {
        match field {
            ResponseField::SetCookie => self.store_cookie(value, border),
            ResponseField::StrictTransportSecurity => self.store_hsts(value, border),
            ResponseField::AltSvc => self.store_alt(value, version),
            _ => {}
        }
    }

    fn store_cookie(&self, value: &[u8], border: &dyn CBorder) {
        let (is_active, count) = self.with_state(|state| {
            let count = state.transfer.as_ref().map_or(0, |it| it.response.cookies_set);
            (state.cookies.is_active(), count)
        });
        if !is_active {
            return;
        }
        self.lock(SharedKind::Cookie, border);
        if count < SET_COOKIE_MAX {
            let message = self.cookies_of_hop(|engine, origin, now| {
                let added = engine.add_header(value, origin, now);
                engine.message(added)
            });
            if let Some(Some(message)) = message {
                self.with_state(|state| {
                    if let Some(transfer) = &mut state.transfer {
                        transfer.response.cookies_set += 1;
                    }
                });
                self.note(&message, border);
            }
        }
        self.unlock(SharedKind::Cookie, border);
    }

    /// Calls `act` with the cookies, and with the URL of the current request.
    fn cookies_of_hop<T>(
        &self,
        act: impl FnOnce(&mut crate::cookies::CookieEngine, CookieOrigin<'_>, i64) -> T,
    ) -> Option<T> {
        let (host, path, is_secure) = self.with_state(|state| {
            let target = &state.transfer.as_ref()?.target;
            let custom = state.cookies.host.as_deref();
            let (host, is_secure) = cookie_host(&target.host, target.is_secure, custom);
            Some((host, target.path.clone(), is_secure))
        })?;
        let origin = CookieOrigin { host: &host, path: &path, is_secure };
        let now = unix_time(sys::wall_clock());
        self.with_cookies(|engine| act(engine, origin, now))
    }
}

/// Keeps the host of a custom `Host` field, if the request has that field. A request without it has
/// the cookies of its own host.
fn note_custom_host(state: &mut EasyState, custom: &CustomFields) {
    if let Some(cookies) = state.cookies.changed() {
        cookies.host = None;
    }
    let Some(transfer) = &state.transfer else { return };
    let Some(line) = custom.find("Host").filter(|_| transfer.has_first_host()) else { return };
    let value = line[b"Host:".len()..].trim_ascii();
    let (value, end) = match value.strip_prefix(b"[") {
        Some(value) => (value, b']'),
        None => (value, b':'),
    };
    let host = value.split(|byte| *byte == end).next().unwrap_or_default();
    if !value.is_empty() {
        state.cookies.host = Some(host.to_vec());
    }
}

/// The host that cookies are for, and whether it gets those with `Secure`: without TLS it is this
/// machine, by the URL and by a custom `Host` field. As in libcurl, the field can deny that; it
/// does not make the connection a local one.
fn cookie_host(host: &str, is_tls: bool, custom: Option<&[u8]>) -> (Vec<u8>, bool) {
    let named = custom.unwrap_or(host.as_bytes());
    let is_secure = [host.as_bytes(), named].iter().all(|host| is_secure_context(is_tls, host));
    (named.to_vec(), is_secure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secure_cookies_are_for_the_host_of_the_url() {
        let of = |host: &str, custom: &str| cookie_host(host, false, Some(custom.as_bytes()));
        assert_eq!(of("example.com", "localhost"), (b"localhost".to_vec(), false));
        assert_eq!(of("localhost", "example.com"), (b"example.com".to_vec(), false));
        assert_eq!(of("127.0.0.1", "localhost"), (b"localhost".to_vec(), true));
        assert_eq!(cookie_host("example.com", true, None), (b"example.com".to_vec(), true));
    }
}
