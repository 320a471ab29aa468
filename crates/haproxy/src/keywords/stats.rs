//! `stats`: the page of a proxy, and the runtime sockets of the process.

use crate::compile;
use crate::draft::{Draft, Globals};
use crate::line::Line;
use crate::model::{Admin, Level, StatsPage, StatsSocket};
use crate::parameters::bind;
use crate::rules::{Fault, Point};
use crate::table::{BACKEND, BOTH, FRONTEND, HTTP, Keyword, row};
use crate::values::{Unit, duration, number};

pub(super) const GLOBAL: &[Keyword<Globals>] = &[
    row(
        "stats socket",
        0,
        "<address> [level <level>] [mode <mode>] [user <name>] [group <name>] [expose-fd \
         listeners]",
        "a socket for commands",
        socket,
    ),
    row("stats timeout", 0, "<time>", "how long a session at a socket may be idle", timeout),
    row("stats maxconn", 0, "<number>", "accepted: sessions at sockets are few", skip_number),
];

pub(super) const PROXY: &[Keyword<Draft>] = &[
    row("stats enable", BOTH | HTTP, "", "there is a page", enable),
    row("stats uri", BOTH | HTTP, "<prefix>", "where it is", uri),
    row("stats realm", BOTH | HTTP, "<text>", "what browsers say when they ask", realm),
    row("stats auth", BOTH | HTTP, "<user>:<password>", "who may see it", auth),
    row(
        "stats admin",
        FRONTEND | BACKEND | HTTP,
        "if | unless <condition>",
        "who may change things",
        admin,
    ),
    row("stats refresh", BOTH | HTTP, "<time>", "how often it is loaded again", refresh),
    row("stats hide-version", BOTH | HTTP, "", "it does not say which version this is", hide),
    row("stats show-legends", BOTH | HTTP, "", "it says more about each row", legends),
    row("stats show-node", BOTH | HTTP, "[<name>]", "it names the machine", node),
    row("stats show-desc", BOTH | HTTP, "[<text>]", "it has a description", description),
    row("stats scope", BOTH | HTTP, "<proxy> | .", "it shows this one, and those named so", scope),
    row("stats show-modules", BOTH | HTTP, "", "accepted: it shows everything", modules),
];

fn socket(globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    let address = line.words.clone().expect("an address")?.clone();
    for bind in bind::parse(line)? {
        let address = bind
            .bound
            .first()
            .cloned()
            .ok_or_else(|| Fault::new(address.column, "an address is wanted here"))?;
        globals.model.stats_sockets.push(StatsSocket {
            address,
            level: bind.level.unwrap_or(Level::Operator),
            permissions: bind.permissions,
            owner: bind.owner,
            exposes_listeners: bind.exposes_listeners,
        });
    }
    Ok(())
}

fn timeout(globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    let word = line.word("a time")?;
    let time = duration(&word, "it", Unit::Millis)?;
    if time.is_zero() {
        return Err(Fault::new(word.column, "a time that is not 0 is wanted here"));
    }
    globals.model.stats_timeout = Some(time);
    Ok(())
}

fn skip_number(_globals: &mut Globals, line: &mut Line<'_>) -> Result<(), Fault> {
    number(&line.word("a number")?, "it", 1, u32::MAX).map(drop)
}

/// The page in hand. The first line of a section begins anew: nothing of `defaults` is left.
fn page(draft: &mut Draft) -> &mut StatsPage {
    if std::mem::take(&mut draft.stats_inherited) {
        draft.stats = None;
    }
    let unsaid = || StatsPage { uri: DEFAULT_URI.to_owned(), ..StatsPage::default() };
    draft.stats.get_or_insert_with(unsaid)
}

fn enable(draft: &mut Draft, _line: &mut Line<'_>) -> Result<(), Fault> {
    page(draft);
    Ok(())
}

fn uri(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    page(draft).uri = line.word("the beginning of a path")?.text;
    Ok(())
}

fn realm(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    page(draft).realm = Some(line.word("a text")?.text);
    Ok(())
}

fn auth(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let word = line.word("<user>:<password>")?;
    let (user, password) = word.text.split_once(':').unwrap_or((&word.text, ""));
    page(draft).users.push((user.to_owned(), password.to_owned()));
    Ok(())
}

fn admin(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let condition = compile::required_condition(draft, line, Point::Request)?;
    let admin = &mut page(draft).admin;
    match admin {
        Admin::If(conditions) => conditions.push(condition),
        Admin::Never | Admin::Always => *admin = Admin::If(vec![condition]),
    }
    Ok(())
}

fn refresh(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let time = duration(&line.word("a time")?, "it", Unit::Seconds)?;
    page(draft).refresh = (!time.is_zero()).then_some(time);
    Ok(())
}

fn hide(draft: &mut Draft, _line: &mut Line<'_>) -> Result<(), Fault> {
    page(draft).hide_version = true;
    Ok(())
}

fn legends(draft: &mut Draft, _line: &mut Line<'_>) -> Result<(), Fault> {
    page(draft).show_legends = true;
    Ok(())
}

fn node(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let own = line.globals.model.node.clone();
    let name = line.words.next().map(|word| word.text.clone());
    page(draft).node = name.or(own).or_else(|| Some(String::new()));
    Ok(())
}

fn description(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let words: Vec<&str> = line.words.rest().iter().map(|word| &*word.text).collect();
    let own = line.globals.model.description.clone();
    page(draft).description = match words.is_empty() {
        true => own,
        false => Some(words.join(" ")),
    };
    Ok(())
}

fn scope(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let name = line.word("the name of a proxy")?.text;
    page(draft).scope.push(name);
    Ok(())
}

fn modules(draft: &mut Draft, _line: &mut Line<'_>) -> Result<(), Fault> {
    page(draft);
    Ok(())
}

/// Where the page is, if nothing else is said.
pub(crate) const DEFAULT_URI: &str = "/haproxy?stats";
