//! Certificate files: single files, directories and lists (HAProxy's configuration manual, §5.1,
//! `crt` and `crt-list`).

use std::io;
use std::path::{Path, PathBuf};

use crate::line::KeywordLine;
use crate::model::BindCertificate;
use crate::rules::WordError;

/// The certificates at a path: the file, the certificate files of a directory, or one file per key
/// type (`.rsa`, `.ecdsa`). They are used for `names`, or for the names in them if that is empty.
pub(super) fn at(
    path: &Path,
    names: &[String],
    column: u32,
    line: &mut KeywordLine<'_>,
) -> Result<Vec<BindCertificate>, WordError> {
    let files = files(path, line).map_err(|error| {
        WordError::new(column, format!("cannot read '{}': {error}", path.display()))
    })?;
    if files.is_empty() {
        let message = format!("no certificate in '{}'", path.display());
        return Err(WordError::new(column, message));
    }
    for file in &files {
        let stapled = with_end(file, ".ocsp");
        if line.machine.read(&stapled).is_ok() {
            let message = "is ignored: OCSP stapling is not supported";
            line.warn(column, format!("'{}' {message}", stapled.display()));
        }
    }
    let certificate = |file| BindCertificate { file, names: names.to_vec() };
    Ok(files.into_iter().map(certificate).collect())
}

fn files(path: &Path, line: &KeywordLine<'_>) -> io::Result<Vec<PathBuf>> {
    match line.machine.list(path) {
        Ok(None) => line.machine.read(path).map(|_| vec![path.to_owned()]),
        Ok(Some(mut files)) => {
            files.retain(|path| !is_other_file(path));
            files.sort();
            Ok(files)
        }
        Err(error) => {
            let kinds = KINDS.iter().map(|end| with_end(path, end));
            let found: Vec<PathBuf> = kinds.filter(|it| line.machine.read(it).is_ok()).collect();
            if found.is_empty() { Err(error) } else { Ok(found) }
        }
    }
}

fn is_other_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    name.starts_with('.') || OTHER_SUFFIXES.iter().any(|end| name.ends_with(end))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Parses a list file. Each line has a file and optional server names: `site.pem [parameters]
/// www.example *.example !not.example`. Parameters per certificate are not supported.
pub(super) fn list(line: &mut KeywordLine<'_>) -> Result<Vec<BindCertificate>, WordError> {
    let word = line.word("a file that lists certificates")?;
    let list = line.folder().join(&word.text);
    let bytes = line.machine.read(&list).map_err(|error| {
        WordError::new(word.column, format!("cannot read '{}': {error}", word.text))
    })?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut all = Vec::new();
    for (number, entry) in (1..).zip(text.lines()) {
        let Some(CrtListEntry { file, parameters, names }) = CrtListEntry::parse(entry) else {
            continue;
        };
        if !parameters.is_empty() {
            let message = format!(
                "{}:{number}: '[{parameters}]' is not supported: use parameters of the 'bind' line",
                word.text
            );
            line.report_error(WordError::unknown(word.column, message));
        }
        let path = match &line.globals.crt_base {
            Some(base) => base.join(file),
            None => file.into(),
        };
        let path = line.folder().join(path);
        all.extend(at(&path, &names, word.column, line)?);
    }
    Ok(all)
}

/// A line of a list.
struct CrtListEntry<'a> {
    file: &'a str,
    /// The text in brackets.
    parameters: &'a str,
    names: Vec<String>,
}

impl<'a> CrtListEntry<'a> {
    /// `None` for empty lines and comments.
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (file, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if file.is_empty() {
            return None;
        }
        let rest = rest.trim_start();
        let bracketed = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (parameters, names) = bracketed.unwrap_or(("", rest));
        let names = names.split_whitespace().map(str::to_ascii_lowercase).collect();
        Some(Self { file, parameters: parameters.trim(), names })
    }
}

/// Suffixes of files in a directory that are not certificates.
const OTHER_SUFFIXES: [&str; 5] = [".key", ".issuer", ".ocsp", ".sctl", ".dh"];
/// Key types; the client's signature algorithms select the certificate.
const KINDS: [&str; 3] = [".ecdsa", ".rsa", ".dsa"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_file_parameters_and_names() {
        let table = [
            ("a.pem", Some(("a.pem", "", vec![]))),
            ("  a.pem\tB.example  *.c # why", Some(("a.pem", "", vec!["b.example", "*.c"]))),
            ("a.pem [] !b", Some(("a.pem", "", vec!["!b"]))),
            ("a.pem [alpn h2 verify none] b", Some(("a.pem", "alpn h2 verify none", vec!["b"]))),
            ("# a.pem", None),
            ("", None),
        ];
        for (line, expected) in table {
            let found = CrtListEntry::parse(line);
            let found = found.as_ref().map(|it| {
                (it.file, it.parameters, it.names.iter().map(String::as_str).collect::<Vec<_>>())
            });
            assert_eq!(found, expected, "{line:?}");
        }
    }
}
