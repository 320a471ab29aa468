//! Logins from a `.netrc` file, as libcurl 7.88 finds them.
//!
//! `semantics` has a netrc, too, but checks a whole file, and libcurl stops at the first match.
//! Before it, any word is accepted. With a login of the URL, the last password of the entries of
//! the host counts, unless one has that login. `default` does not end the search.

use crate::text::{file_lines, is_blank};

/// The entry of a file for a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetrcFound {
    /// True if there is an entry for the host, or a default.
    pub has_entry: bool,
    /// The login: that of the URL, or else that of the entry.
    pub login: Option<Vec<u8>>,
    /// The password.
    pub password: Option<Vec<u8>>,
}

/// A quote is not closed on its line. libcurl fails before the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnclosedQuote;

/// Looks up a host. `login` is that of the URL.
///
/// # Errors
/// A quote is not closed, before the search ends.
pub(crate) fn find_netrc(
    file: &[u8],
    host: &[u8],
    login: Option<&[u8]>,
) -> Result<NetrcFound, UnclosedQuote> {
    let wanted = login.filter(|login| !login.is_empty());
    let found = NetrcFound { login: wanted.map(<[u8]>::to_vec), ..NetrcFound::default() };
    let mut search =
        NetrcSearch { host, wanted, found, is_wanted: false, state: NetrcPlace::Outside };
    for line in file_lines(file, LINE_LEN_MAX) {
        if search.state == NetrcPlace::Macro {
            if !matches!(line.first(), Some(b'\n' | b'\r')) {
                continue;
            }
            search.state = NetrcPlace::Outside;
        }
        let mut rest = line;
        while let Some(word) = next_word(&mut rest)? {
            if search.is_complete() {
                return Ok(search.found);
            }
            search.handle(word);
        }
    }
    Ok(search.found)
}

struct NetrcSearch<'a> {
    host: &'a [u8],
    wanted: Option<&'a [u8]>,
    found: NetrcFound,
    /// The entry has the wanted login.
    is_wanted: bool,
    state: NetrcPlace,
}

/// Meaning of the next word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NetrcPlace {
    /// Nothing, unless it begins an entry.
    Outside,
    /// In a macro, up to an empty line.
    Macro,
    /// The host of an entry.
    Host,
    /// A keyword of an entry for this host.
    Entry,
    Login,
    Password,
}

impl NetrcSearch<'_> {
    fn is_complete(&self) -> bool {
        let has_own = || self.found.login.as_ref().is_some_and(|login| !login.is_empty());
        let has_login = if self.wanted.is_some() { self.is_wanted } else { has_own() };
        has_login && self.found.password.is_some()
    }

    fn handle(&mut self, word: Vec<u8>) {
        let is = |keyword: &[u8]| word.eq_ignore_ascii_case(keyword);
        self.state = match self.state {
            NetrcPlace::Outside if is(b"macdef") => NetrcPlace::Macro,
            NetrcPlace::Outside if is(b"machine") => NetrcPlace::Host,
            NetrcPlace::Outside if is(b"default") => self.begin(),
            NetrcPlace::Macro if word.is_empty() => NetrcPlace::Outside,
            NetrcPlace::Host if is(self.host) => self.begin(),
            NetrcPlace::Host => NetrcPlace::Outside,
            NetrcPlace::Login => {
                match self.wanted {
                    Some(wanted) => self.is_wanted = word == wanted,
                    None => self.found.login = Some(word),
                }
                NetrcPlace::Entry
            }
            NetrcPlace::Password => {
                self.found.password = Some(word);
                NetrcPlace::Entry
            }
            NetrcPlace::Entry if is(b"login") => NetrcPlace::Login,
            NetrcPlace::Entry if is(b"password") => NetrcPlace::Password,
            NetrcPlace::Entry if is(b"machine") => {
                self.forget();
                NetrcPlace::Host
            }
            NetrcPlace::Entry if is(b"default") => {
                self.forget();
                self.begin()
            }
            state => state,
        };
    }

    /// Forgets the entry before. Its login stays, but is empty, so that credentials are sent.
    fn forget(&mut self) {
        self.is_wanted = false;
        self.found.password = None;
        if let Some(login) = self.found.login.as_mut().filter(|_| self.wanted.is_none()) {
            login.clear();
        }
    }

    fn begin(&mut self) -> NetrcPlace {
        self.found.has_entry = true;
        NetrcPlace::Entry
    }
}

/// The next word of a line; `None` at its end and before a comment. One byte behind a word is
/// skipped, whatever it is.
fn next_word(rest: &mut &[u8]) -> Result<Option<Vec<u8>>, UnclosedQuote> {
    let start = rest.iter().position(|byte| !is_blank(*byte)).unwrap_or(rest.len());
    let text = &rest[start..];
    let Some(first) = text.first().filter(|byte| !matches!(byte, b'#' | b'\n' | b'\r')) else {
        return Ok(None);
    };
    let (word, len) = if *first == b'"' {
        quoted(text)?
    } else {
        let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        (text[..end].to_vec(), end)
    };
    *rest = text.get(len + 1..).unwrap_or_default();
    Ok(Some(word))
}

/// A word in quotes, and its length with them.
fn quoted(text: &[u8]) -> Result<(Vec<u8>, usize), UnclosedQuote> {
    let mut word = Vec::new();
    let mut bytes = text.iter().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Ok((word, at + 1)),
            b'\\' => word.push(match bytes.next().ok_or(UnclosedQuote)?.1 {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                byte => *byte,
            }),
            byte => word.push(*byte),
        }
    }
    Err(UnclosedQuote)
}

const LINE_LEN_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unescape;

    /// curl 7.88.1 wrote the expectations in `data/netrc.txt` (see its head).
    #[test]
    fn logins_are_those_of_libcurl() {
        let mut found = 0;
        for case in include_str!("data/netrc.txt").split("\ncase\n").skip(1) {
            let mut file = Vec::new();
            for line in case.lines() {
                match line.split_once(' ').unwrap() {
                    ("file", text) => file.extend(unescape(text)),
                    ("find", text) => {
                        let mut words = text.splitn(3, ' ');
                        let mut next = || words.next().unwrap();
                        let (host, login, expected) = (next(), next(), next());
                        assert_eq!(find(&file, host, login), unescape(expected), "{case}{line}");
                        found += 1;
                    }
                    _ => panic!("unknown line {line}"),
                }
            }
        }
        assert!(found > 300, "{found}");
    }

    /// The credentials of the request.
    fn find(file: &[u8], host: &str, login: &str) -> Vec<u8> {
        let login = (login != "-").then_some(login.as_bytes());
        match find_netrc(file, host.as_bytes(), login) {
            Err(UnclosedQuote) => b"error".to_vec(),
            Ok(NetrcFound { login: None, password: None, .. }) => b"none".to_vec(),
            Ok(found) => {
                let [login, password] =
                    [found.login, found.password].map(Option::unwrap_or_default);
                [&login[..], b":", &password].concat()
            }
        }
    }

    #[test]
    fn entries_are_reported_without_login() {
        let has_entry = |host: &str| find_netrc(b"machine a.org", host.as_bytes(), None);
        assert!(has_entry("A.org").unwrap().has_entry);
        assert_eq!(has_entry("b.org").unwrap(), NetrcFound::default());
    }
}
