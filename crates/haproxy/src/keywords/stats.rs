//! `stats`: the statistics page of a proxy, and the runtime sockets.

use crate::compile;
use crate::draft::{Globals, ProxyDraft};
use crate::keyword_table::{BACKEND, BOTH, FRONTEND, HTTP, Keyword, row};
use crate::line::KeywordLine;
use crate::model::{SocketLevel, StatsAdmin, StatsPage, StatsSocket};
use crate::parameters::bind;
use crate::rules::{EvalPoint, WordError};
use crate::values::{TimeUnit, duration, number};

pub(super) const GLOBAL: &[Keyword<Globals>] = &[
    row(
        "stats socket",
        0,
        "<address> [level <level>] [mode <mode>] [user <name>] [group <name>] [expose-fd \
         listeners]",
        "runtime socket",
        socket,
    ),
    row("stats timeout", 0, "<time>", "idle timeout of runtime connections", timeout),
    row(
        "stats maxconn",
        0,
        "<number>",
        "accepted: the number of runtime connections is fixed",
        skip_number,
    ),
];

pub(super) const PROXY: &[Keyword<ProxyDraft>] = &[
    row("stats enable", BOTH | HTTP, "", "enable the statistics page", enable),
    row("stats uri", BOTH | HTTP, "<prefix>", "path of the page", uri),
    row("stats realm", BOTH | HTTP, "<text>", "realm of the page's authentication", realm),
    row("stats auth", BOTH | HTTP, "<user>:<password>", "user and password of the page", auth),
    row(
        "stats admin",
        FRONTEND | BACKEND | HTTP,
        "if | unless <condition>",
        "allow changes on the page",
        admin,
    ),
    row("stats refresh", BOTH | HTTP, "<time>", "refresh interval of the page", refresh),
    row("stats hide-version", BOTH | HTTP, "", "do not show the version", hide),
    row("stats show-legends", BOTH | HTTP, "", "show more details", legends),
    row("stats show-node", BOTH | HTTP, "[<name>]", "show the node name", node),
    row("stats show-desc", BOTH | HTTP, "[<text>]", "show a description", description),
    row("stats scope", BOTH | HTTP, "<proxy> | .", "list only this proxy (repeatable)", scope),
    row("stats show-modules", BOTH | HTTP, "", "accepted: all columns are shown", modules),
];

fn socket(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let address = line.words.clone().expect("an address")?.clone();
    for bind in bind::parse(line)? {
        let address = bind
            .bound
            .first()
            .cloned()
            .ok_or_else(|| WordError::new(address.column, "expected an address"))?;
        globals.model.stats_sockets.push(StatsSocket {
            address,
            level: bind.level.unwrap_or(SocketLevel::Operator),
            permissions: bind.permissions,
            owner: bind.owner,
            exposes_listeners: bind.exposes_listeners,
        });
    }
    Ok(())
}

fn timeout(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("a time")?;
    let time = duration(&word, TimeUnit::Millis)?;
    if time.is_zero() {
        return Err(WordError::new(word.column, "expected a time other than 0"));
    }
    globals.model.stats_timeout = Some(time);
    Ok(())
}

fn skip_number(_globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    number(&line.word("a number")?, 1, u32::MAX).map(drop)
}

/// The page of this proxy. The first line of a section starts a new page without settings of
/// `defaults`.
fn page(draft: &mut ProxyDraft) -> &mut StatsPage {
    if std::mem::take(&mut draft.stats_inherited) {
        draft.stats = None;
    }
    let unsaid = || StatsPage { uri: DEFAULT_URI.to_owned(), ..StatsPage::default() };
    draft.stats.get_or_insert_with(unsaid)
}

fn enable(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    page(draft);
    Ok(())
}

fn uri(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    page(draft).uri = line.word("the beginning of a path")?.text;
    Ok(())
}

fn realm(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    page(draft).realm = Some(line.word("a text")?.text);
    Ok(())
}

fn auth(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("<user>:<password>")?;
    let (user, password) = word.text.split_once(':').unwrap_or((&word.text, ""));
    page(draft).users.push((user.to_owned(), password.to_owned()));
    Ok(())
}

fn admin(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let condition = compile::required_condition(draft, line, EvalPoint::Request)?;
    let admin = &mut page(draft).admin;
    match admin {
        StatsAdmin::If(conditions) => conditions.push(condition),
        StatsAdmin::Never | StatsAdmin::Always => *admin = StatsAdmin::If(vec![condition]),
    }
    Ok(())
}

fn refresh(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let time = duration(&line.word("a time")?, TimeUnit::Seconds)?;
    page(draft).refresh = (!time.is_zero()).then_some(time);
    Ok(())
}

fn hide(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    page(draft).hide_version = true;
    Ok(())
}

fn legends(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    page(draft).show_legends = true;
    Ok(())
}

fn node(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let own = line.globals.model.node.clone();
    let name = line.words.next().map(|word| word.text.clone());
    page(draft).node = name.or(own).or_else(|| Some(String::new()));
    Ok(())
}

fn description(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let words: Vec<&str> = line.words.rest().iter().map(|word| &*word.text).collect();
    let own = line.globals.model.description.clone();
    page(draft).description = match words.is_empty() {
        true => own,
        false => Some(words.join(" ")),
    };
    Ok(())
}

fn scope(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = line.word("the name of a proxy")?.text;
    page(draft).scope.push(name);
    Ok(())
}

fn modules(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    page(draft);
    Ok(())
}

/// Default of `stats uri`.
pub(crate) const DEFAULT_URI: &str = "/haproxy?stats";
