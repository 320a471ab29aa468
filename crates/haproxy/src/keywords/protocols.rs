//! Health checks for other protocols: `option smtpchk` and so on.

use crate::checks::CheckChoice;
use crate::draft::ProxyDraft;
use crate::keyword_table::{BACK, Keyword, row};
use crate::line::KeywordLine;
use crate::model::{CheckProtocol, MySqlLogin};
use crate::rules::WordError;
use crate::values::one_of;

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row(
        "option smtpchk",
        BACK,
        "[HELO | EHLO <name>]",
        "use SMTP health checks (HELO or EHLO)",
        smtp,
    ),
    row("option redis-check", BACK, "", "use Redis health checks (PING)", redis),
    row(
        "option pgsql-check",
        BACK,
        "user <name>",
        "use PostgreSQL health checks (startup message)",
        pgsql,
    ),
    row(
        "option mysql-check",
        BACK,
        "[user <name> [pre-41 | post-41]]",
        "use MySQL health checks (greeting, optional login)",
        mysql,
    ),
    row("option ldap-check", BACK, "", "use LDAPv3 health checks (anonymous bind)", ldap),
    row("option ssl-hello-chk", BACK, "", "use SSLv3 client hello health checks", ssl_hello),
];

fn choose(draft: &mut ProxyDraft, protocol: CheckProtocol) {
    draft.check.chosen = CheckChoice::Protocol(protocol);
}

fn smtp(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let words = line.words.rest();
    let hello = match words {
        [how, name, ..] if ["HELO", "EHLO"].contains(&&*how.text) => {
            format!("{} {}", how.text, name.text)
        }
        _ => "HELO localhost".to_owned(),
    };
    choose(draft, CheckProtocol::Smtp { hello });
    Ok(())
}

fn redis(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    choose(draft, CheckProtocol::Redis);
    Ok(())
}

/// The name after `user`.
fn user(line: &mut KeywordLine<'_>) -> Result<String, WordError> {
    let word = line.word("'user'")?;
    if word.text != "user" {
        let message = format!("'{}': expected 'user' and a name", word.text);
        return Err(WordError::new(word.column, message));
    }
    Ok(line.word("the name of a user")?.text)
}

fn pgsql(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let user = user(line)?;
    choose(draft, CheckProtocol::PostgreSql { user });
    Ok(())
}

fn mysql(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let mut login = None;
    if !line.words.is_empty() {
        let user = user(line)?;
        let is_old = match line.words.next().cloned() {
            Some(word) => {
                one_of(&word, "authentication version", &[("pre-41", true), ("post-41", false)])?
            }
            None => false,
        };
        login = Some(MySqlLogin { user, is_old });
    }
    choose(draft, CheckProtocol::MySql { login });
    Ok(())
}

fn ldap(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    choose(draft, CheckProtocol::Ldap);
    Ok(())
}

fn ssl_hello(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    choose(draft, CheckProtocol::SslHello);
    Ok(())
}
