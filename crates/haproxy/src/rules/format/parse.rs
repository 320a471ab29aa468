//! Parsing of formats.

use super::alias::AliasRow;
use super::date::Zone;
use super::{FormatFlags, FormatOptions, FormatPart, FormatString, Purpose};
use crate::rules::compile_context::CompileContext;
use crate::rules::expression::Expression;
use crate::rules::fetch;
use crate::rules::nearest;
use crate::rules::words::WordError;

impl FormatString {
    /// Parses one word, which begins at `column`.
    ///
    /// # Errors
    /// An unknown variable or flag, or an invalid expression.
    pub fn parse_in(
        text: &str,
        column: u32,
        options: FormatOptions,
        context: &CompileContext<'_>,
    ) -> Result<Self, WordError> {
        let mut reader = FormatReader {
            text,
            at: 0,
            column,
            options,
            parts: Vec::new(),
            flags: FormatFlags::default(),
        };
        while reader.at < text.len() {
            reader.read(context)?;
        }
        let dated = reader
            .parts
            .iter()
            .any(|part| matches!(part, FormatPart::Alias(row, _) if row.is_date()));
        let zone = if dated { Zone::local() } else { Zone::default() };
        Ok(Self { parts: reader.parts, options, zone })
    }

    /// The same without ACLs and files.
    ///
    /// # Errors
    /// As [`FormatString::parse_in`].
    pub fn parse(text: &str, column: u32, options: FormatOptions) -> Result<Self, WordError> {
        let context =
            CompileContext { acls: &Default::default(), files: &crate::rules::lists::NoFiles };
        Self::parse_in(text, column, options, &context)
    }
}

/// The state of parsing.
#[derive(Debug)]
struct FormatReader<'t> {
    text: &'t str,
    at: usize,
    column: u32,
    options: FormatOptions,
    parts: Vec<FormatPart>,
    /// For all following variables (`%o`).
    flags: FormatFlags,
}

impl<'t> FormatReader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn fault(&self, message: impl Into<String>) -> WordError {
        WordError::new(self.here(), message)
    }

    /// The current column.
    fn here(&self) -> u32 {
        self.column.saturating_add(u32::try_from(self.at).unwrap_or(0))
    }

    /// Parses the next part.
    fn read(&mut self, context: &CompileContext<'_>) -> Result<(), WordError> {
        let rest = self.rest();
        match rest.as_bytes() {
            [b'%', b'%', ..] => {
                self.push_text(b"%");
                self.at += 2;
                Ok(())
            }
            [b'%', ..] => self.read_variable(context),
            [b' ' | b'\t', ..] if self.options.merges_blanks() => {
                self.parts.push(FormatPart::Blank);
                self.at += 1;
                Ok(())
            }
            [b'\\', ..] if self.options.purpose == Purpose::Replacement => {
                self.read_escape();
                Ok(())
            }
            _ => {
                let stop = |c| matches!(c, '%' | ' ' | '\t' | '\\');
                let first = rest.chars().next().map_or(1, char::len_utf8);
                let end = rest[first..].find(stop).map_or(rest.len(), |at| first + at);
                self.push_text(&rest.as_bytes()[..end]);
                self.at += end;
                Ok(())
            }
        }
    }

    /// `\1` is a group, `\x41` a byte; any other character is literal.
    fn read_escape(&mut self) {
        let rest = self.rest().as_bytes();
        self.at += match rest {
            [_, digit @ b'0'..=b'9', ..] => {
                self.parts.push(FormatPart::Group(usize::from(digit - b'0')));
                2
            }
            [_, b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digits = &self.text[self.at + 2..self.at + 4];
                let byte = u8::from_str_radix(digits, 16).expect("they are two digits");
                self.push_text(&[byte]);
                4
            }
            [_, ..] => {
                let other = self.rest()[1..].chars().next();
                let mut bytes = [0; 4];
                let text = other.map(|c| &*c.encode_utf8(&mut bytes)).unwrap_or("\\");
                self.push_text(text.as_bytes());
                1 + other.map_or(0, char::len_utf8)
            }
            [] => 0,
        };
    }

    fn push_text(&mut self, text: &[u8]) {
        match self.parts.last_mut() {
            Some(FormatPart::Text(before)) => before.extend_from_slice(text),
            _ => self.parts.push(FormatPart::Text(text.to_vec())),
        }
    }

    /// `%`, flags in braces, and a variable, or an expression in brackets.
    fn read_variable(&mut self, context: &CompileContext<'_>) -> Result<(), WordError> {
        let begin = self.at;
        self.at += 1;
        let flags = self.read_flags()?;
        let rest = self.rest();
        if let Some(inside) = rest.strip_prefix('[') {
            self.at += 1;
            let column = self.here();
            let text = inside.trim_start();
            let (expression, rest) = Expression::begin(text, column, context.files, fetch::find)?;
            let Some(rest) = rest.trim_start().strip_prefix(']') else {
                return Err(self.fault("missing ']' after this expression"));
            };
            self.parts.push(FormatPart::Expression(Box::new(expression), flags));
            self.at = self.text.len() - rest.len();
            return Ok(());
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let name = &rest[..end];
        let Some(row) = AliasRow::find(name) else {
            self.at = begin;
            let known = super::alias::aliases();
            let message = match name {
                "" => "expected a variable or '[' after '%' (use '%%' for a literal '%')".into(),
                name => nearest::unknown("log variable", name, known),
            };
            return Err(self.fault(message));
        };
        if row.http && !self.options.http {
            self.at = begin;
            return Err(self.fault(format!("'%{name}' requires mode http")));
        }
        match row.is_flags() {
            true => self.flags = flags,
            false => self.parts.push(FormatPart::Alias(row, flags)),
        }
        self.at += end;
        Ok(())
    }

    /// `{+Q,-E}`: flags set or cleared in addition to the global ones.
    fn read_flags(&mut self) -> Result<FormatFlags, WordError> {
        let mut flags = self.flags;
        let Some(inside) = self.rest().strip_prefix('{') else { return Ok(flags) };
        let Some(end) = inside.find('}') else {
            return Err(self.fault("missing '}' after these flags"));
        };
        for flag in inside[..end].split(',').filter(|flag| !flag.is_empty()) {
            let (sign, name) = flag.split_at(usize::from(flag.starts_with(['+', '-'])));
            let set = sign != "-";
            match name {
                "Q" => flags.quote = set,
                "X" => flags.hex = set,
                "E" => flags.escape = set,
                _ => {
                    let message = format!("unknown flag '{flag}', expected 'Q', 'X' or 'E'");
                    return Err(self.fault(message));
                }
            }
        }
        self.at += end + 2;
        Ok(flags)
    }
}
