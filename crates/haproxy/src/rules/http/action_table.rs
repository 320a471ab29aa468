//! The table of actions.

use super::parse_action::{self, RuleLine};
use super::unsupported_reasons::{
    NO_AGENTS, NO_CACHE, NO_CHANGES, NO_EARLY_DATA, NO_NICE, NO_PRIORITY, NO_RESOLVERS, NO_TABLES,
    NOT_THERE,
};
use super::{AddressPart, AddressSide, HttpAction, RuleSet, TargetPart};
use crate::rules::words::WordError;

/// The row of an action.
#[derive(Debug)]
pub struct ActionRow {
    /// Its name; with a trailing `(`, an argument and `)` follow.
    pub name: &'static str,
    /// The rule sets that allow it.
    pub sets: &'static [RuleSet],
    /// Its description.
    pub about: &'static str,
    pub(super) parse: ArgumentParser,
}

/// How its arguments are parsed.
#[derive(Clone, Copy, Debug)]
pub(super) enum ArgumentParser {
    By(fn(&mut RuleLine<'_, '_>) -> Result<HttpAction, WordError>),
    /// No arguments.
    Plain(fn() -> HttpAction),
    /// Not supported, with the reason.
    Missing(&'static str),
    /// Parsed, with this number of arguments, and ignored, with the reason.
    Nothing(usize, &'static str),
}
use ArgumentParser::{By, Missing, Nothing, Plain};

const REQUEST: &[RuleSet] = &[RuleSet::Request];
const RESPONSE: &[RuleSet] = &[RuleSet::Response];
const BOTH: &[RuleSet] = &[RuleSet::Request, RuleSet::Response];
const RESPONSES: &[RuleSet] = &[RuleSet::Response, RuleSet::AfterResponse];
const ALL: &[RuleSet] = &[RuleSet::Request, RuleSet::Response, RuleSet::AfterResponse];

const fn row(
    name: &'static str,
    sets: &'static [RuleSet],
    parse: ArgumentParser,
    about: &'static str,
) -> ActionRow {
    ActionRow { name, sets, about, parse }
}

/// All actions of `http-request`, `http-response` and `http-after-response`.
pub const ACTIONS: &[ActionRow] = &[
    row("add-header", ALL, By(|it| it.field(HttpAction::AddField)), "adds a header field"),
    row("allow", ALL, Plain(|| HttpAction::Allow), "ends this rule set"),
    row("auth", REQUEST, By(parse_action::auth), "requests authentication"),
    row("capture", ALL, By(parse_action::capture), "captures a value for the log"),
    row("del-header", ALL, By(parse_action::del_header), "removes header fields by name"),
    row(
        "deny",
        BOTH,
        By(parse_action::deny),
        "responds with 403 (request), 502 (response) or a given response",
    ),
    row("disable-l7-retry", REQUEST, Plain(|| HttpAction::NoRetry), "disables retries"),
    row(
        "early-hint",
        REQUEST,
        By(|it| it.field(HttpAction::EarlyHint)),
        "adds a field to a 103 (Early Hints) response",
    ),
    row("normalize-uri", REQUEST, By(parse_action::normalize), "normalizes the target"),
    row("redirect", BOTH, By(|it| it.redirect()), "redirects the client"),
    row("reject", REQUEST, Plain(|| HttpAction::Reject), "closes the connection"),
    row(
        "replace-header",
        ALL,
        By(|it| it.replace_field(false)),
        "replaces field values that match",
    ),
    row(
        "replace-path",
        REQUEST,
        By(|it| it.replace_target(TargetPart::Path)),
        "replaces a path that matches",
    ),
    row(
        "replace-pathq",
        REQUEST,
        By(|it| it.replace_target(TargetPart::PathAndQuery)),
        "replaces a path with query that matches",
    ),
    row(
        "replace-uri",
        REQUEST,
        By(|it| it.replace_target(TargetPart::Whole)),
        "replaces a target that matches",
    ),
    row("replace-value", ALL, By(|it| it.replace_field(true)), "replaces list members that match"),
    row("return", BOTH, By(parse_action::return_), "answers"),
    row(
        "set-dst",
        REQUEST,
        By(|it| it.address(AddressSide::Destination, AddressPart::Address)),
        "sets `dst`",
    ),
    row(
        "set-dst-port",
        REQUEST,
        By(|it| it.address(AddressSide::Destination, AddressPart::Port)),
        "sets `dst_port`",
    ),
    row("set-header", ALL, By(|it| it.field(HttpAction::SetField)), "sets a header field"),
    row("set-log-level", BOTH, By(parse_action::log_level), "sets the log level"),
    row("set-method", REQUEST, By(parse_action::set_method), "sets the method"),
    row("set-path", REQUEST, By(|it| it.set_target(TargetPart::Path)), "sets the path"),
    row(
        "set-pathq",
        REQUEST,
        By(|it| it.set_target(TargetPart::PathAndQuery)),
        "sets the path and query",
    ),
    row("set-query", REQUEST, By(|it| it.set_target(TargetPart::Query)), "sets the query"),
    row(
        "set-src",
        REQUEST,
        By(|it| it.address(AddressSide::Source, AddressPart::Address)),
        "sets `src`",
    ),
    row(
        "set-src-port",
        REQUEST,
        By(|it| it.address(AddressSide::Source, AddressPart::Port)),
        "sets `src_port`",
    ),
    row("set-status", RESPONSES, By(parse_action::set_status), "sets the status"),
    row("set-timeout", REQUEST, By(parse_action::set_timeout), "sets a timeout of this exchange"),
    row("set-uri", REQUEST, By(|it| it.set_target(TargetPart::Whole)), "sets the target"),
    row("set-var(", ALL, By(parse_action::set_var), "sets a variable"),
    row("set-var-fmt(", ALL, By(parse_action::set_var_fmt), "sets a variable from a format"),
    row(
        "silent-drop",
        BOTH,
        Plain(|| HttpAction::SilentDrop),
        "drops the connection without notifying the client",
    ),
    row(
        "strict-mode",
        ALL,
        By(parse_action::strict_mode),
        "sets whether a failed change is an error",
    ),
    row(
        "tarpit",
        REQUEST,
        By(parse_action::tarpit),
        "responds with 500 or a given response after 'timeout tarpit'",
    ),
    row("unset-var(", ALL, By(parse_action::unset_var), "removes a variable"),
    row("use-service", REQUEST, By(parse_action::use_service), "responds by a built-in service"),
    row(
        "wait-for-body",
        REQUEST,
        By(parse_action::wait_for_body),
        "waits for the body or a part of it",
    ),
    row("set-mark", BOTH, By(parse_action::mark), "no effect: packets are not marked"),
    row("set-nice", BOTH, Nothing(1, NO_NICE), "no effect: all exchanges have the same priority"),
    row("set-tos", BOTH, By(parse_action::mark), "no effect: packets are not marked"),
    row(
        "wait-for-handshake",
        REQUEST,
        Nothing(0, NO_EARLY_DATA),
        "no effect: handshakes are always complete",
    ),
    row("set-priority-class", REQUEST, Missing(NO_PRIORITY), NOT_THERE),
    row("set-priority-offset", REQUEST, Missing(NO_PRIORITY), NOT_THERE),
    row("add-acl(", BOTH, Missing(NO_CHANGES), NOT_THERE),
    row("del-acl(", BOTH, Missing(NO_CHANGES), NOT_THERE),
    row("set-map(", BOTH, Missing(NO_CHANGES), NOT_THERE),
    row("del-map(", BOTH, Missing(NO_CHANGES), NOT_THERE),
    row("cache-use", REQUEST, Nothing(1, NO_CACHE), "no effect: caching is not supported"),
    row("cache-store", RESPONSE, Nothing(1, NO_CACHE), "no effect: caching is not supported"),
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
