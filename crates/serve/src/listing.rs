//! A directory as an HTML page: names, sizes, times of change.
//!
//! Names are arbitrary bytes. In links every byte with a meaning is percent-encoded, so a name that
//! is not UTF-8 still leads to its file. Links begin with `./`, so that `a:b` is no scheme. In
//! text, names are escaped for HTML, and unprintable characters are replaced.

use std::ffi::{CStr, CString};
use std::fmt::Write;
use std::io;
use std::os::fd::BorrowedFd;

use fulmar_semantics::clock::iso_time;
use fulmar_semantics::date::format_date;
use fulmar_sys as sys;
use fulmar_sys::FileKind;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingItem {
    /// The name in the file system.
    pub name: Vec<u8>,
    /// The kind of file. The target of a symbolic link is served.
    pub kind: FileKind,
    /// Its length in bytes.
    pub len: u64,
    /// Seconds since 1970.
    pub modified: i64,
}

/// The contents of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items {
    /// Directories first, then by name without case.
    pub items: Vec<ListingItem>,
    /// There are more than [`ITEMS_LEN_MAX`] names; these are some of them.
    pub is_cut: bool,
}

impl Items {
    /// Reads an open directory. Left out are pipes, devices and sockets, symbolic links for which
    /// `is_served` is false, and names that begin with a dot unless `hidden`.
    ///
    /// # Errors
    /// The directory could not be read.
    pub fn read(
        dir: BorrowedFd<'_>,
        hidden: bool,
        is_served: impl Fn(&CStr) -> bool,
    ) -> io::Result<Self> {
        let mut names = Vec::new();
        while names.len() <= ITEMS_LEN_MAX && sys::read_dir(dir, &mut names)? {}
        let is_cut = names.len() > ITEMS_LEN_MAX;
        names.truncate(ITEMS_LEN_MAX);
        names.retain(|name| hidden || !name.to_bytes().starts_with(b"."));
        let items = names.into_iter().filter_map(|name| describe(dir, name, &is_served)).collect();
        Ok(Self::sorted(items, is_cut))
    }

    /// Sorts the items for display.
    pub fn sorted(mut items: Vec<ListingItem>, is_cut: bool) -> Self {
        items.sort_by_cached_key(|item| {
            (item.kind != FileKind::Directory, item.name.to_ascii_lowercase(), item.name.clone())
        });
        Self { items, is_cut }
    }

    /// The HTML page of the directory with this name, which is empty for the root.
    pub fn page(&self, directory: &[u8]) -> String {
        let mut out = String::with_capacity(4096 + self.items.len() * 256);
        let title = text(if directory.is_empty() { b"/" } else { directory });
        out.push_str(HEAD_START);
        push(&mut out, format_args!("<title>{title}</title>\n{HEAD_END}"));
        push_breadcrumbs(&mut out, directory);
        out.push_str(TABLE_START);
        if !directory.is_empty() {
            out.push_str("<tr><td class=\"d\"><a href=\"../\">..</a><td><td>\n");
        }
        for item in &self.items {
            push_item(&mut out, item);
        }
        out.push_str("</table>\n");
        if self.items.is_empty() {
            out.push_str("<p>This directory is empty.\n");
        }
        if self.is_cut {
            let shown = self.items.len();
            push(&mut out, format_args!("<p>There are more names; {shown} are shown.\n"));
        }
        out
    }
}

/// `None` if it was deleted meanwhile, or is not served.
fn describe(
    dir: BorrowedFd<'_>,
    name: CString,
    is_served: impl Fn(&CStr) -> bool,
) -> Option<ListingItem> {
    let info = sys::stat_link(dir, &name).ok().filter(|info| info.kind != FileKind::Other)?;
    if info.kind == FileKind::Link && !is_served(&name) {
        return None;
    }
    let (len, modified) = (info.len, info.modified.0);
    Some(ListingItem { name: name.into_bytes(), kind: info.kind, len, modified })
}

