//! Execution of actions.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use fulmar_proto::HeaderBuf;

use super::verdict::{Refused, Verdict};
use super::{
    AddressPart, Assignment, Capture, HttpAction, Side, TimeoutValue, Value, ValueCondition,
    fields, target,
};
use crate::rules::exchange::{Deadline, Effect, Exchange};
use crate::rules::expression::Expression;
use crate::rules::format::Format;
use crate::rules::sample::Sample;

/// Executes an action. `None`: the next rule is evaluated.
pub(super) fn act<'a>(
    action: &'a HttpAction,
    exchange: &mut dyn Exchange,
) -> Result<Option<Verdict<'a>>, Refused> {
    Ok(Some(match action {
        HttpAction::Allow => Verdict::Allow,
        HttpAction::Deny(reply) => Verdict::Deny(reply),
        HttpAction::Tarpit(reply) => Verdict::Tarpit(reply),
        HttpAction::Return(reply) => Verdict::Return(reply),
        HttpAction::Reject => Verdict::Reject,
        HttpAction::SilentDrop => Verdict::SilentDrop,
        HttpAction::Redirect(redirect) => match redirect.head(exchange)? {
            Some(head) => Verdict::Redirect(Box::new(head)),
            None => return Ok(None),
        },
        HttpAction::Auth { realm } => Verdict::Auth(realm.as_ref()),
        HttpAction::Service(service) => Verdict::Service(*service),
        HttpAction::WaitForBody { time, at_least } => {
            Verdict::WaitForBody { time: *time, at_least: *at_least }
        }
        change => {
            self::change(change, exchange)?;
            return Ok(None);
        }
    }))
}

/// Executes an action that does not end the rules.
fn change(action: &HttpAction, exchange: &mut dyn Exchange) -> Result<(), Refused> {
    match action {
        HttpAction::AddField(name, value) => fields::add(name, value, exchange),
        HttpAction::SetField(name, value) => fields::set(name, value, exchange),
        HttpAction::RemoveFields(names) => fields::remove(names, exchange),
        HttpAction::ReplaceField { name, pattern, value, each } => {
            fields::replace(name, pattern, value, *each, exchange)
        }
        HttpAction::SetTarget(part, value) => target::set(*part, value, exchange),
        HttpAction::ReplaceTarget(part, pattern, value) => {
            target::replace(*part, pattern, value, exchange)
        }
        HttpAction::Normalize(normalizer) => target::normalize(*normalizer, exchange),
        HttpAction::SetMethod(value) => target::set_method(value, exchange),
        HttpAction::SetStatus(status) => {
            exchange.response_mut().ok_or(Refused)?.status = *status;
            Ok(())
        }
        HttpAction::SetVariable(assignment) => {
            assign(assignment, exchange);
            Ok(())
        }
        HttpAction::UnsetVariable(variable) => effect(exchange, Effect::UnsetVariable(variable)),
        HttpAction::LogLevel(level) => effect(exchange, Effect::LogLevel(*level)),
        HttpAction::Capture(it) => {
            capture(it, exchange);
            Ok(())
        }
        HttpAction::SetAddress(side, part, value) => {
            set_address(*side, *part, value, exchange);
            Ok(())
        }
        HttpAction::Timeout(which, value) => {
            set_timeout(*which, value, exchange);
            Ok(())
        }
        HttpAction::NoRetry => effect(exchange, Effect::NoRetry),
        HttpAction::EarlyHint(name, value) => early_hint(name, value, exchange),
        _ => Ok(()),
    }
}

fn effect(exchange: &mut dyn Exchange, effect: Effect<'_>) -> Result<(), Refused> {
    exchange.apply(effect);
    Ok(())
}

fn early_hint(name: &str, value: &Format, exchange: &mut dyn Exchange) -> Result<(), Refused> {
    let value = fields::value_of(value, exchange);
    HeaderBuf::new().push(name, &value).map_err(|_| Refused)?;
    effect(exchange, Effect::EarlyHint(name, value))
}

/// Sets a variable if its conditions hold. An expression without a value sets nothing.
pub(crate) fn assign(assignment: &Assignment, exchange: &mut dyn Exchange) {
    let Assignment { variable, value, conditions } = assignment;
    let value = match value {
        Value::Expression(expression) => expression.evaluate(exchange).map(Sample::into_owned),
        Value::Format(format) => {
            let mut text = Vec::new();
            format.render(exchange, &mut text);
            Some(Sample::Text(text.into()))
        }
    };
    let Some(value) = value else { return };
    let old = exchange.variable(variable);
    if conditions.iter().all(|condition| condition.holds(old.as_ref(), &value)) {
        exchange.apply(Effect::SetVariable(variable, value));
    }
}

impl ValueCondition {
    fn holds(self, old: Option<&Sample<'_>>, new: &Sample<'_>) -> bool {
        let is_empty = match new {
            Sample::Text(bytes) | Sample::Binary(bytes) => bytes.is_empty(),
            _ => false,
        };
        match self {
            Self::Exists => old.is_some(),
            Self::NotExists => old.is_none(),
            Self::Empty => is_empty,
            Self::NotEmpty => !is_empty,
            Self::Greater | Self::Less => match (old, new) {
                (Some(Sample::Int(old)), Sample::Int(new)) if self == Self::Greater => old > new,
                (Some(Sample::Int(old)), Sample::Int(new)) => old < new,
                _ => true, // no old value to compare with
            },
        }
    }
}

/// Captures a value for the log.
pub(crate) fn capture(capture: &Capture, exchange: &mut dyn Exchange) {
    let Some(value) = capture.value.evaluate(exchange) else { return };
    let mut value = value.into_text().unwrap_or_default().into_owned();
    if let Some(len) = capture.len {
        value.truncate(len);
    }
    exchange.apply(Effect::Capture(capture.slot, value));
}

/// Changes an address or a port; an invalid value changes nothing.
pub(crate) fn set_address(
    side: Side,
    part: AddressPart,
    value: &Expression,
    exchange: &mut dyn Exchange,
) {
    let old = match side {
        Side::Source => exchange.source(),
        Side::Destination => exchange.destination(),
    };
    let value = value.evaluate(exchange);
    let new = match part {
        AddressPart::Address => {
            let address = value.and_then(Sample::into_address);
            address.map(|address| SocketAddr::new(address, old.map_or(0, |old| old.port())))
        }
        AddressPart::Port => {
            let address = old.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |old| old.ip());
            let port = value.and_then(Sample::into_int).and_then(|port| u16::try_from(port).ok());
            port.map(|port| SocketAddr::new(address, port))
        }
    };
    if let Some(new) = new {
        exchange.apply(match side {
            Side::Source => Effect::Source(new),
            Side::Destination => Effect::Destination(new),
        });
    }
}

fn set_timeout(which: Deadline, value: &TimeoutValue, exchange: &mut dyn Exchange) {
    let time = match value {
        TimeoutValue::Fixed(time) => Some(*time),
        TimeoutValue::Expression(expression) => {
            let ms = expression.evaluate(exchange).and_then(Sample::into_int);
            ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis)
        }
    };
    if let Some(time) = time.filter(|time| !time.is_zero()) {
        exchange.apply(Effect::Timeout(which, time));
    }
}
