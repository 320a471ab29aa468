//! The query of a request for the statistics page: words after its path.

use fulmar_haproxy::model::StatsPage;

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatsFormat {
    /// The HTML page.
    #[default]
    Html,
    /// `;csv`.
    Csv,
    /// `;json`.
    Json,
    /// `;typed`.
    Typed,
}

/// A parsed query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The output format.
    pub form: StatsFormat,
    /// `;up`: only servers that are up.
    pub only_up: bool,
    /// `;no-maint`: omits servers in maintenance.
    pub no_maintenance: bool,
    /// `;norefresh`.
    pub no_refresh: bool,
    /// `;st=`: the result of a change.
    pub outcome: Option<String>,
    /// `scope=`: only proxies whose name contains this.
    pub part: String,
}

impl Query {
    /// Parses the target of a request. Unknown words are ignored, as in HAProxy.
    pub fn parse(page: &StatsPage, target: &[u8]) -> Self {
        let target = String::from_utf8_lossy(target);
        let rest = target.split_once(&page.uri).map_or("", |(_, rest)| rest);
        let mut query = Self::default();
        for word in rest.split([';', '?', '&', '/']) {
            match word.split_once('=').unwrap_or((word, "")) {
                ("csv", _) => query.form = StatsFormat::Csv,
                ("json", _) => query.form = StatsFormat::Json,
                ("typed", _) => query.form = StatsFormat::Typed,
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

    /// The words that select rows, for links to the same rows.
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

/// Longer than any name.
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
        assert_eq!(all.form, StatsFormat::Csv);
        assert!(all.only_up && all.no_refresh && all.no_maintenance);
        assert_eq!(parse("/stats;json;norefresh").form, StatsFormat::Json);
        assert_eq!(parse("http://h/stats?scope=a%20b").part, "a b");
        assert_eq!(parse("/stats;st=DONE").outcome.as_deref(), Some("DONE"));
        assert_eq!(parse("/stats;nonsense;;=").form, StatsFormat::Html);
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
