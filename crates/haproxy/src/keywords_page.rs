//! The page of all keywords, generated from the tables of the parser.

use std::fmt::Write as _;

use crate::config_reader::SECTIONS_UNSUPPORTED;
use crate::draft::ProxyDraft;
use crate::keyword_table::{self, Keyword, Unsupported};
use crate::keywords;
use crate::parameters::{bind, server};
use crate::rules::http::{ACTIONS, RuleSet};
use crate::rules::tcp::TCP_ACTIONS;

/// The text of `docs/haproxy-keywords.md`.
pub fn keywords_page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n## global\n\n| keyword | what it does |\n|---|---|\n");
    for keyword in sorted(keywords::GLOBAL) {
        line(&mut page, &[&code(keyword), keyword.about]);
    }
    accepted(&mut page, keywords::accepted("global"));
    unsupported(&mut page, keywords::UNSUPPORTED_GLOBAL);

    page.push_str("\n## defaults, frontend, listen, backend\n\n");
    page.push_str(PROXY_NOTE);
    page.push_str("\n| keyword | defaults | frontend | backend | what it does |\n");
    page.push_str("|---|---|---|---|---|\n");
    for keyword in sorted(keywords::PROXY) {
        proxy_line(&mut page, keyword);
    }
    accepted(&mut page, keywords::accepted("defaults"));
    unsupported(&mut page, keywords::UNSUPPORTED_PROXY);

    page.push_str("\n## bind\n\n| parameter | what it does |\n|---|---|\n");
    parameters(&mut page, bind::TABLES, bind::ACCEPTED, bind::UNSUPPORTED);
    page.push_str("\n## server, default-server\n\n| parameter | what it does |\n|---|---|\n");
    parameters(&mut page, server::TABLES, server::ACCEPTED, server::UNSUPPORTED);

    page.push_str("\n## userlist\n\n| keyword | what it does |\n|---|---|\n");
    for keyword in keywords::USERLIST {
        line(&mut page, &[&code(keyword), keyword.about]);
    }
    page.push_str("\n## http-errors\n\n| keyword | what it does |\n|---|---|\n");
    for keyword in keywords::HTTP_ERRORS {
        line(&mut page, &[&code(keyword), keyword.about]);
    }
    page.push_str("\n## Other sections\n\nNot supported:\n\n");
    SECTIONS_UNSUPPORTED.iter().for_each(|(name, why)| item(&mut page, name, why));
    actions(&mut page);
    page
}

fn sorted<T>(tables: &'static [&'static [Keyword<T>]]) -> Vec<&'static Keyword<T>> {
    let mut rows: Vec<_> = tables.iter().flat_map(|table| table.iter()).collect();
    rows.sort_by_key(|row| row.name);
    rows
}

fn code<T>(keyword: &Keyword<T>) -> String {
    let text = format!("{} {}", keyword.name, keyword.follows);
    format!("`{}`", text.trim_end())
}

fn proxy_line(page: &mut String, keyword: &Keyword<ProxyDraft>) {
    let has = |sections| keyword.sections & sections != 0;
    let mark = |is_there| if is_there { "yes" } else { "" };
    let defaults =
        if has(keyword_table::NAMED) { "named" } else { mark(has(keyword_table::DEFAULTS)) };
    let mut about = keyword.about.to_owned();
    if has(keyword_table::NO) {
        about.push_str(" (`no`)");
    }
    let (front, back) = (mark(has(keyword_table::FRONTEND)), mark(has(keyword_table::BACKEND)));
    line(page, &[&code(keyword), defaults, front, back, &about]);
}

fn parameters<T>(
    page: &mut String,
    tables: &[&[Keyword<T>]],
    accepted_names: &[(&'static str, usize)],
    missing: &[(Unsupported, usize)],
) {
    let rows = tables.iter().flat_map(|rows| rows.iter());
    rows.for_each(|row| line(page, &[&code(row), row.about]));
    accepted(page, accepted_names.iter().map(|(name, _)| *name));
    let missing: Vec<Unsupported> = missing.iter().map(|(missing, _)| *missing).collect();
    unsupported(page, &missing);
}

fn accepted(page: &mut String, names: impl Iterator<Item = &'static str>) {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    wrapped(page, &format!("Accepted and ignored: {names}."));
}

fn unsupported(page: &mut String, missing: &[Unsupported]) {
    page.push_str("\nNot supported:\n\n");
    missing.iter().for_each(|(name, why)| item(page, name, why));
}

fn actions(page: &mut String) {
    page.push_str("\n## Actions of http-request, http-response, http-after-response\n\n");
    page.push_str("| action | request | response | after-response | what it does |\n");
    page.push_str("|---|---|---|---|---|\n");
    for action in ACTIONS {
        let mark = |set| if action.sets.contains(&set) { "yes" } else { "" };
        let name = format!("`{}`", action.name);
        let sets = [RuleSet::Request, RuleSet::Response, RuleSet::AfterResponse].map(mark);
        line(page, &[&name, sets[0], sets[1], sets[2], action.about]);
    }
    page.push_str("\n## Actions of tcp-request and tcp-response\n\n");
    page.push_str("| action | where | what it does |\n|---|---|---|\n");
    for action in TCP_ACTIONS {
        let sets: Vec<&str> = action.sets.iter().map(|set| set.name()).collect();
        line(page, &[&format!("`{}`", action.name), &sets.join(", "), action.about]);
    }
}

/// A row of a table.
fn line(page: &mut String, cells: &[&str]) {
    for cell in cells {
        page.push_str("| ");
        page.push_str(&cell.replace('|', "\\|"));
        page.push(' ');
    }
    page.push_str("|\n");
}

fn item(page: &mut String, name: &str, why: &str) {
    writeln!(page, "- `{name}`: {why}").expect("writing to a String cannot fail");
}

/// A paragraph.
fn wrapped(page: &mut String, text: &str) {
    page.push('\n');
    let mut width = 0;
    for word in text.split(' ') {
        let is_full = width > 0 && width + word.len() + 1 > WIDTH;
        if width > 0 {
            page.push(if is_full { '\n' } else { ' ' });
        }
        width = if is_full { word.len() } else { width + word.len() + 1 };
        page.push_str(word);
    }
    page.push('\n');
}

const HEAD: &str = "\
# Keywords of HAProxy that fulmar reads

This page is made from the tables that the reader of configurations works by; a test holds it
against them. To make it again after a change, run the test with `FULMAR_WRITE_PAGES=1`:

    FULMAR_WRITE_PAGES=1 cargo test -p fulmar-haproxy --test it page

[From HAProxy](from-haproxy.md) says how to move over. What is not on this page is an error that
names the file, the line, the column and the nearest keyword; `--lenient` makes it a warning.
";

const PROXY_NOTE: &str = "\
A `listen` section is a frontend and a backend in one: it knows the keywords of both. \"named\" is a
`defaults` section with a name. A keyword with (`no`) can be taken back by `no` or `default` in
front of it.
";

const WIDTH: usize = 100;