/// Links to every directory from the root to this one.
fn push_breadcrumbs(out: &mut String, directory: &[u8]) {
    out.push_str("<h1><a href=\"/\">/</a>");
    let mut href = String::from("/");
    for segment in directory.split(|b| *b == b'/').filter(|s| !s.is_empty()) {
        push(&mut href, format_args!("{}/", percent_encode(segment, SEGMENT)));
        push(out, format_args!("<a href=\"{href}\">{}</a><wbr>/", text(segment)));
    }
    out.push_str("</h1>\n");
}

fn push_item(out: &mut String, item: &ListingItem) {
    let (class, slash) = match item.kind {
        FileKind::Directory => ("d", "/"),
        FileKind::Link => ("l", ""),
        FileKind::Regular | FileKind::Other => ("f", ""),
    };
    let href = percent_encode(&item.name, SEGMENT);
    let name = text(&item.name);
    push(
        out,
        format_args!("<tr><td class=\"{class}\"><a href=\"./{href}{slash}\">{name}{slash}</a>"),
    );
    match item.kind {
        FileKind::Regular => {
            let (exact, short) = (item.len, size(item.len));
            push(out, format_args!("<td title=\"{exact} bytes\">{short}"));
        }
        _ => out.push_str("<td>"),
    }
    let time = iso_time(&format_date(item.modified));
    let time = str::from_utf8(&time).expect("a time is ASCII");
    push(
        out,
        format_args!("<td><time datetime=\"{time}\">{} {}</time>\n", &time[..10], &time[11..16]),
    );
}

/// A size with three digits and a unit.
fn size(len: u64) -> String {
    if len < 1024 {
        return format!("{len} B");
    }
    let mut unit = 0;
    let mut tenths = u128::from(len) * 10 / 1024;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    if tenths < 100 {
        return format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]);
    }
    format!("{} {}", tenths / 10, UNITS[unit])
}

/// Escapes a name for HTML text and for attributes in double quotes.
fn text(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for char in String::from_utf8_lossy(name).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || is_bidi_control(c) => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

/// Characters that reorder the following text: `exe.txt` could be displayed as `txt.exe`.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Percent-encodes a segment of a path (RFC 3986 §3.3): all but unreserved characters.
pub fn encode_segment(segment: &[u8]) -> impl std::fmt::Display {
    percent_encode(segment, SEGMENT)
}

fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a String takes everything");
}

/// The maximum number of names that are read.
pub const ITEMS_LEN_MAX: usize = 10_000;

const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const HEAD_START: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width\">\
    <meta name=\"color-scheme\" content=\"light dark\">\n";
