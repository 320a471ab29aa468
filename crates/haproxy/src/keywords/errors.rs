//! Error responses: `errorfile`, `errorloc`, `http-error`, and the section `http-errors`. Their
//! arguments are parsed by module `rules`.

use std::sync::Arc;

use crate::compile::LineContext;
use crate::draft::ProxyDraft;
use crate::keyword_table::{BOTH, Keyword, row};
use crate::line::KeywordLine;
use crate::rules::reply::{ErrorPages, parse_errorfile, parse_errorloc, parse_http_error};
use crate::rules::{CompileContext, WordError};

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row("errorfile", BOTH, "<status> <file>", "error response from a file", errorfile),
    row(
        "errorfiles",
        BOTH,
        "<name> [<status>...]",
        "error responses of an 'http-errors' section",
        errorfiles,
    ),
    row("errorloc", BOTH, "<status> <url>", "redirect errors with 302", errorloc302),
    row("errorloc302", BOTH, "<status> <url>", "redirect errors with 302", errorloc302),
    row("errorloc303", BOTH, "<status> <url>", "redirect errors with 303", errorloc303),
    row(
        "http-error",
        BOTH,
        "status <status> [content-type <type>] [<body>] [hdr <name> <format>]*",
        "error response defined inline",
        http_error,
    ),
];

/// Keywords of the section.
pub(crate) const HTTP_ERRORS: &[Keyword<ErrorPages>] =
    &[row("errorfile", 0, "<status> <file>", "error response from a file", group_file)];

fn errorfile(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    group_file(&mut draft.errors, line)
}

fn group_file(pages: &mut ErrorPages, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let files = LineContext::of(line);
    let context = CompileContext { acls: &Default::default(), files: &files };
    let (status, page) = parse_errorfile(&mut line.words, &context)?;
    pages.set(status, page);
    Ok(())
}

fn errorfiles(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = line.word("the name of an 'http-errors' section")?;
    let Some(group) = line.globals.error_groups.get(&name.text) else {
        let message = format!("unknown 'http-errors' section '{}'", name.text);
        return Err(WordError::new(name.column, message));
    };
    if line.words.is_empty() {
        group.pages.iter().for_each(|(status, page)| draft.errors.set(*status, Arc::clone(page)));
    }
    for word in line.words.rest() {
        let status = word.text.parse().ok();
        let Some((status, page)) = status.and_then(|status| Some((status, group.get(status)?)))
        else {
            let message = format!(
                "'http-errors' section '{}' has no response for status {}",
                name.text, word.text
            );
            return Err(WordError::new(word.column, message));
        };
        draft.errors.set(status, Arc::clone(page));
    }
    Ok(())
}

fn errorloc302(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    errorloc(draft, line, 302)
}

fn errorloc303(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    errorloc(draft, line, 303)
}

fn errorloc(
    draft: &mut ProxyDraft,
    line: &mut KeywordLine<'_>,
    redirect: u16,
) -> Result<(), WordError> {
    let (status, page) = parse_errorloc(&mut line.words, redirect)?;
    draft.errors.set(status, page);
    Ok(())
}

fn http_error(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let files = LineContext::of(line);
    let context = CompileContext { acls: &draft.acls, files: &files };
    let groups = &line.globals.error_groups;
    let section = |name: &str| groups.get(name);
    parse_http_error(&mut line.words, &context, section, &mut draft.errors)
}
