//! Splits input into commands: one per line, or several separated by `;`. Words are separated by
//! blanks; a backslash escapes the next character. After a line that ends with `<<`, a payload
//! follows: lines up to an empty one.

/// Received input without complete commands yet.
#[derive(Debug, Default)]
pub(crate) struct CommandReader {
    bytes: Vec<u8>,
    taken: usize, // of `bytes`
}

/// A command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) words: CommandWords,
    /// The lines after `<<`.
    pub(crate) payload: Option<String>,
}

/// The words of a command.
pub(crate) type CommandWords = Vec<String>;

/// A line or payload exceeds its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl CommandReader {
    /// Adds input.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete command. An empty command has no words.
    pub(crate) fn next(&mut self) -> Result<Option<CommandLine>, TooLong> {
        let rest = &self.bytes[self.taken..];
        let Some(len) = end(rest) else {
            return if rest.len() > LINE_SIZE_MAX { Err(TooLong) } else { Ok(None) };
        };
        let words = words(&String::from_utf8_lossy(&rest[..len]));
        let mut asked = CommandLine { words, payload: None };
        let mut taken = len + 1;
        if rest[len] == b'\n' && asked.words.last().is_some_and(|word| word == PAYLOAD) {
            let behind = &rest[taken..];
            let Some(len) = payload(behind) else {
                let is_endless = behind.len() > PAYLOAD_SIZE_MAX;
                return if is_endless { Err(TooLong) } else { Ok(None) };
            };
            asked.words.pop();
            asked.payload = Some(String::from_utf8_lossy(&behind[..len]).into_owned());
            taken += len + 1;
        }
        self.taken += taken;
        Ok(Some(asked))
    }

    /// True if there is an incomplete command.
    pub(crate) fn has_more(&self) -> bool {
        self.taken < self.bytes.len()
    }
}

/// The end of a command: `;` or the end of its line.
fn end(bytes: &[u8]) -> Option<usize> {
    let mut escaped = false;
    bytes.iter().position(|byte| {
        let ends = *byte == b'\n' || (*byte == b';' && !escaped);
        escaped = *byte == b'\\' && !escaped;
        ends
    })
}

/// Length of a payload, up to the empty line after it.
fn payload(bytes: &[u8]) -> Option<usize> {
    if bytes.first() == Some(&b'\n') {
        return Some(0);
    }
    bytes.windows(2).position(|two| two == b"\n\n").map(|at| at + 1)
}

fn words(line: &str) -> CommandWords {
    let mut words = CommandWords::new();
    let (mut word, mut escaped) = (None, false);
    for letter in line.trim_end_matches('\r').chars() {
        match letter {
            _ if escaped => {
                escaped = false;
                word.get_or_insert_with(String::new).push(letter);
            }
            '\\' => escaped = true,
            ' ' | '\t' => words.extend(word.take()),
            letter => word.get_or_insert_with(String::new).push(letter),
        }
    }
    words.extend(word);
    words
}

const PAYLOAD: &str = "<<";
/// Far longer than a certificate with a long chain.
const PAYLOAD_SIZE_MAX: usize = 256 * 1024;
/// HAProxy's default (`tune.bufsize`).
const LINE_SIZE_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn all(chunks: &[&[u8]]) -> Vec<CommandWords> {
        let mut lines = CommandReader::default();
        let mut out = Vec::new();
        for chunk in chunks {
            lines.push(chunk);
            while let Ok(Some(asked)) = lines.next() {
                out.push(asked.words);
                out.extend(asked.payload.map(|payload| vec![payload]));
            }
        }
        out
    }

    const TABLE: &[(&str, &[&[&str]])] = &[
        ("show info\n", &[&["show", "info"]]),
        ("  show   stat  4 -1\t-1 \r\n", &[&["show", "stat", "4", "-1", "-1"]]),
        ("a;b c;\n", &[&["a"], &["b", "c"], &[]]),
        ("a\\;b\n", &[&["a;b"]]),
        ("a\\ b \\\\\n", &[&["a b", "\\"]]),
        ("a\\\\;b\n", &[&["a\\"], &["b"]]),
        ("\n\n", &[&[], &[]]),
        ("no end", &[]),
        ("a b <<\nx;\ny\n\nc\n", &[&["a", "b"], &["x;\ny\n"], &["c"]]),
        ("a <<\n\nb\n", &[&["a"], &[""], &["b"]]),
        ("a <<\nx\n", &[]),
        ("a << b;<<;\n", &[&["a", "<<", "b"], &["<<"], &[]]),
        ("\u{e5}\u{e4}\u{f6}\n", &[&["\u{e5}\u{e4}\u{f6}"]]),
    ];

    #[test]
    fn commands_are_found_however_they_arrive() {
        for (text, commands) in TABLE {
            let expected: Vec<CommandWords> =
                commands.iter().map(|it| it.iter().map(|it| (*it).to_owned()).collect()).collect();
            let bytes = text.as_bytes();
            assert_eq!(all(&[bytes]), expected, "{text:?}");
            for at in 0..bytes.len() {
                assert_eq!(all(&[&bytes[..at], &bytes[at..]]), expected, "{text:?} at {at}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(all(&single), expected, "{text:?} byte by byte");
        }
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let mut lines = CommandReader::default();
        lines.push(&[b'x'; LINE_SIZE_MAX]);
        assert_eq!(lines.next(), Ok(None));
        lines.push(b"xx");
        assert_eq!(lines.next(), Err(TooLong));
    }
}
