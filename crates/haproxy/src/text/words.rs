//! Splits a line into words: quotes, escapes, comments and variables (HAProxy's configuration
//! manual, §2.2 and §2.3).

use crate::rules::{Word, WordError};

/// Splits a line into words. `variable` returns the value of an environment variable.
///
/// # Errors
/// A quote or brace is not closed, an escape is incomplete, or the line has too many words.
pub(crate) fn split(
    line: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Word>, WordError> {
    let mut splitter = Splitter {
        bytes: line.as_bytes(),
        at: 0,
        words: Vec::new(),
        word: None,
        quote: None,
        variable,
    };
    splitter.run()?;
    Ok(splitter.words)
}

/// Expands `${NAME}` and `$NAME` in an unquoted address, as HAProxy does there. Undefined variables
/// are empty.
///
/// # Errors
/// The name of a variable is invalid.
pub(crate) fn expand(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut left = text;
    while let Some(at) = left.find('$') {
        expanded.push_str(&left[..at]);
        let reference = VariableReference::parse(&left[at..])?;
        expanded.push_str(&reference.value(variable));
        left = &left[at + reference.len..];
    }
    expanded.push_str(left);
    Ok(expanded)
}

struct Splitter<'a> {
    bytes: &'a [u8],
    at: usize,
    words: Vec<Word>,
    /// The current word: its start and its bytes.
    word: Option<(usize, Vec<u8>)>,
    quote: Option<Quote>,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

/// An open quote, and its position.
#[derive(Clone, Copy)]
enum Quote {
    Weak(usize),
    Strong(usize),
}

impl Splitter<'_> {
    fn run(&mut self) -> Result<(), WordError> {
        while let Some(&byte) = self.bytes.get(self.at) {
            match (byte, self.quote) {
                (b'\'', None) => self.open(Quote::Strong(self.at)),
                (b'"', None) => self.open(Quote::Weak(self.at)),
                (b'\'', Some(Quote::Strong(_))) | (b'"', Some(Quote::Weak(_))) => self.close(),
                (_, Some(Quote::Strong(_))) => self.keep(byte),
                (b'\\', _) => self.escape()?,
                (b'$', Some(Quote::Weak(_))) => self.reference()?,
                (b'#', None) => break,
                (b' ' | b'\t' | b'\r', None) => self.end_word()?,
                _ => self.keep(byte),
            }
        }
        match self.quote {
            Some(Quote::Weak(at) | Quote::Strong(at)) => {
                Err(WordError::new(column(at), "unmatched quote"))
            }
            None => self.end_word_at_end(),
        }
    }

    fn open(&mut self, quote: Quote) {
        self.begin();
        self.quote = Some(quote);
        self.at += 1;
    }

    fn close(&mut self) {
        self.quote = None;
        self.at += 1;
    }

    fn begin(&mut self) -> &mut Vec<u8> {
        let at = self.at;
        &mut self.word.get_or_insert_with(|| (at, Vec::new())).1
    }

    fn keep(&mut self, byte: u8) {
        self.begin().push(byte);
        self.at += 1;
    }

    fn end_word(&mut self) -> Result<(), WordError> {
        self.end_word_at_end()?;
        self.at += 1;
        Ok(())
    }

    fn end_word_at_end(&mut self) -> Result<(), WordError> {
        let Some((at, bytes)) = self.word.take() else { return Ok(()) };
        if self.words.len() == WORDS_MAX {
            let message = format!("line too long: the limit is {WORDS_MAX} words");
            return Err(WordError::new(column(at), message));
        }
        let Ok(text) = String::from_utf8(bytes) else {
            return Err(WordError::new(column(at), "the word is not valid UTF-8"));
        };
        self.words.push(Word { text, column: column(at) });
        Ok(())
    }

    fn escape(&mut self) -> Result<(), WordError> {
        let byte = match self.bytes.get(self.at + 1) {
            Some(&byte @ (b' ' | b'\\' | b'#' | b'"' | b'\'' | b'$')) => byte,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'x') => return self.escape_hex(),
            Some(_) | None => {
                self.keep(b'\\');
                return Ok(());
            }
        };
        self.begin().push(byte);
        self.at += 2;
        Ok(())
    }

    fn escape_hex(&mut self) -> Result<(), WordError> {
        let digits = self.bytes.get(self.at + 2..self.at + 4);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .filter(|&byte| byte != 0);
        let Some(byte) = byte else {
            let message = "'\\x' requires two hexadecimal digits, not both 0";
            return Err(WordError::new(column(self.at), message));
        };
        self.begin().push(byte);
        self.at += 4;
        Ok(())
    }

    /// A variable in double quotes. `${LIST[*]}` becomes as many words as its value has.
    fn reference(&mut self) -> Result<(), WordError> {
        let left = String::from_utf8_lossy(&self.bytes[self.at..]);
        let reference = VariableReference::parse(&left)
            .map_err(|message| WordError::new(column(self.at), message))?;
        let value = reference.value(self.variable);
        let at = self.at;
        self.at += reference.len;
        if !reference.is_list {
            self.word.get_or_insert_with(|| (at, Vec::new())).1.extend_from_slice(value.as_bytes());
            return Ok(());
        }
        for (n, part) in value.split_ascii_whitespace().enumerate() {
            if n > 0 {
                self.end_word_at_end()?;
            }
            self.word.get_or_insert_with(|| (at, Vec::new())).1.extend_from_slice(part.as_bytes());
        }
        Ok(())
    }
}

