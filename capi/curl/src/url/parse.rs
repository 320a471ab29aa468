//! A whole URL into its parts. The first defect found is the one that is reported.

use crate::code::UrlCode;

use super::encode::{encode_invalid, has_junk};
use super::host::UrlHost;
use super::path::remove_dot_segments;
use super::port::UrlPort;
use super::scheme::{KnownScheme, guess, scheme_of};
use super::{CurlUrl, UrlFlags};

/// Parses an absolute URL, or one without a scheme if the flags allow that.
pub(super) fn parse(url: &[u8], flags: UrlFlags) -> Result<CurlUrl, UrlCode> {
    let scheme = scheme_of(url, flags.guesses());
    let mut parsed = CurlUrl::new();
    if scheme.as_deref() == Some(b"file") {
        parsed.scheme = scheme;
        parsed.host = flags.contains(UrlFlags::NO_AUTHORITY).then(Vec::new);
        parse_path(&mut parsed, file_path(url)?, flags)?;
        return Ok(parsed);
    }
    let rest = behind_scheme(url, scheme.as_deref(), flags)?;
    let len = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let (authority, path) = rest.split_at(len.unwrap_or(rest.len()));
    if authority.is_empty() && !flags.contains(UrlFlags::NO_AUTHORITY) {
        return Err(UrlCode::NoHost);
    }
    parse_path(&mut parsed, path, flags)?;
    parse_authority(&mut parsed, authority, scheme, flags)?;
    Ok(parsed)
}

/// The path of a `file` URL. Its host may be this one only.
fn file_path(url: &[u8]) -> Result<&[u8], UrlCode> {
    if url.len() <= "file:/".len() {
        return Err(UrlCode::BadFileUrl);
    }
    let rest = &url["file:".len()..];
    let path = match rest.strip_prefix(b"//") {
        None => rest,
        Some(path) if path.starts_with(b"/") => path,
        Some(path) => {
            let host = ["localhost/", "127.0.0.1/"].iter().find(|host| {
                path.get(..host.len()).is_some_and(|p| p.eq_ignore_ascii_case(host.as_bytes()))
            });
            &path[host.ok_or(UrlCode::BadFileUrl)?.len() - 1..]
        }
    };
    let without_slash = path.strip_prefix(b"/").unwrap_or(path);
    if has_drive(path) || has_drive(without_slash) {
        return Err(UrlCode::BadFileUrl);
    }
    Ok(path)
}

/// True for a drive of Windows, such as `c:` or `c|/a`.
fn has_drive(path: &[u8]) -> bool {
    let ends = |end: Option<&u8>| end.is_none_or(|byte| matches!(byte, b'/' | b'\\'));
    match path {
        [letter, b':' | b'|', rest @ ..] => letter.is_ascii_alphabetic() && ends(rest.first()),
        _ => false,
    }
}

/// What follows the scheme and its slashes, of which there may be three.
fn behind_scheme<'a>(
    url: &'a [u8],
    scheme: Option<&[u8]>,
    flags: UrlFlags,
) -> Result<&'a [u8], UrlCode> {
    let Some(scheme) = scheme else {
        return if flags.guesses() { Ok(url) } else { Err(UrlCode::BadScheme) };
    };
    if KnownScheme::find(scheme).is_none() && !flags.contains(UrlFlags::NON_SUPPORT_SCHEME) {
        return Err(UrlCode::UnsupportedScheme);
    }
    let rest = &url[scheme.len() + 1..];
    let slashes = rest.iter().take_while(|byte| **byte == b'/').count();
    if !(1..=3).contains(&slashes) {
        return Err(UrlCode::BadSlashes);
    }
    Ok(&rest[slashes..])
}

/// Sets scheme, host, port and user information.
fn parse_authority(
    parsed: &mut CurlUrl,
    authority: &[u8],
    scheme: Option<Vec<u8>>,
    flags: UrlFlags,
) -> Result<(), UrlCode> {
    let has_scheme = scheme.is_some();
    let default = flags.contains(UrlFlags::DEFAULT_SCHEME).then(|| b"https".to_vec());
    parsed.scheme = scheme.or(default);
    if authority.is_empty() {
        parsed.host = Some(Vec::new());
        return Ok(());
    }
    let known = parsed.scheme.as_deref().and_then(KnownScheme::find);
    let host = parse_login(parsed, authority, known, flags)?;
    let (host, port) = UrlPort::behind(host, has_scheme)?;
    parsed.port = port;
    if host.is_empty() {
        return Err(UrlCode::NoHost);
    }
    if has_junk(host, flags) {
        return Err(UrlCode::BadHostname);
    }
    let host = UrlHost::in_url(host)?;
    if parsed.scheme.is_none() {
        parsed.scheme = Some(guess(&host.name).to_vec());
    }
    (parsed.host, parsed.zone_id) = (Some(host.name), host.zone_id);
    Ok(())
}

