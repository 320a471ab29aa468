//! Logins from a `.netrc` file, in curl's format.
//!
//! Parses text; the caller selects the file and checks its permissions. Words are separated by
//! blanks and line ends. `#` in the place of a keyword begins a comment. A value may be in quotes,
//! with the escapes `\n`, `\r` and `\t`; `\` before any other character is that character. Macros
//! are for FTP, and skipped up to the next empty line.
//!
//! ```
//! use fulmar_semantics::netrc::Netrc;
//! let netrc = Netrc::parse("machine e.org login me password \"a b\"").unwrap();
//! assert_eq!(netrc.lookup("E.org", None).unwrap().password, Some("a b"));
//! assert!(netrc.lookup("e.org", Some("you")).is_none());
//! ```

use std::borrow::Cow;
use std::fmt;

/// The logins of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Netrc {
    entries: Vec<NetrcEntry>,
}

#[derive(Clone, PartialEq, Eq)]
struct NetrcEntry {
    /// `None` is the default entry, for all hosts.
    host: Option<Box<str>>,
    user: Option<Box<str>>,
    password: Option<Box<str>>,
}

/// The login for a host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NetrcLogin<'a> {
    /// `None`: any user.
    pub user: Option<&'a str>,
    /// `None` if the file has none.
    pub password: Option<&'a str>,
}

/// An error in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetrcError {
    /// The line number, from 1.
    pub line: usize,
    /// The error.
    pub error: NetrcFault,
}

/// An error at a word of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetrcFault {
    /// The word is not a keyword.
    Keyword,
    /// The file ends before a value.
    Value,
    /// A quote is not closed on its line.
    Quote,
    /// `login`, `password` or `account` before any `machine`.
    Machine,
}

impl fmt::Display for NetrcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        f.write_str(match self.error {
            NetrcFault::Keyword => {
                "expected machine, default, login, password, account or macdef; \
                 put values with blanks in quotes"
            }
            NetrcFault::Value => "last keyword has no value",
            NetrcFault::Quote => "quote is not closed on its line",
            NetrcFault::Machine => "login without 'machine' or 'default' before it",
        })
    }
}

impl std::error::Error for NetrcError {}

impl Netrc {
    /// Parses a file.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn parse(file: &str) -> Result<Self, NetrcError> {
        let mut words = NetrcWords { rest: file, line: 1 };
        let mut entries: Vec<NetrcEntry> = Vec::new();
        while let Some(keyword) = words.keyword() {
            let line = words.line;
            let entry = entries.last_mut().ok_or(NetrcError { line, error: NetrcFault::Machine });
            match &keyword.to_ascii_lowercase()[..] {
                "machine" => entries.push(NetrcEntry::new(Some(words.value()?))),
                "default" => entries.push(NetrcEntry::new(None)),
                "login" => entry?.user = Some(words.value()?.into()),
                "password" => entry?.password = Some(words.value()?.into()),
                "account" => drop((entry?, words.value()?)),
                "macdef" => {
                    words.value()?;
                    words.skip_macro();
                }
                _ => return Err(NetrcError { line, error: NetrcFault::Keyword }),
            }
        }
        Ok(Self { entries })
    }

    /// The first login for this host, or for all hosts; with `user`, the first login of that user.
    /// The host is without a port.
    pub fn lookup(&self, host: &str, user: Option<&str>) -> Option<NetrcLogin<'_>> {
        let fits = |entry: &&NetrcEntry| {
            let is_host = entry.host.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(host));
            let asked = entry.user.as_deref().zip(user);
            is_host && asked.is_none_or(|(theirs, asked)| theirs == asked)
        };
        self.entries.iter().find(fits).map(|entry| NetrcLogin {
            user: entry.user.as_deref(),
            password: entry.password.as_deref(),
        })
    }
}

impl NetrcEntry {
    fn new(host: Option<Cow<'_, str>>) -> Self {
        Self { host: host.map(Into::into), user: None, password: None }
    }
}

impl fmt::Debug for NetrcEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entry = f.debug_struct("NetrcEntry");
        entry.field("host", &self.host).field("user", &self.user).finish_non_exhaustive()
    }
}

