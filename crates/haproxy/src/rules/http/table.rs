//! What there is to do, in one table.

use super::parse::{self, Line};
use super::reasons::{
    NO_AGENTS, NO_CACHE, NO_CHANGES, NO_EARLY_DATA, NO_NICE, NO_PRIORITY, NO_RESOLVERS, NO_TABLES,
    NOT_THERE,
};
use super::{AddressPart, HttpAction, Part, RuleSet, Side};
use crate::rules::words::Fault;

/// An action, as it is written.
#[derive(Debug)]
pub struct ActionRow {
    /// Its name; what ends with `(` has an argument that `)` ends.
    pub name: &'static str,
    /// Where it may stand.
    pub sets: &'static [RuleSet],
    /// What it does.
    pub about: &'static str,
    pub(super) parse: Parse,
}

/// How the words behind a name are read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parse {
    By(fn(&mut Line<'_, '_>) -> Result<HttpAction, Fault>),
    /// The same action, whatever follows.
    Plain(fn() -> HttpAction),
    /// It is not there: this is why.
    Missing(&'static str),
    /// It is read, with so many words behind it, and does nothing: this is why.
    Nothing(usize, &'static str),
}
use Parse::{By, Missing, Nothing, Plain};

const REQUEST: &[RuleSet] = &[RuleSet::Request];
const RESPONSE: &[RuleSet] = &[RuleSet::Response];
const BOTH: &[RuleSet] = &[RuleSet::Request, RuleSet::Response];
const RESPONSES: &[RuleSet] = &[RuleSet::Response, RuleSet::AfterResponse];
const ALL: &[RuleSet] = &[RuleSet::Request, RuleSet::Response, RuleSet::AfterResponse];

const fn row(
    name: &'static str,
    sets: &'static [RuleSet],
    parse: Parse,
    about: &'static str,
) -> ActionRow {
    ActionRow { name, sets, about, parse }
}

/// All actions of `http-request`, `http-response` and `http-after-response`.
pub const ACTIONS: &[ActionRow] = &[
    row("add-header", ALL, By(|it| it.field(HttpAction::AddField)), "adds a field"),
    row("allow", ALL, Plain(|| HttpAction::Allow), "looks at no further rule of this section"),
    row("auth", REQUEST, By(parse::auth), "asks the client for a name and a password"),
    row("capture", ALL, By(parse::capture), "keeps a value for the log"),
    row("del-header", ALL, By(parse::del_header), "removes fields by name"),
    row("deny", BOTH, By(parse::deny), "answers 403, 502, or as it says"),
    row("disable-l7-retry", REQUEST, Plain(|| HttpAction::NoRetry), "never sends a request again"),
    row(
        "early-hint",
        REQUEST,
        By(|it| it.field(HttpAction::EarlyHint)),
        "sends a 103 with a field",
    ),
    row("normalize-uri", REQUEST, By(parse::normalize), "puts the target into a normal form"),
    row("redirect", BOTH, By(|it| it.redirect()), "sends the client elsewhere"),
    row("reject", REQUEST, Plain(|| HttpAction::Reject), "closes the connection"),
    row("replace-header", ALL, By(|it| it.replace_field(false)), "changes values that match"),
    row(
        "replace-path",
        REQUEST,
        By(|it| it.replace_target(Part::Path)),
        "changes a path that matches",
    ),
    row(
        "replace-pathq",
        REQUEST,
        By(|it| it.replace_target(Part::PathAndQuery)),
        "changes a path and query that match",
    ),
    row(
        "replace-uri",
        REQUEST,
        By(|it| it.replace_target(Part::Whole)),
        "changes a target that matches",
    ),
    row(
        "replace-value",
        ALL,
        By(|it| it.replace_field(true)),
        "changes members of lists that match",
    ),
    row("return", BOTH, By(parse::return_), "answers"),
    row(
        "set-dst",
        REQUEST,
        By(|it| it.address(Side::Destination, AddressPart::Address)),
        "changes what `dst` is",
    ),
    row(
        "set-dst-port",
        REQUEST,
        By(|it| it.address(Side::Destination, AddressPart::Port)),
        "changes what `dst_port` is",
    ),
    row("set-header", ALL, By(|it| it.field(HttpAction::SetField)), "sets a field"),
    row("set-log-level", BOTH, By(parse::log_level), "changes the level of the log's line"),
    row("set-method", REQUEST, By(parse::set_method), "changes the method"),
    row("set-path", REQUEST, By(|it| it.set_target(Part::Path)), "changes the path"),
    row("set-pathq", REQUEST, By(|it| it.set_target(Part::PathAndQuery)), "changes path and query"),
    row("set-query", REQUEST, By(|it| it.set_target(Part::Query)), "changes the query"),
    row(
        "set-src",
        REQUEST,
        By(|it| it.address(Side::Source, AddressPart::Address)),
        "changes what `src` is",
    ),
    row(
        "set-src-port",
        REQUEST,
        By(|it| it.address(Side::Source, AddressPart::Port)),
        "changes what `src_port` is",
    ),
    row("set-status", RESPONSES, By(parse::set_status), "changes the status"),
    row("set-timeout", REQUEST, By(parse::set_timeout), "changes a timeout of this exchange"),
    row("set-uri", REQUEST, By(|it| it.set_target(Part::Whole)), "changes the target"),
    row("set-var(", ALL, By(parse::set_var), "sets a variable to a value"),
    row("set-var-fmt(", ALL, By(parse::set_var_fmt), "sets a variable to text"),
    row("silent-drop", BOTH, Plain(|| HttpAction::SilentDrop), "forgets the connection"),
    row("strict-mode", ALL, By(parse::strict_mode), "says if a change that fails is an error"),
    row("tarpit", REQUEST, By(parse::tarpit), "answers 500, or as it says, but late"),
    row("unset-var(", ALL, By(parse::unset_var), "removes a variable"),
    row("use-service", REQUEST, By(parse::use_service), "lets a service answer"),
    row("wait-for-body", REQUEST, By(parse::wait_for_body), "waits for the body, or part of it"),
    row("set-mark", BOTH, By(parse::mark), "nothing: packets are not marked"),
    row("set-nice", BOTH, Nothing(1, NO_NICE), "nothing: all exchanges are equal"),
    row("set-tos", BOTH, By(parse::mark), "nothing: packets are not marked"),
    row(
        "wait-for-handshake",
        REQUEST,
        Nothing(0, NO_EARLY_DATA),
        "nothing: it has always happened",
    ),
    row("set-priority-class", REQUEST, Missing(NO_PRIORITY), NOT_THERE),
    row("set-priority-offset", REQUEST, Missing(NO_PRIORITY), NOT_THERE),
    row("add-acl(", BOTH, Missing(NO_CHANGES), NOT_THERE),
    row("del-acl(", BOTH, Missing(NO_CHANGES), NOT_THERE),
    row("set-map(", BOTH, Missing(NO_CHANGES), NOT_THERE),
    row("del-map(", BOTH, Missing(NO_CHANGES), NOT_THERE),
    row("cache-use", REQUEST, Nothing(1, NO_CACHE), "nothing: nothing is cached"),
    row("cache-store", RESPONSE, Nothing(1, NO_CACHE), "nothing: nothing is cached"),
    row("do-resolve(", REQUEST, Missing(NO_RESOLVERS), NOT_THERE),
    row("send-spoe-group", BOTH, Missing(NO_AGENTS), NOT_THERE),
    row("sc-inc-gpc(", BOTH, Missing(NO_TABLES), NOT_THERE),
    row("sc-inc-gpc0(", BOTH, Missing(NO_TABLES), NOT_THERE),
    row("sc-inc-gpc1(", BOTH, Missing(NO_TABLES), NOT_THERE),
    row("sc-set-gpt(", BOTH, Missing(NO_TABLES), NOT_THERE),
    row("sc-set-gpt0(", BOTH, Missing(NO_TABLES), NOT_THERE),
    row("track-sc0", BOTH, Missing(NO_TABLES), NOT_THERE),
    row("track-sc1", BOTH, Missing(NO_TABLES), NOT_THERE),
    row("track-sc2", BOTH, Missing(NO_TABLES), NOT_THERE),
];
