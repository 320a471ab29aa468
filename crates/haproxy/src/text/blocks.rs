//! Conditional blocks: `.if`, `.elif`, `.else`, `.endif` (HAProxy's configuration manual, §2.4).

use super::condition;

/// The open blocks of a file.
#[derive(Debug, Default)]
pub(crate) struct ConditionalBlocks {
    open: Vec<ConditionalBlock>,
}

#[derive(Debug)]
struct ConditionalBlock {
    /// Line number of its `.if`.
    line: u32,
    branch: Branch,
    had_else: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    /// The current branch is used.
    Taken,
    /// No branch was used so far: the next one whose condition holds is.
    Waiting,
    /// A branch was used already, or the enclosing block is skipped.
    Over,
}

impl ConditionalBlocks {
    /// True if the current line is used.
    pub(crate) fn are_read(&self) -> bool {
        self.open.last().is_none_or(|block| block.branch == Branch::Taken)
    }

    /// True if the condition after this word must be evaluated.
    fn is_evaluated(&self, word: &str) -> bool {
        match word {
            ".if" => self.are_read(),
            ".elif" => self.open.last().is_some_and(|block| block.branch == Branch::Waiting),
            _ => false,
        }
    }

    /// Handles a line that starts with one of [`WORDS`]; `condition` is the rest of it.
    ///
    /// # Errors
    /// The word is not allowed here, or the condition is invalid.
    pub(crate) fn turn(
        &mut self,
        word: &str,
        condition: &str,
        line: u32,
        defined: &dyn Fn(&str) -> bool,
    ) -> Result<(), String> {
        let holds = match self.is_evaluated(word) {
            true => Some(condition::holds(condition, defined)),
            false => None,
        };
        match word {
            ".if" if self.open.len() == DEPTH_MAX => {
                return Err(format!(
                    "too many nested conditional blocks: the limit is {DEPTH_MAX}"
                ));
            }
            ".if" => {
                let branch = match holds {
                    Some(Ok(true)) => Branch::Taken,
                    Some(_) => Branch::Waiting,
                    None => Branch::Over,
                };
                self.open.push(ConditionalBlock { line, branch, had_else: false });
            }
            ".endif" => return self.open.pop().map(drop).ok_or_else(|| none_open(word)),
            _ => {
                let block = self.open.last_mut().ok_or_else(|| none_open(word))?;
                if block.had_else {
                    return Err(format!("'{word}' after '.else'"));
                }
                block.had_else = word == ".else";
                block.branch = match (block.branch, &holds) {
                    (Branch::Waiting, Some(Ok(true))) => Branch::Taken,
                    (Branch::Waiting, None) => Branch::Taken,
                    (Branch::Waiting, Some(_)) => Branch::Waiting,
                    (Branch::Taken | Branch::Over, _) => Branch::Over,
                };
            }
        }
        holds.map_or(Ok(()), |holds| holds.map(drop))
    }

    /// Line number of an unclosed `.if`.
    pub(crate) fn left_open(&self) -> Option<u32> {
        self.open.last().map(|block| block.line)
    }
}

fn none_open(word: &str) -> String {
    format!("'{word}' without '.if'")
}

/// The directives of this module.
pub(crate) const WORDS: [&str; 4] = [".if", ".elif", ".else", ".endif"];

/// HAProxy's limit.
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that are used; lines that start with a dot are directives.
    fn read(lines: &str) -> Result<String, String> {
        let mut blocks = ConditionalBlocks::default();
        let mut read = String::new();
        for line in lines.split(';') {
            match line.split_once(' ').unwrap_or((line, "")) {
                (word, rest) if WORDS.contains(&word) => {
                    blocks.turn(word, rest, 1, &|name| name == "A")?;
                }
                _ if blocks.are_read() => read.push_str(line),
                _ => {}
            }
        }
        blocks.left_open().map_or(Ok(read), |_| Err("open".to_owned()))
    }

    #[test]
    fn one_branch_of_a_block_is_read() {
        for (lines, expected) in [
            (".if 1;a;.elif 1;b;.else;c;.endif;d", "ad"),
            (".if 0;a;.elif 1;b;.else;c;.endif;d", "bd"),
            (".if 0;a;.elif 0;b;.else;c;.endif;d", "cd"),
            (".if 0;.if 1;a;.else;b;.endif;.elif foo(;c;.endif", "never"),
            (".if 0;.if foo(;a;.else;b;.endif;.else;c;.endif", "c"),
            (".if defined(A);a;.if defined(B);b;.endif;.endif;c", "ac"),
        ] {
            match expected {
                "never" => assert!(read(lines).is_err(), "{lines}"),
                expected => assert_eq!(read(lines), Ok(expected.to_owned()), "{lines}"),
            }
        }
    }

    #[test]
    fn what_has_no_place_is_an_error() {
        for lines in [
            ".else",
            ".endif",
            ".elif 1",
            ".if 1",
            ".if 1;.else;.else;.endif",
            ".if 1;.else;.elif 1;.endif",
        ] {
            assert!(read(lines).is_err(), "{lines}");
        }
        assert!(read(&".if 1;".repeat(100)).is_err());
    }
}