/// Sets user, password and options, and returns what follows the `@`.
fn parse_login<'a>(
    parsed: &mut CurlUrl,
    authority: &'a [u8],
    known: Option<&KnownScheme>,
    flags: UrlFlags,
) -> Result<&'a [u8], UrlCode> {
    let Some(at) = authority.iter().position(|byte| *byte == b'@') else { return Ok(authority) };
    let (login, host) = (&authority[..at], &authority[at + 1..]);
    let has_options = known.is_some_and(|known| known.has_login_options);
    let login = UrlLogin::split(login, has_options);
    if flags.contains(UrlFlags::DISALLOW_USER) {
        return Err(UrlCode::UserNotAllowed);
    }
    let parts = [
        (login.user, UrlCode::BadUser, &mut parsed.user),
        (login.password, UrlCode::BadPassword, &mut parsed.password),
        (login.options, UrlCode::BadLogin, &mut parsed.options),
    ];
    for (part, error, place) in parts {
        if part.is_some_and(|part| has_junk(part, flags)) {
            return Err(error);
        }
        *place = part.map(<[u8]>::to_vec);
    }
    Ok(host)
}

/// `user:password;options` or `user;options:password`.
struct UrlLogin<'a> {
    user: Option<&'a [u8]>,
    password: Option<&'a [u8]>,
    options: Option<&'a [u8]>,
}

impl<'a> UrlLogin<'a> {
    fn split(login: &'a [u8], has_options: bool) -> Self {
        let find = |wanted: u8| login.iter().position(|byte| *byte == wanted);
        let colon = find(b':');
        let semicolon = find(b';').filter(|_| has_options);
        let end_after = |start: usize, other: Option<usize>| {
            other.filter(|other| *other > start).unwrap_or(login.len())
        };
        let user_end = colon.into_iter().chain(semicolon).min().unwrap_or(login.len());
        let options = semicolon.map(|at| &login[at + 1..end_after(at, colon)]);
        Self {
            user: Some(&login[..user_end]),
            password: colon.map(|at| &login[at + 1..end_after(at, semicolon)]),
            options: options.filter(|options| !options.is_empty()),
        }
    }
}

/// Sets path, query and fragment.
fn parse_path(parsed: &mut CurlUrl, rest: &[u8], flags: UrlFlags) -> Result<(), UrlCode> {
    let encodes = flags.contains(UrlFlags::URLENCODE);
    let (rest, fragment) = split_at_byte(rest, b'#');
    if let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty()) {
        if has_junk(fragment, flags) {
            return Err(UrlCode::BadFragment);
        }
        parsed.fragment = Some(fragment.to_vec()); // never encoded
    }
    let (path, query) = split_at_byte(rest, b'?');
    if let Some(query) = query {
        let query = if encodes { encode_invalid(query, true) } else { query.to_vec() };
        if has_junk(&query, flags) {
            return Err(UrlCode::BadQuery);
        }
        parsed.query = Some(query);
    }
    // A single character counts as no path: it is the slash, except in odd URLs of files.
    if path.len() > 1 || (encodes && !path.is_empty()) {
        let path = if encodes { encode_invalid(path, false) } else { path.to_vec() };
        if has_junk(&path, flags) {
            return Err(UrlCode::BadPath);
        }
        let as_is = flags.contains(UrlFlags::PATH_AS_IS);
        let has_dots = path.first() == Some(&b'.') || memchr::memmem::find(&path, b"/.").is_some();
        parsed.path = Some(if as_is || !has_dots { path } else { remove_dot_segments(&path) });
    }
    Ok(())
}

/// What is before the first `byte`, and what is behind it.
fn split_at_byte(text: &[u8], byte: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|other| *other == byte) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}
