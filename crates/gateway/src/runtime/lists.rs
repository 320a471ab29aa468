//! Commands that show and change ACL pattern lists and maps while they are in use.

use std::fmt::Write;
use std::sync::Arc;

use fulmar_haproxy::rules::lists::{EntrySelector, List, ListError, ListVersion, LookedUp, Sort};
use fulmar_haproxy::rules::{Sample, Type};

use super::call::CommandCall;
use super::context::{CommandReply, Pieces};

pub(super) fn show_acl(call: &mut CommandCall<'_>) -> CommandReply {
    show(call, Sort::Acl)
}

pub(super) fn show_map(call: &mut CommandCall<'_>) -> CommandReply {
    show(call, Sort::Map)
}

pub(super) fn get_acl(call: &mut CommandCall<'_>) -> CommandReply {
    get(call, Sort::Acl)
}

pub(super) fn get_map(call: &mut CommandCall<'_>) -> CommandReply {
    get(call, Sort::Map)
}

pub(super) fn del_acl(call: &mut CommandCall<'_>) -> CommandReply {
    del(call, Sort::Acl)
}

pub(super) fn del_map(call: &mut CommandCall<'_>) -> CommandReply {
    del(call, Sort::Map)
}

pub(super) fn clear_acl(call: &mut CommandCall<'_>) -> CommandReply {
    clear(call, Sort::Acl)
}

pub(super) fn clear_map(call: &mut CommandCall<'_>) -> CommandReply {
    clear(call, Sort::Map)
}

pub(super) fn prepare_acl(call: &mut CommandCall<'_>) -> CommandReply {
    prepare(call, Sort::Acl)
}

pub(super) fn prepare_map(call: &mut CommandCall<'_>) -> CommandReply {
    prepare(call, Sort::Map)
}

pub(super) fn commit_acl(call: &mut CommandCall<'_>) -> CommandReply {
    commit(call, Sort::Acl)
}

pub(super) fn commit_map(call: &mut CommandCall<'_>) -> CommandReply {
    commit(call, Sort::Map)
}

type ListResult = Result<String, String>;

fn reply(outcome: ListResult) -> CommandReply {
    CommandReply::Text(outcome.unwrap_or_else(|wrong| wrong))
}

/// `@<version>`, if it is the first word, and the other words.
fn version(words: &[String]) -> Result<(Option<ListVersion>, &[String]), String> {
    match words.split_first() {
        Some((first, rest)) if first.starts_with('@') => match first[1..].parse() {
            Ok(version) => Ok((Some(version), rest)),
            Err(_) => Err(format!("'{first}' is not a version.\n")),
        },
        _ => Ok((None, words)),
    }
}

fn find(call: &CommandCall<'_>, name: &str, sort: Sort) -> Result<Arc<List>, String> {
    let kind = if sort == Sort::Map { "map" } else { "ACL" };
    let found = call.context.live.config.lists.find(name, sort);
    found.ok_or_else(|| format!("Unknown {kind} identifier. Please use #<id> or <file>.\n"))
}

fn show(call: &CommandCall<'_>, sort: Sort) -> CommandReply {
    let found = version(call.rest).and_then(|(version, rest)| match rest.first() {
        None => Ok(None),
        Some(name) => find(call, name, sort).map(|list| Some((version, list))),
    });
    match found {
        Err(wrong) => CommandReply::Text(wrong),
        Ok(None) => show_all(call, sort),
        Ok(Some((version, list))) => show_one(&list, version, sort),
    }
}

