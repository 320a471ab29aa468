//! What a request for the statistics page asks for: words behind its address.

use fulmar_haproxy::model::StatsPage;

/// In which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The page.
    #[default]
    Html,
    /// `;csv`.
    Csv,
    /// `;json`.
    Json,
    /// `;typed`.
    Typed,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// In which form.
    pub form: Form,
    /// `;up`: servers that are up, only.
    pub only_up: bool,
    /// `;no-maint`: no servers in maintenance.
    pub no_maintenance: bool,
    /// `;norefresh`.
    pub no_refresh: bool,
    /// `;st=`: what came of a change.
    pub outcome: Option<String>,
    /// `scope=`: proxies whose name contains this only.
    pub part: String,
}

impl Query {
    /// From the target of a request. What is not known is ignored, as HAProxy does.
    pub fn parse(page: &StatsPage, target: &[u8]) -> Self {
        let target = String::from_utf8_lossy(target);
        let rest = target.split_once(&page.uri).map_or("", |(_, rest)| rest);
        let mut query = Self::default();
        for word in rest.split([';', '?', '&', '/']) {
            match word.split_once('=').unwrap_or((word, "")) {
                ("csv", _) => query.form = Form::Csv,
                ("json", _) => query.form = Form::Json,
                ("typed", _) => query.form = Form::Typed,
                ("up", _) => query.only_up = true,
                ("no-maint", _) => query.no_maintenance = true,
                ("norefresh", _) => query.no_refresh = true,
                ("st", outcome) => query.outcome = Some(outcome.to_owned()),
                ("scope", part) => query.part = scope(part),
                _ => {}
            }
        }
        query
    }

    /// The words that choose rows, to be put behind the address again.
    pub fn selection(&self) -> String {
        let mut out = String::new();
        if self.only_up {
            out.push_str(";up");
        }
        if self.no_maintenance {
            out.push_str(";no-maint");
        }
        out
    }
}

fn scope(part: &str) -> String {
    let fields = format!("scope={part}");
    let mut values = fulmar_semantics::form::fields(fields.as_bytes());
    let value = values.next().map(|(_, value)| String::from_utf8_lossy(&value).into_owned());
    let mut value = value.unwrap_or_default();
    value.truncate(value.floor_char_boundary(SCOPE_SIZE_MAX));
    value
}

/// Names are not longer.
const SCOPE_SIZE_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(target: &str) -> Query {
        let page = StatsPage { uri: "/stats".into(), ..StatsPage::default() };
        Query::parse(&page, target.as_bytes())
    }

    #[test]
    fn words_behind_the_address_choose() {
        assert_eq!(parse("/stats"), Query::default());
        let all = parse("/stats;csv;up;norefresh;no-maint");
        assert_eq!(all.form, Form::Csv);
        assert!(all.only_up && all.no_refresh && all.no_maintenance);
        assert_eq!(parse("/stats;json;norefresh").form, Form::Json);
        assert_eq!(parse("http://h/stats?scope=a%20b").part, "a b");
        assert_eq!(parse("/stats;st=DONE").outcome.as_deref(), Some("DONE"));
        assert_eq!(parse("/stats;nonsense;;=").form, Form::Html);
        assert_eq!(parse("/other;csv"), Query::default());
    }

    #[test]
    fn a_scope_has_a_size() {
        let long = "\u{e9}".repeat(300);
        assert!(parse(&format!("/stats?scope={long}")).part.len() <= SCOPE_SIZE_MAX);
    }

    #[test]
    fn the_selection_is_kept() {
        assert_eq!(parse("/stats;no-maint").selection(), ";no-maint");
    }
}