const HEAD_END: &str = "<style>
:root{--ink:#1c2126;--soft:#6b747d;--line:#e3e6e9;--hover:#f3f5f7;--link:#0b5cad}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7ea;--soft:#929ca6;--line:#30363c;\
--hover:#23282d;--link:#7db8f5}body{background:#181b1f}}
body{font:1rem/1.5 system-ui,sans-serif;color:var(--ink);margin:2rem auto;max-width:60rem;\
padding:0 1rem}
h1{font-size:1.3rem;font-weight:600;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%}
th,td{padding:.3rem .6rem;text-align:left;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:500;font-size:.85rem}
td:first-child{overflow-wrap:anywhere}
td+td,th+th{text-align:right;white-space:nowrap;color:var(--soft);\
font-variant-numeric:tabular-nums}
tr:hover td{background:var(--hover)}
a{color:var(--link);text-decoration:none;unicode-bidi:isolate}a:hover{text-decoration:underline}
.d a{font-weight:600}.l a{font-style:italic}
@media(max-width:36rem){td+td+td,th+th+th{display:none}}
</style>
";
const TABLE_START: &str = "<table>\n<tr><th>Name<th>Size<th>Modified (UTC)\n";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn item(name: &[u8], kind: FileKind) -> ListingItem {
        ListingItem { name: name.to_vec(), kind, len: 1, modified: 784_111_777 }
    }

    fn line(name: &[u8], kind: FileKind) -> String {
        let mut out = String::new();
        push_item(&mut out, &item(name, kind));
        out
    }

    #[test]
    fn a_line_is_a_link_a_size_and_a_time() {
        assert_eq!(
            line(b"a b.txt", FileKind::Regular),
            "<tr><td class=\"f\"><a href=\"./a%20b.txt\">a b.txt</a><td title=\"1 bytes\">1 B\
             <td><time datetime=\"1994-11-06T08:49:37Z\">1994-11-06 08:49</time>\n"
        );
        let dir = line(b"d", FileKind::Directory);
        assert!(dir.contains("<a href=\"./d/\">d/</a><td><td>"), "{dir}");
    }

    #[test]
    fn names_are_escaped_for_links_and_text() {
        for (name, href, text) in [
            (&b"<script>"[..], "./%3Cscript%3E", "&lt;script&gt;"),
            (b"\"&'", "./%22%26%27", "&quot;&amp;&#39;"),
            (b"javascript:x", "./javascript%3Ax", "javascript:x"),
            (b"a?b#c%d", "./a%3Fb%23c%25d", "a?b#c%d"),
            (b"\xff\xfe", "./%FF%FE", "\u{fffd}\u{fffd}"),
            (b"a\r\nb\x1b", "./a%0D%0Ab%1B", "a\u{fffd}\u{fffd}b\u{fffd}"),
            ("\u{202e}txt".as_bytes(), "./%E2%80%AEtxt", "\u{fffd}txt"),
            ("é".as_bytes(), "./%C3%A9", "é"),
            (b"\\", "./%5C", "\\"),
        ] {
            let line = line(name, FileKind::Regular);
            assert!(line.contains(&format!("<a href=\"{href}\">{text}</a>")), "{line}");
        }
    }

    #[test]
    fn directories_come_first_and_case_does_not_count() {
        use FileKind::{Directory, Regular};
        let names = [(&b"b"[..], Regular), (b"A", Regular), (b"a", Regular), (b"z", Directory)];
        let items = names.iter().map(|(name, kind)| item(name, *kind)).collect();
        let sorted = Items::sorted(items, false);
        let names: Vec<_> = sorted.items.iter().map(|item| &item.name[..]).collect();
        assert_eq!(names, [&b"z"[..], b"A", b"a", b"b"]);
    }

    #[test]
    fn pages_link_to_the_parent_and_report_missing_names() {
        let root = Items::default().page(b"");
        assert!(root.contains("<title>/</title>") && !root.contains("../"));
        assert!(root.contains("empty"));
        let page = Items { items: vec![], is_cut: true }.page(b"a&b/c d");
        assert!(page.contains("<a href=\"/a%26b/\">a&amp;b</a>"), "{page}");
        assert!(page.contains("<a href=\"/a%26b/c%20d/\">c d</a>"));
        assert!(page.contains("href=\"../\"") && page.contains("There are more names"));
    }

    #[test]
    fn sizes_are_short() {
        for (len, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 * 1024, "10 KiB"),
            (1024 * 1024 - 1, "1023 KiB"),
            (1024 * 1024, "1.0 MiB"),
            (5 << 40, "5.0 TiB"),
            (u64::MAX, "15 EiB"),
        ] {
            assert_eq!(size(len), text);
        }
    }

    proptest! {
        #[test]
        fn no_name_breaks_the_page(name in proptest::collection::vec(1_u8.., 1..40)) {
            let line = line(&name, FileKind::Regular);
            prop_assert_eq!(line.matches('<').count(), 8);
            prop_assert_eq!(line.matches('"').count(), 8);
            prop_assert!(!line[..line.len() - 1].contains(|c: char| c.is_control()));
        }
    }
}
