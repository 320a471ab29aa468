//! A client comes back to its server: by a cookie of its own, or by the server's (HAProxy's
//! manual, `cookie`).

use fulmar_haproxy::model::{CookieInsert, CookieMode};

use crate::http::exchange::Exchange;
use crate::live::LiveBackend;

/// What the client's cookie leads to.
///
/// Its letters in the log: `N` none, `I` no server has this value, `D` that server is down, `V` it
/// is there.
pub(super) fn read(
    exchange: &mut Exchange,
    known: &CookieInsert,
    backend: &LiveBackend,
    ignored: bool,
) {
    exchange.cookie_marks.0 = b'N';
    let mut value = None;
    let name = known.name.as_bytes();
    for field in exchange.request.fields.as_headers().get_all("cookie") {
        let pairs = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let own = pairs.filter_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"=")).next();
        value = value.or(own);
    }
    let Some(value) = value.map(<[u8]>::to_vec) else { return };
    let (key, rest) = match known.how {
        CookieMode::Prefix => match value.iter().position(|byte| *byte == b'~') {
            Some(at) => (&value[..at], Some(value[at + 1..].to_vec())),
            None => (&value[..0], Some(value.clone())),
        },
        _ => (value.split(|byte| *byte == b'|').next().unwrap_or_default(), None),
    };
    let server = backend.servers.iter().position(|server| {
        server.config.cookie.as_ref().is_some_and(|cookie| cookie.as_bytes() == key)
    });
    exchange.cookie_marks.0 = match server {
        None => b'I',
        Some(at) if !backend.group.members()[at].is_reachable() => b'D',
        Some(at) => {
            if !ignored && exchange.bound.is_none() {
                exchange.bound = Some(at);
                exchange.came_back = Some(at);
            }
            b'V'
        }
    };
    match (known.how, rest) {
        (CookieMode::Prefix, Some(rest)) => rewrite(exchange, name, Some(&rest)),
        (CookieMode::Insert, _) if known.indirect => rewrite(exchange, name, None),
        _ => {}
    }
}

/// Another value for a cookie of the request, or none: then the server does not see it.
fn rewrite(exchange: &mut Exchange, name: &[u8], value: Option<&[u8]>) {
    let fields = &mut exchange.request.fields;
    let is_own = |pair: &[u8]| pair.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"="));
    let change = |field: &[u8]| {
        let pairs = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let mut text = Vec::with_capacity(field.len());
        for pair in pairs {
            let own = is_own(pair);
            if own && value.is_none() {
                continue;
            }
            if !text.is_empty() {
                text.extend_from_slice(b"; ");
            }
            match value.filter(|_| own) {
                Some(value) => {
                    text.extend_from_slice(name);
                    text.push(b'=');
                    text.extend_from_slice(value);
                }
                None => text.extend_from_slice(pair),
            }
        }
        Some(text)
    };
    if fields.rewrite("cookie", change).is_ok() {
        fields.retain(|name, value| !(name.eq_ignore_ascii_case(b"cookie") && value.is_empty()));
    }
}

/// What the client is told: the response's fields are changed.
///
/// Its letters in the log: `N` nothing was set, `I` we have set it, `P` the server has, `R` and we
/// have put our value in its place or in front of it, `D` and we have taken it out.
pub(super) fn write(exchange: &mut Exchange, known: &CookieInsert, backend: &LiveBackend) {
    let Some(at) = exchange.server else { return };
    let name = known.name.as_bytes();
    let own = |value: &[u8]| value.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"="));
    let fields = exchange.response.fields.as_headers();
    let is_set = fields.get_all("set-cookie").any(own);
    exchange.cookie_marks.1 = if is_set { b'P' } else { b'N' };
    let Some(value) = backend.servers[at].config.cookie.clone() else { return };
    match known.how {
        CookieMode::Passive => {}
        CookieMode::Rewrite | CookieMode::Prefix if is_set => {
            let keeps = known.how == CookieMode::Prefix;
            let fields = &mut exchange.response.fields;
            let changed = fields.rewrite("set-cookie", |old| {
                own(old).then(|| replaced(old, name, value.as_bytes(), keeps))
            });
            if changed.is_ok() {
                exchange.cookie_marks.1 = b'R';
            }
        }
        CookieMode::Rewrite | CookieMode::Prefix => {}
        CookieMode::Insert => insert(exchange, known, &value, at, is_set),
    }
}

/// `name=old; attributes` with another value, or with one in front of it.
fn replaced(old: &[u8], name: &[u8], value: &[u8], keeps: bool) -> Vec<u8> {
    let start = name.len() + 1;
    let end = old.iter().position(|byte| *byte == b';').unwrap_or(old.len());
    let mut text = old[..start].to_vec();
    text.extend_from_slice(value);
    if keeps {
        text.push(b'~');
        text.extend_from_slice(&old[start..end]);
    }
    text.extend_from_slice(&old[end..]);
    text
}

fn insert(exchange: &mut Exchange, known: &CookieInsert, value: &str, at: usize, is_set: bool) {
    if is_set && known.preserve {
        return;
    }
    let is_post = exchange.request.method == b"POST";
    if is_set && known.indirect {
        let own = format!("{}=", known.name);
        let own = own.as_bytes();
        let foreign = |name: &[u8], value: &[u8]| {
            !(name.eq_ignore_ascii_case(b"set-cookie") && value.starts_with(own))
        };
        exchange.response.fields.retain(foreign);
        exchange.cookie_marks.1 = b'D';
    }
    if exchange.came_back == Some(at) || (known.post_only && !is_post) {
        return;
    }
    let mut text = format!("{}={value}; path=/", known.name);
    for domain in &known.domains {
        text.push_str("; domain=");
        text.push_str(domain);
    }
    if known.http_only {
        text.push_str("; HttpOnly");
    }
    if known.secure {
        text.push_str("; Secure");
    }
    for attribute in &known.attributes {
        text.push_str("; ");
        text.push_str(attribute);
    }
    let fields = &mut exchange.response.fields;
    if fields.push("Set-Cookie", text.as_bytes()).is_err() {
        return; // a value that no cookie can have
    }
    if known.no_cache {
        let pushed = fields.push("Cache-Control", b"private");
        debug_assert!(pushed.is_ok());
    }
    exchange.cookie_marks.1 = b'I';
}