impl fmt::Debug for NetrcLogin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetrcLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The rest of a file.
struct NetrcWords<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> NetrcWords<'a> {
    fn keyword(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        while self.rest.starts_with('#') {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
            self.skip_blanks();
        }
        Some(self.word()).filter(|word| !word.is_empty())
    }

    fn value(&mut self) -> Result<Cow<'a, str>, NetrcError> {
        let line = self.line;
        self.skip_blanks();
        if self.rest.is_empty() {
            return Err(NetrcError { line, error: NetrcFault::Value });
        }
        match self.rest.strip_prefix('"') {
            Some(quoted) => self.quoted(quoted).map(Cow::Owned),
            None => Ok(Cow::Borrowed(self.word())),
        }
    }

    /// The part after the first quote.
    fn quoted(&mut self, text: &'a str) -> Result<String, NetrcError> {
        let mut value = String::new();
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            let escaped = if c == '\\' { chars.next().map(|(_, c)| c) } else { None };
            match (c, escaped) {
                ('"', _) => {
                    self.rest = &text[at + 1..];
                    return Ok(value);
                }
                ('\n', _) | (_, Some('\n')) => break,
                (_, Some('n')) => value.push('\n'),
                (_, Some('r')) => value.push('\r'),
                (_, Some('t')) => value.push('\t'),
                (_, Some(c)) => value.push(c),
                (c, None) => value.push(c),
            }
        }
        Err(NetrcError { line: self.line, error: NetrcFault::Quote })
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find(is_blank).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest.trim_start_matches(is_blank);
        let blanks = &self.rest[..self.rest.len() - rest.len()];
        self.line += blanks.matches('\n').count();
        self.rest = rest;
    }

    /// Skips from the line of the name to an empty line.
    fn skip_macro(&mut self) {
        let mut lines = self.rest.split_inclusive('\n');
        let mut skipped = lines.next().map_or(0, str::len);
        let body = lines.take_while(|line| !line.trim_end_matches(['\r', '\n']).is_empty());
        skipped += body.map(str::len).sum::<usize>();
        let (skipped, rest) = self.rest.split_at(skipped);
        self.line += skipped.matches('\n').count();
        self.rest = rest;
    }
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lookup(file: &str, host: &str, user: Option<&str>) -> Option<(String, String)> {
        let netrc = Netrc::parse(file).unwrap();
        let text = |word: Option<&str>| word.unwrap_or("-").to_owned();
        netrc.lookup(host, user).map(|login| (text(login.user), text(login.password)))
    }

    fn some(user: &str, password: &str) -> Option<(String, String)> {
        Some((user.into(), password.into()))
    }

    const FILE: &str = "# machine a.org login no password no\n\
        machine a.org login one password 1 # machine a.org\n\
        machine\tA.ORG\n  login two\r\n  password #2\n  account x\n\
        macdef init\nmachine b.org login evil\npassword evil\n\n\
        machine b.org password p\n\
        machine \"c d\" login \"u\\\"\\\\\\n\\r\\t\\x\" password \"\"\n\
        machine e.org\n\
        default login anonymous password me@home\n\
        machine f.org login late password late\n";

    #[test]
    fn the_first_matching_login_is_used() {
        assert_eq!(lookup(FILE, "a.org", None), some("one", "1"));
        assert_eq!(lookup(FILE, "A.org", Some("two")), some("two", "#2"));
        assert_eq!(lookup(FILE, "a.org", Some("Two")), None);
        assert_eq!(lookup(FILE, "a.org", Some("anonymous")), some("anonymous", "me@home"));
        assert_eq!(lookup(FILE, "b.org", None), some("-", "p"));
        assert_eq!(lookup(FILE, "b.org", Some("any")), some("-", "p"));
        assert_eq!(lookup(FILE, "c d", None), some("u\"\\\n\r\tx", ""));
        assert_eq!(lookup(FILE, "e.org", None), some("-", "-"));
        assert_eq!(lookup(FILE, "sub.a.org", None), some("anonymous", "me@home"));
        assert_eq!(lookup(FILE, "f.org", None), some("anonymous", "me@home"));
        assert_eq!(lookup(FILE, "f.org", Some("late")), some("late", "late"));
        assert_eq!(lookup("machine a.org login x", "b.org", None), None);
        assert_eq!(lookup("MACHINE b.org Login x", "b.org", None), some("x", "-"));
        assert_eq!(lookup("", "b.org", None), None);
        assert_eq!(lookup("macdef m\nx", "b.org", None), None);
    }

    #[test]
    fn errors_name_their_line() {
        for (file, line, error) in [
            ("login x", 1, NetrcFault::Machine),
            ("\n# x\npassword x", 3, NetrcFault::Machine),
            ("machine a.org\nlogin", 2, NetrcFault::Value),
            ("machine\n\n", 1, NetrcFault::Value),
            ("machine a.org login a b", 1, NetrcFault::Keyword),
            ("\n\nmachine a.org\npassword \"x\"y", 4, NetrcFault::Keyword),
            ("Machine a.org Logins x", 1, NetrcFault::Keyword),
            ("default\nlogin \"x\npassword y\"", 2, NetrcFault::Quote),
            ("default login \"x\\", 1, NetrcFault::Quote),
            ("default login \"x\\\n\"", 1, NetrcFault::Quote),
            ("macdef m\nx\ny\n\ndefault\nlogout", 6, NetrcFault::Keyword),
        ] {
            let result = Netrc::parse(file).map(drop);
            assert_eq!(result, Err(NetrcError { line, error }), "{file}");
        }
    }

    #[test]
    fn debug_output_has_no_passwords() {
        let netrc = Netrc::parse("default login me password secret").unwrap();
        let shown = format!("{netrc:?} {:?}", netrc.lookup("a", None));
        assert!(shown.contains("me") && !shown.contains("secret"), "{shown}");
    }

    proptest! {
        #[test]
        fn random_text_is_parsed_or_an_error(file in "\\PC{0,64}") {
            let _ = Netrc::parse(&file);
        }

        #[test]
        fn random_words_are_parsed_or_an_error(
            file in "((machine|default|login|password|account|macdef|x|#|\"|\\\\)\
                [ \r\n]{0,2}){0,16}",
        ) {
            if let Ok(netrc) = Netrc::parse(&file) {
                netrc.lookup("x", None);
            }
        }

        #[test]
        fn quoted_values_round_trip(password in "[^\n]{0,16}") {
            let quoted = password.replace('\\', "\\\\").replace('"', "\\\"");
            let file = format!("default login u password \"{quoted}\"");
            prop_assert_eq!(lookup(&file, "h", None), some("u", &password));
        }
    }
}