fn show_all(call: &CommandCall<'_>, sort: Sort) -> CommandReply {
    let mut out = String::from("# id (file) description\n");
    for list in call.context.live.config.lists.all() {
        let uses = list.uses();
        if !uses.iter().any(|used| used.by_map == (sort == Sort::Map)) {
            continue;
        }
        let (id, (current, latest), len) = (list.id(), list.versions(), list.len());
        let file = list.file().unwrap_or_default();
        write!(out, "{id} ({file}) ").expect(TAKES);
        if list.file().is_some() {
            write!(out, "pattern loaded from file '{file}'").expect(TAKES);
        }
        for (nth, used) in uses.iter().enumerate() {
            let (place, line) = &used.place;
            match (list.file(), used.by_map) {
                (None, _) => write!(out, "acl '{}' file '{place}' line {line}", used.criterion),
                (Some(_), by_map) => {
                    let comma = if nth > 0 { "," } else { " used" };
                    let kind = if by_map { "map" } else { "acl" };
                    write!(out, "{comma} by {kind} at file '{place}' line {line}")
                }
            }
            .expect(TAKES);
        }
        writeln!(out, ". curr_ver={current} next_ver={latest} entry_cnt={len}").expect(TAKES);
    }
    CommandReply::Text(out)
}

/// Entries, in pieces.
fn show_one(list: &List, version: Option<ListVersion>, sort: Sort) -> CommandReply {
    let mut entries = list.entries(version).into_iter();
    let pieces: Pieces = Box::new(move |_, _, out| {
        for entry in entries.by_ref().take(ROWS) {
            write!(out, "{:#x} {}", entry.number, String::from_utf8_lossy(&entry.key))
                .expect(TAKES);
            if sort == Sort::Map {
                write!(out, " {}", String::from_utf8_lossy(&entry.value)).expect(TAKES);
            }
            out.push('\n');
        }
        entries.len() > 0
    });
    CommandReply::Pieces(pieces)
}

fn get(call: &CommandCall<'_>, sort: Sort) -> CommandReply {
    reply((|| {
        let (Some(name), Some(value)) = (call.word(0), call.word(1)) else {
            let kind = if sort == Sort::Map { "map" } else { "ACL" };
            return Err(format!("Missing {kind} identifier and/or key.\n"));
        };
        let looked_up = find(call, name, sort)?.look_up(value.as_bytes());
        Ok(looked_up.iter().map(|it| told(it, sort)).collect())
    })())
}

/// The result of looking a value up in a list.
fn told(it: &LookedUp, sort: Sort) -> String {
    let case = if it.ignores_case { "insensitive" } else { "sensitive" };
    let verb = if sort == Sort::Map { "found" } else { "match" };
    let mut out = format!("type={}, case={case}, {verb}=", it.method);
    let Some(entry) = &it.found else { return out + "no\n" };
    let index = if it.is_indexed { "tree" } else { "list" };
    let name = if sort == Sort::Map { "key" } else { "pattern" };
    let key = String::from_utf8_lossy(&entry.key);
    write!(out, "yes, idx={index}, {name}=\"{key}\"").expect(TAKES);
    if sort == Sort::Map {
        let kind = match it.to {
            Some(Type::Int) => "sint",
            Some(Type::Address) => address_type(&entry.value),
            _ => "str",
        };
        let value = String::from_utf8_lossy(&entry.value);
        write!(out, ", value=\"{value}\", type=\"{kind}\"").expect(TAKES);
    }
    out + "\n"
}

fn address_type(value: &[u8]) -> &'static str {
    match Sample::text(value).into_address() {
        Some(address) if address.is_ipv6() => "ipv6",
        _ => "ipv4",
    }
}

pub(super) fn add_acl(call: &mut CommandCall<'_>) -> CommandReply {
    reply(version(call.rest).and_then(|(version, rest)| match rest {
        [name, key, ..] => {
            let list = find(call, name, Sort::Acl)?;
            change(list.add(version, &[(key.as_bytes(), b"")]))
        }
        _ => Err("'add acl' expects two parameters: ACL identifier and pattern.\n".to_owned()),
    }))
}

