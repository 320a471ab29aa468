//! Schemes: those that libcurl knows, with their ports, and where one ends in a URL.

/// A scheme of Debian's libcurl, also of protocols that fulmar does not transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownScheme {
    /// In lower case.
    pub name: &'static str,
    /// 0 without a network.
    pub default_port: u16,
    /// User information has options behind a `;`.
    pub has_login_options: bool,
}

impl KnownScheme {
    /// Finds a scheme in any case.
    #[must_use]
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The scheme of an absolute URL, in lower case, without its colon.
///
/// If schemes are guessed, `name:80` is a host and a port: a slash must follow the colon.
pub(crate) fn scheme_of(url: &[u8], guesses: bool) -> Option<Vec<u8>> {
    Some(url[..scheme_len(url, guesses)?].to_ascii_lowercase())
}

/// True if a URL begins with a scheme, under the rule of [`scheme_of`].
pub(crate) fn is_absolute(url: &[u8], guesses: bool) -> bool {
    scheme_len(url, guesses).is_some()
}

fn scheme_len(url: &[u8], guesses: bool) -> Option<usize> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let len = url.iter().take(SCHEME_LEN_MAX).take_while(|byte| is_part(**byte)).count();
    let ends = url.get(len) == Some(&b':') && (!guesses || url.get(len + 1) == Some(&b'/'));
    (len > 0 && ends).then_some(len)
}

/// The scheme that the first label of a host name suggests.
pub(crate) fn guess(host: &[u8]) -> &'static [u8] {
    let label = host.split(|byte| *byte == b'.').next().filter(|label| label.len() < host.len());
    let names = ["ftp", "dict", "ldap", "imap", "smtp", "pop3"].map(str::as_bytes);
    let found = names.into_iter().find(|name| label.is_some_and(|l| l.eq_ignore_ascii_case(name)));
    found.unwrap_or(b"http")
}

const fn known(name: &'static str, default_port: u16) -> KnownScheme {
    KnownScheme { name, default_port, has_login_options: false }
}

const fn mail(name: &'static str, default_port: u16) -> KnownScheme {
    KnownScheme { name, default_port, has_login_options: true }
}

/// The longest scheme.
pub(crate) const SCHEME_LEN_MAX: usize = 40;

const KNOWN: &[KnownScheme] = &[
    known("http", 80),
    known("https", 443),
    known("file", 0),
    known("ftp", 21),
    known("ftps", 990),
    known("dict", 2628),
    known("gopher", 70),
    known("gophers", 70),
    mail("imap", 143),
    mail("imaps", 993),
    known("ldap", 389),
    known("ldaps", 636),
    known("mqtt", 1883),
    mail("pop3", 110),
    mail("pop3s", 995),
    known("rtmp", 1935),
    known("rtmpe", 1935),
    known("rtmps", 443),
    known("rtmpt", 80),
    known("rtmpte", 80),
    known("rtmpts", 443),
    known("rtsp", 554),
    known("scp", 22),
    known("sftp", 22),
    known("smb", 445),
    known("smbs", 445),
    mail("smtp", 25),
    mail("smtps", 465),
    known("telnet", 23),
    known("tftp", 69),
];
