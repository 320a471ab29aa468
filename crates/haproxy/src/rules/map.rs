//! Maps: files with a key and a value per line (HAProxy's manual, §7.3.1, `map`), and pattern files
//! (§7.1, `-f`).

use std::sync::Arc;

use crate::rules::lists::ConfigFiles;
use crate::rules::lists::{self, List, Matcher, Use, Used};
use crate::rules::pattern::MatchMethod;
use crate::rules::regex;
use crate::rules::sample::{Sample, Type};

/// Keys, which are patterns, and their values.
#[derive(Clone, Debug)]
pub(crate) struct Map(Arc<Matcher>);

impl Map {
    /// The value of the first matching key, or of the most specific one.
    pub(crate) fn find(&self, value: Sample<'_>) -> Option<Sample<'_>> {
        self.0.find(value)
    }

    /// The same, with the groups of the key's regex inserted into the value.
    pub(crate) fn find_expanded(&self, value: Sample<'_>) -> Option<Vec<u8>> {
        let text = value.into_text()?;
        self.0.find_expanded(&text, |template, groups| {
            let mut out = Vec::with_capacity(template.len());
            regex::expand(template, groups, &mut out);
            out
        })
    }
}

/// Loads a map, or returns the loaded one.
///
/// # Errors
/// The file cannot be read, or a line is invalid.
pub(crate) fn load(
    path: &str,
    method: MatchMethod,
    to: Type,
    files: &dyn ConfigFiles,
) -> Result<Arc<Map>, String> {
    let list = lists::of_file(path, true, files)?;
    let used = Used { by_map: true, criterion: "map".to_owned(), place: files.place() };
    let how = Use { method, ignore_case: false, to: Some(to) };
    Ok(Arc::new(Map(list.matcher(used, how).map_err(|wrong| wrong.of(path))?)))
}

/// Loads a pattern file with one pattern per line, or returns the loaded one. Of a map, the keys
/// are used.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn load_patterns(
    path: &str,
    is_map: bool,
    files: &dyn ConfigFiles,
) -> Result<Arc<List>, String> {
    lists::of_file(path, is_map, files)
}
