//! Executes one action of a rule.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use fulmar_proto::HeaderBuf;

use super::verdict::{HttpVerdict, InvalidChange};
use super::{
    AddressPart, AddressSide, AssignedValue, Assignment, Capture, HttpAction, TimeoutValue,
    ValueCondition, field_actions, target_actions,
};
use crate::rules::eval_context_mut::{Deadline, Effect, EvalContextMut};
use crate::rules::expression::Expression;
use crate::rules::format::FormatString;
use crate::rules::sample::Sample;

/// Executes an action. `None`: the next rule is evaluated.
pub(super) fn act<'a>(
    action: &'a HttpAction,
    exchange: &mut dyn EvalContextMut,
) -> Result<Option<HttpVerdict<'a>>, InvalidChange> {
    Ok(Some(match action {
        HttpAction::Allow => HttpVerdict::Allow,
        HttpAction::Deny(reply) => HttpVerdict::Deny(reply),
        HttpAction::Tarpit(reply) => HttpVerdict::Tarpit(reply),
        HttpAction::Return(reply) => HttpVerdict::Return(reply),
        HttpAction::Reject => HttpVerdict::Reject,
        HttpAction::SilentDrop => HttpVerdict::SilentDrop,
        HttpAction::Redirect(redirect) => match redirect.head(exchange)? {
            Some(head) => HttpVerdict::Redirect(Box::new(head)),
            None => return Ok(None),
        },
        HttpAction::Auth { realm } => HttpVerdict::Auth(realm.as_ref()),
        HttpAction::Service(service) => HttpVerdict::Service(*service),
        HttpAction::WaitForBody { time, at_least } => {
            HttpVerdict::WaitForBody { time: *time, at_least: *at_least }
        }
        change => {
            self::change(change, exchange)?;
            return Ok(None);
        }
    }))
}

/// Executes an action that does not end the rules.
fn change(action: &HttpAction, exchange: &mut dyn EvalContextMut) -> Result<(), InvalidChange> {
    match action {
        HttpAction::AddField(name, value) => field_actions::add(name, value, exchange),
        HttpAction::SetField(name, value) => field_actions::set(name, value, exchange),
        HttpAction::RemoveFields(names) => field_actions::remove(names, exchange),
        HttpAction::ReplaceField { name, pattern, value, each } => {
            field_actions::replace(name, pattern, value, *each, exchange)
        }
        HttpAction::SetTarget(part, value) => target_actions::set(*part, value, exchange),
        HttpAction::ReplaceTarget(part, pattern, value) => {
            target_actions::replace(*part, pattern, value, exchange)
        }
        HttpAction::Normalize(normalizer) => target_actions::normalize(*normalizer, exchange),
        HttpAction::SetMethod(value) => target_actions::set_method(value, exchange),
        HttpAction::SetStatus(status) => {
            exchange.response_mut().ok_or(InvalidChange)?.status = *status;
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

fn effect(exchange: &mut dyn EvalContextMut, effect: Effect<'_>) -> Result<(), InvalidChange> {
    exchange.apply(effect);
    Ok(())
}

fn early_hint(
    name: &str,
    value: &FormatString,
    exchange: &mut dyn EvalContextMut,
) -> Result<(), InvalidChange> {
    let value = field_actions::value_of(value, exchange);
    HeaderBuf::new().push(name, &value).map_err(|_| InvalidChange)?;
    effect(exchange, Effect::EarlyHint(name, value))
}

/// Sets a variable if its conditions hold. An expression without a value sets nothing.
pub(crate) fn assign(assignment: &Assignment, exchange: &mut dyn EvalContextMut) {
    let Assignment { variable, value, conditions } = assignment;
    let value = match value {
        AssignedValue::Expression(expression) => {
            expression.evaluate(exchange).map(Sample::into_owned)
        }
        AssignedValue::Format(format) => {
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
pub(crate) fn capture(capture: &Capture, exchange: &mut dyn EvalContextMut) {
    let Some(value) = capture.value.evaluate(exchange) else { return };
    let mut value = value.into_text().unwrap_or_default().into_owned();
    if let Some(len) = capture.len {
        value.truncate(len);
    }
    exchange.apply(Effect::Capture(capture.slot, value));
}

/// Changes an address or a port; an invalid value changes nothing.
pub(crate) fn set_address(
    side: AddressSide,
    part: AddressPart,
    value: &Expression,
    exchange: &mut dyn EvalContextMut,
) {
    let old = match side {
        AddressSide::Source => exchange.source(),
        AddressSide::Destination => exchange.destination(),
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
            AddressSide::Source => Effect::Source(new),
            AddressSide::Destination => Effect::Destination(new),
        });
    }
}

fn set_timeout(which: Deadline, value: &TimeoutValue, exchange: &mut dyn EvalContextMut) {
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
