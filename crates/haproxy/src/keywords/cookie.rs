//! `cookie`.

use crate::draft::ProxyDraft;
use crate::keyword_table::{BACK, HTTP, Keyword, row};
use crate::line::KeywordLine;
use crate::model::{CookieInsert, CookieMode};
use crate::rules::WordError;
use crate::values::{TimeUnit, duration};

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row(
        "cookie",
        BACK | HTTP,
        "<name> [insert | rewrite | prefix] [indirect] [nocache] [postonly] [preserve] \
         [httponly] [secure] [domain <name>]* [maxidle <time>] [maxlife <time>] [dynamic] \
         [attr <text>]*",
        "persistence by cookie",
        cookie,
    ),
    row("dynamic-cookie-key", BACK | HTTP, "<key>", "key of dynamic cookies", dynamic_key),
];

fn cookie(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let column = line.words.column();
    let mut cookie =
        CookieInsert { name: line.word("the name of a cookie")?.text, ..CookieInsert::default() };
    while let Some(word) = line.words.next() {
        let mode = match &*word.text {
            "insert" => Some(CookieMode::Insert),
            "rewrite" => Some(CookieMode::Rewrite),
            "prefix" => Some(CookieMode::Prefix),
            _ => None,
        };
        if let Some(mode) = mode {
            if cookie.how != CookieMode::Passive && cookie.how != mode {
                let message = "'insert', 'rewrite' and 'prefix' are mutually exclusive";
                return Err(WordError::new(word.column, message));
            }
            cookie.how = mode;
            continue;
        }
        match &*word.text {
            "indirect" => cookie.indirect = true,
            "nocache" => cookie.no_cache = true,
            "postonly" => cookie.post_only = true,
            "preserve" => cookie.preserve = true,
            "httponly" => cookie.http_only = true,
            "secure" => cookie.secure = true,
            "dynamic" => cookie.dynamic_key = Some(String::new()),
            "domain" => cookie.domains.push(line.word("a domain")?.text),
            "attr" => cookie.attributes.push(line.word("an attribute")?.text),
            "maxidle" => {
                cookie.idle_max = Some(duration(&line.word("a time")?, TimeUnit::Seconds)?);
            }
            "maxlife" => {
                cookie.life_max = Some(duration(&line.word("a time")?, TimeUnit::Seconds)?);
            }
            other => {
                let message = format!(
                    "unknown parameter '{other}', expected one of insert, rewrite, prefix, \
                     indirect, nocache, \
                     postonly, preserve, httponly, secure, domain, maxidle, maxlife, dynamic, attr"
                );
                return Err(WordError::new(word.column, message));
            }
        }
    }
    if cookie.preserve && cookie.how != CookieMode::Insert && !cookie.indirect {
        let message = "'preserve' requires 'insert' or 'indirect'";
        return Err(WordError::new(column, message));
    }
    draft.backend.cookie = Some(cookie);
    Ok(())
}

fn dynamic_key(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.dynamic_cookie_key = Some(line.word("a key")?.text);
    Ok(())
}