/// A key and its value, or lines of them.
pub(super) fn add_map(call: &mut CommandCall<'_>) -> CommandReply {
    reply(version(call.rest).and_then(|(version, rest)| {
        match (rest, call.payload) {
            ([name], Some(payload)) => {
                let list = find(call, name, Sort::Map)?;
                let lines = payload.lines().filter(|line| !line.trim().is_empty());
                let pairs: Vec<_> = lines.map(pair).collect();
                let missing = pairs.iter().find(|(_, value)| value.is_empty());
                if let Some((key, _)) = missing {
                    let key = String::from_utf8_lossy(key);
                    return Err(format!("Missing value for key '{key}'.\n"));
                }
                change(list.add(version, &pairs))
            }
            ([name, key, value, ..], None) => {
                let list = find(call, name, Sort::Map)?;
                change(list.add(version, &[(key.as_bytes(), value.as_bytes())]))
            }
            _ => Err("'add map' expects three parameters (map identifier, key and value) or one \
                  parameter (map identifier) and a payload\n"
                .to_owned()),
        }
    }))
}

/// The first word of a line, and the rest.
fn pair(line: &str) -> (&[u8], &[u8]) {
    let line = line.trim();
    let (key, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    (key.as_bytes(), value.trim_start().as_bytes())
}

pub(super) fn set_map(call: &mut CommandCall<'_>) -> CommandReply {
    reply((|| {
        let (Some(name), Some(key), Some(value)) = (call.word(0), call.word(1), call.word(2))
        else {
            return Err(
                "'set map' expects three parameters: map identifier, key and value.\n".to_owned()
            );
        };
        match find(call, name, Sort::Map)?.set(which(key), value.as_bytes()) {
            Err(ListError::Absent) => Err("entry not found.\n".to_owned()),
            outcome => change(outcome),
        }
    })())
}

/// A key or, after `#`, the reference that `show` prints.
fn which(text: &str) -> EntrySelector<'_> {
    let number = text.strip_prefix('#').map(|number| number.trim_start_matches("0x"));
    match number.map(|number| u64::from_str_radix(number, 16)) {
        Some(Ok(number)) => EntrySelector::Number(number),
        _ => EntrySelector::Key(text.as_bytes()),
    }
}

fn del(call: &CommandCall<'_>, sort: Sort) -> CommandReply {
    reply((|| {
        let (Some(name), Some(key)) = (call.word(0), call.word(1)) else {
            let kind = if sort == Sort::Map { "map" } else { "ACL" };
            return Err(format!(
                "This command expects two parameters: {kind} identifier and key.\n"
            ));
        };
        change(find(call, name, sort)?.remove(which(key)))
    })())
}

fn clear(call: &CommandCall<'_>, sort: Sort) -> CommandReply {
    reply(
        version(call.rest).and_then(|(version, rest)| {
            change(find(call, named(rest, sort)?, sort)?.clear(version))
        }),
    )
}

fn prepare(call: &CommandCall<'_>, sort: Sort) -> CommandReply {
    reply(named(call.rest, sort).and_then(|name| {
        let version = find(call, name, sort)?.prepare();
        Ok(format!("New version created: {version}\n"))
    }))
}

fn commit(call: &CommandCall<'_>, sort: Sort) -> CommandReply {
    reply(version(call.rest).and_then(|(version, rest)| {
        let version = version.ok_or("Missing version number.\n")?;
        match find(call, named(rest, sort)?, sort)?.commit(version) {
            Err(ListError::NoVersion) => Err("Version number out of range.\n".to_owned()),
            outcome => change(outcome),
        }
    }))
}

fn named(words: &[String], sort: Sort) -> Result<&String, String> {
    let kind = if sort == Sort::Map { "map" } else { "ACL" };
    words.first().ok_or_else(|| format!("Missing {kind} identifier.\n"))
}

/// The reply to a change.
fn change(outcome: Result<(), ListError>) -> ListResult {
    outcome.map(|()| String::new()).map_err(|refused| match refused {
        ListError::Unfit(why) => format!("{why}.\n"),
        ListError::Absent => "Key not found.\n".to_owned(),
        ListError::NoVersion => {
            "Version number in the future, please use 'prepare map' before.\n".to_owned()
        }
        ListError::Full => "The list is full.\n".to_owned(),
        _ => "The change was refused.\n".to_owned(),
    })
}

/// Entries per piece.
const ROWS: usize = 256;
const TAKES: &str = "a String takes everything";