/// `$NAME`, `${NAME}`, `${NAME-default}`, `${NAME[*]}`.
struct VariableReference {
    name: String,
    default: String,
    is_list: bool,
    /// Length in bytes.
    len: usize,
}

impl VariableReference {
    fn parse(text: &str) -> Result<Self, String> {
        let braced = text.as_bytes().get(1) == Some(&b'{');
        let start = if braced { 2 } else { 1 };
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let len = text[start..].find(|c| !is_of_name(c)).unwrap_or(text.len() - start);
        let name = &text[start..start + len];
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err("after '$' stands the name of a variable, or '{' and one; \
                        for the sign itself write '\\$'"
                .to_owned());
        }
        let mut reference = Self {
            name: name.to_owned(),
            default: String::new(),
            is_list: false,
            len: start + len,
        };
        if !braced {
            return Ok(reference);
        }
        let Some(end) = text[reference.len..].find('}') else {
            return Err("unmatched brace after '$'".to_owned());
        };
        let mut rest = &text[reference.len..reference.len + end];
        reference.len += end + 1;
        if let Some(default) = rest.strip_prefix('-') {
            reference.is_list = default.ends_with(LIST);
            reference.default = default.strip_suffix(LIST).unwrap_or(default).to_owned();
            rest = "";
        } else if rest == LIST {
            reference.is_list = true;
            rest = "";
        }
        match rest {
            "" => Ok(reference),
            rest => Err(format!("'{rest}' is not allowed in a variable name")),
        }
    }

    fn value(&self, variable: &dyn Fn(&str) -> Option<String>) -> String {
        variable(&self.name).unwrap_or_else(|| self.default.clone())
    }
}

fn column(at: usize) -> u32 {
    u32::try_from(at).map_or(u32::MAX, |at| at.saturating_add(1))
}

/// HAProxy's limit.
const WORDS_MAX: usize = 64;

/// Splits a value into words of the line.
const LIST: &str = "[*]";

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        let variable = |name: &str| match name {
            "HOME" => Some("/srv".to_owned()),
            "LIST" => Some("a b  c".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let words = split(line, &variable).expect(line);
        words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_as_haproxy_splits_them() {
        for (line, words) in [
            ("", &[][..]),
            ("  # all comment", &[]),
            ("\ta  b\r", &["a", "b"]),
            ("a#b", &["a"]),
            ("a\\#b", &["a#b"]),
            ("a\\", &["a\\"]),
            ("a\\ b\"c $HOME d\"\\x41\\q\\$x$HOME#e", &["a bc /srv dA\\q$x$HOME"]),
            ("\"a\\ b\\q\\$HOME\\#\\t\"", &["a b\\q$HOME#\t"]),
            ("'a\\ $HOME #\"' b", &["a\\ $HOME #\"", "b"]),
            ("\"\" ''", &["", ""]),
            ("\"${HOME}/x\" \"$HOME/y\"", &["/srv/x", "/srv/y"]),
            ("\"${NONE-z}\" \"${EMPTY-z}\" \"${NONE}\"", &["z", "", ""]),
            ("x\"${LIST[*]}\"y", &["xa", "b", "cy"]),
            ("\"${NONE-1 2[*]}\"", &["1", "2"]),
            ("a\\xc3\\xa4", &["aä"]),
        ] {
            assert_eq!(texts(line), words, "{line}");
        }
    }

    #[test]
    fn columns_count_bytes_from_one() {
        let words = split("  bind  \"*:80\" ä b", &|_| None).expect("words");
        assert_eq!(words.iter().map(|word| word.column).collect::<Vec<_>>(), [3, 9, 16, 19]);
    }

    #[test]
    fn incomplete_words_are_reported_with_their_column() {
        for (line, at) in [
            ("a \"b", 3),
            ("a 'b", 3),
            ("a \\x4", 3),
            ("\\x00", 1),
            ("\"$\"", 2),
            ("\"${A\"", 2),
            ("\"${A?}\"", 2),
            ("\"$1\"", 2),
            ("\\xff", 1),
        ] {
            assert_eq!(split(line, &|_| None).expect_err(line).column, at, "{line}");
        }
        assert!(split(&"a ".repeat(WORDS_MAX), &|_| None).is_ok());
        assert!(split(&"a ".repeat(WORDS_MAX + 1), &|_| None).is_err());
    }

    #[test]
    fn addresses_know_variables_outside_of_quotes() {
        let variable = |name: &str| (name == "PORT").then(|| "80".to_owned());
        assert_eq!(expand("*:${PORT}", &variable), Ok("*:80".to_owned()));
        assert_eq!(expand("$NONE:$PORT", &variable), Ok(":80".to_owned()));
        assert!(expand("a$", &variable).is_err());
    }
}
