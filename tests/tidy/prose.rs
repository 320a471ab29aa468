//! The language of comments and pages: components are not persons, and they do not talk.

use super::lexer::comments_of;
use super::{SourceFile, assert_none, is_rust, tree};

#[test]
fn comments_and_pages_name_components() {
    assert_none(persons(&tree(), PERSONS_MAX, TALK_MAX));
}

/// Complains if the words of a list are more than its limit per 1,000 words.
pub(super) fn persons(files: &[SourceFile], persons_max: f64, talk_max: f64) -> Vec<String> {
    let prose: Vec<_> = files.iter().flat_map(prose_of).collect();
    let total = prose.iter().flat_map(|(_, text)| words_of(text)).count().max(1);
    let rules = [(PERSONS, persons_max), (TALK, talk_max)];
    let complaints = rules.into_iter().filter_map(|(words, max)| {
        let is_listed = |word: &&str| words.iter().any(|w| w.eq_ignore_ascii_case(word));
        let count = |text: &str| words_of(text).filter(is_listed).count();
        let places: Vec<_> = prose.iter().filter(|(_, text)| count(text) > 0).collect();
        let found: usize = places.iter().map(|(_, text)| count(text)).sum();
        #[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
        let rate = 1000.0 * found as f64 / total as f64;
        let lines = places.iter().take(SHOWN_MAX).map(|(place, text)| format!("\n{place}: {text}"));
        (rate > max).then(|| {
            format!(
                "{rate:.2} of 1,000 words in comments and pages are {}, {}, ...; the limit is \
                 {max}. Name the component and use the verbs of CONTRIBUTING.md:{}",
                words[0],
                words[1],
                lines.collect::<String>()
            )
        })
    });
    complaints.collect()
}

/// Comments of code, and pages: FILE:LINE and the text.
fn prose_of(file: &SourceFile) -> Vec<(String, &str)> {
    let lines = file.text.lines().zip(1..).map(|(line, at)| (at, line));
    let found: Vec<(usize, &str)> = if is_rust(file) {
        comments_of(&file.text)
    } else if file.path.ends_with(".md") {
        lines.collect()
    } else if is_script(file) {
        lines.filter_map(|(at, line)| Some((at, script_comment(line)?))).collect()
    } else {
        Vec::new()
    };
    found.into_iter().map(|(at, text)| (format!("{}:{at}", file.path), text)).collect()
}

fn is_script(file: &SourceFile) -> bool {
    let endings = [".py", ".sh", ".toml"];
    endings.iter().any(|ending| file.path.ends_with(ending)) || file.text.starts_with("#!")
}

fn script_comment(line: &str) -> Option<&str> {
    let at = if line.starts_with('#') { 0 } else { line.find(" #")? };
    Some(&line[at..]).filter(|comment| !comment.starts_with("#!"))
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphabetic() && c != '\'' && c != '_')
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Per 1,000 words.
const PERSONS_MAX: f64 = 0.5;
const TALK_MAX: f64 = 2.0;

/// Lines of a complaint.
const SHOWN_MAX: usize = 40;

const PERSONS: &[&str] = &[
    "who",
    "nobody",
    "whom",
    "whose",
    "whoever",
    "whomever",
    "somebody",
    "everybody",
    "anybody",
    "someone",
    "anyone",
    "everyone",
    "he",
    "him",
    "his",
    "himself",
    "she",
    "her",
];

const TALK: &[&str] = &[
    "tell", "ask", "tells", "told", "telling", "asks", "asked", "asking", "say", "says", "said",
    "saying", "hear", "hears", "heard", "hearing", "stand", "stands", "stood", "standing", "lend",
    "lends", "lent", "lending",
];
