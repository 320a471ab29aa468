//! Parses a rule: finds its action in the table, and parses the condition.

use super::action_table::{ACTIONS, ActionRow, ArgumentParser};
use super::parse_action::{RuleLine, condition, split};
use super::{HttpAction, HttpRule, RuleSet};
use crate::rules::compile_context::CompileContext;
use crate::rules::format::FormatString;
use crate::rules::nearest;
use crate::rules::words::{Word, WordCursor, WordError};

impl HttpRule {
    /// Parses the words after `http-request` and so on: an action, its arguments, and a condition.
    ///
    /// # Errors
    /// The action is unknown or unsupported, or an argument or the condition is invalid.
    pub fn parse(
        words: &mut WordCursor<'_>,
        set: RuleSet,
        context: &CompileContext<'_>,
    ) -> Result<Self, WordError> {
        let word = words.expect("an action")?;
        let (row, argument) = find(word, set)?;
        let mut line = RuleLine { words, context, set, name: word, argument };
        let action = match row.parse {
            ArgumentParser::By(parse) => parse(&mut line)?,
            ArgumentParser::Plain(make) => make(),
            ArgumentParser::Missing(why) => {
                return Err(WordError::unknown(word.column, format!("'{}': {why}", word.text)));
            }
            ArgumentParser::Nothing(count, why) => {
                for _ in 0..count {
                    line.words.expect("a value")?;
                }
                HttpAction::Nothing(why)
            }
        };
        Ok(Self { action, condition: condition(words, context)? })
    }

    /// Parses the words after `redirect`, as for `http-request redirect`, except that its location
    /// is not a format: `%` is literal. These rules follow all of `http-request`.
    ///
    /// # Errors
    /// As [`HttpRule::parse`].
    pub fn parse_redirect(
        words: &mut WordCursor<'_>,
        context: &CompileContext<'_>,
    ) -> Result<Self, WordError> {
        let name = Word { text: "redirect".to_owned(), column: words.column() };
        let mut line =
            RuleLine { words, context, set: RuleSet::Request, name: &name, argument: None };
        let mut redirect = line.redirect_to(|line| {
            let word = line.words.expect("an address")?;
            Ok(FormatString::literal(word.text.as_bytes()))
        })?;
        redirect.is_keyword = true;
        let action = HttpAction::Redirect(redirect);
        Ok(Self { action, condition: condition(words, context)? })
    }
}

/// The row of an action, and its argument in parentheses.
fn find(word: &Word, set: RuleSet) -> Result<(&'static ActionRow, Option<&str>), WordError> {
    let (name, argument) = split(&word.text);
    let Some(row) = ACTIONS.iter().find(|row| row.name == name) else {
        let known = ACTIONS.iter().filter(|row| row.sets.contains(&set)).map(|row| row.name);
        return Err(WordError::unknown(word.column, nearest::unknown("action", name, known)));
    };
    if !row.sets.contains(&set) {
        let message = format!("'{}' is not allowed here, only in {}", word.text, places(row));
        return Err(WordError::unknown(word.column, message));
    }
    Ok((row, argument))
}

fn places(row: &ActionRow) -> String {
    let names = row.sets.iter().map(|set| match set {
        RuleSet::Request => "'http-request'",
        RuleSet::Response => "'http-response'",
        RuleSet::AfterResponse => "'http-after-response'",
    });
    names.collect::<Vec<_>>().join(" or ")
}
