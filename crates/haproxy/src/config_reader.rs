//! Parses lines into drafts: sections, the `defaults` they inherit, and keywords (HAProxy's
//! configuration manual, §2.1, §3 and §4).

use std::sync::Arc;

use crate::diagnostics::{Diagnostic, Severity};
use crate::draft::{Globals, ProxyDraft, ProxySection};
use crate::environment::Environment;
use crate::keyword_table::{self, Keyword, Sections, Unsupported};
use crate::keywords::{self, UserlistDraft, accepted, read_accepted};
use crate::line::KeywordLine;
use crate::machine::{Machine, host_name};
use crate::model::{Config, Position};
use crate::options::Options;
use crate::position::{KeywordPrefix, LineRef};
use crate::rules::eval_context::{Fact, LogField};
use crate::rules::reply::ErrorPages;
use crate::rules::{Word, WordCursor, WordError};
use crate::text::{self, blocks};

/// Parses lines in order.
pub(crate) struct ConfigReader<'a> {
    machine: &'a dyn Machine,
    options: Options,
    environment: Environment,
    /// All diagnostics, in order.
    pub(crate) found: Vec<Diagnostic>,
    globals: Globals,
    defaults: Vec<ProxyDraft>,
    proxies: Vec<ProxyDraft>,
    userlists: Vec<UserlistDraft>,
    /// State of the proxy that conditions refer to, with positions.
    facts: Vec<(LineRef, u32, Fact)>,
    /// A line may need the connection's destination address.
    needs_destination: bool,
    section: Section,
}

/// The section of the current line.
enum Section {
    /// Before the first section.
    Outside,
    Global,
    /// The last `defaults` section.
    Defaults,
    /// The last proxy section.
    Proxy,
    /// The last userlist.
    Userlist,
    /// The `http-errors` section with this name.
    Errors(String),
    /// A skipped section: its first line is invalid or not supported.
    Skipped,
}

impl<'a> ConfigReader<'a> {
    /// A reader of the given texts.
    pub(crate) fn new(
        environment: &Environment,
        machine: &'a dyn Machine,
        options: Options,
        texts: &[(String, String)],
    ) -> Self {
        let mut environment = environment.clone();
        let files: Vec<&str> = texts.iter().map(|(name, _)| &**name).collect();
        environment.0.insert("HAPROXY_CFGFILES".to_owned(), files.join(";"));
        let peer = environment.0.entry("HAPROXY_LOCALPEER".to_owned());
        peer.or_insert_with(|| host_name(machine));
        Self {
            machine,
            options,
            environment,
            found: Vec::new(),
            globals: Globals::default(),
            defaults: Vec::new(),
            proxies: Vec::new(),
            userlists: Vec::new(),
            facts: Vec::new(),
            needs_destination: false,
            section: Section::Outside,
        }
    }

    /// Parses all lines of a file; false if parsing cannot continue.
    pub(crate) fn file(&mut self, name: &str, text: &str) -> bool {
        let file: Arc<str> = name.into();
        let mut blocks = blocks::ConditionalBlocks::default();
        let lines = text.split_inclusive('\n');
        for (number, line) in (1..).zip(lines) {
            let is_whole = line.ends_with('\n') || line.trim().is_empty();
            let line = line.strip_suffix('\n').unwrap_or(line);
            let place = Position { file: Arc::clone(&file), line: number };
            let spot = LineRef { place, text: line.into() };
            if !is_whole {
                let message = "missing LF on the last line: the file may be truncated";
                self.fault(&spot, WordError::new(end_of(line), message));
            }
            if line.contains('\0') {
                let message = "unexpected NUL byte: the file is not text or is damaged";
                self.fault(&spot, WordError::new(1, message));
                return false;
            }
            if !self.line(&spot, &mut blocks) {
                return false;
            }
        }
        if let Some(line) = blocks.left_open() {
            let place = Position { file, line };
            let message = "missing '.endif' for this '.if'".to_owned();
            self.found.push(Diagnostic::about(Severity::Alert, Some(place), message));
        }
        true
    }

    /// The whole configuration.
    pub(crate) fn finish(mut self) -> (Config, Vec<Diagnostic>) {
        let is_wrong = self.found.iter().any(|found| found.severity == Severity::Alert);
        let mut config = crate::build_config::config(
            self.globals,
            self.proxies,
            self.userlists,
            &mut self.found,
        );
        config.needs_destination = self.needs_destination;
        if !is_wrong {
            // A missing name may belong to a section rejected above.
            crate::condition_names::check(&config, &self.facts, &mut self.found);
        }
        match is_wrong {
            true => (Config::default(), self.found),
            false => (config, self.found),
        }
    }

    /// Parses a line; false if parsing cannot continue.
    fn line(&mut self, spot: &LineRef, blocks: &mut blocks::ConditionalBlocks) -> bool {
        let first = spot.text.split_whitespace().next().unwrap_or("");
        let is_turn = blocks::WORDS.contains(&first);
        let words = match text::split(&spot.text, &|name| self.variable(name, spot)) {
            Ok(words) => words,
            Err(fault) => {
                self.fault(spot, fault);
                return true;
            }
        };
        if is_turn {
            let condition: Vec<&str> = words.iter().skip(1).map(|word| &*word.text).collect();
            let defined = |name: &str| self.environment.0.contains_key(name);
            let condition = condition.join(" ");
            if let Err(message) = blocks.turn(first, &condition, spot.place.line, &defined) {
                let column = words.first().map_or(1, |word| word.column);
                self.fault(spot, WordError::new(column, message));
                return false;
            }
            return true;
        }
        match words.first() {
            None => true,
            Some(_) if !blocks.are_read() => true,
            Some(first) if first.text.starts_with('.') => self.message(spot, &words),
            Some(_) => {
                if let Err(fault) = self.statement(spot, &words) {
                    self.fault(spot, fault);
                }
                true
            }
        }
    }

    /// The value of a variable; some depend on the position.
    fn variable(&self, name: &str, spot: &LineRef) -> Option<String> {
        match name {
            ".FILE" => Some(spot.place.file.to_string()),
            ".LINE" => Some(spot.place.line.to_string()),
            ".SECTION" => Some(self.section_name()),
            name => self.environment.value(name),
        }
    }

    fn section_name(&self) -> String {
        let last = |drafts: &[ProxyDraft]| {
            drafts.last().map_or_else(String::new, |draft| match draft.name.is_empty() {
                true => draft.kind.name().to_owned(),
                false => draft.name.clone(),
            })
        };
        match &self.section {
            Section::Outside | Section::Skipped => String::new(),
            Section::Global => "global".to_owned(),
            Section::Defaults => last(&self.defaults),
            Section::Proxy => last(&self.proxies),
            Section::Userlist => {
                self.userlists.last().map_or_else(String::new, |list| list.name.clone())
            }
            Section::Errors(name) => name.clone(),
        }
    }

    /// `.notice`, `.warning`, `.alert`, `.diag`.
    fn message(&mut self, spot: &LineRef, words: &[Word]) -> bool {
        let severity = match &*words[0].text {
            ".notice" => Some(Severity::Notice),
            ".warning" => Some(Severity::Warning),
            ".alert" => Some(Severity::Alert),
            ".diag" => None,
            other => {
                let known = blocks::WORDS.iter().chain(&MESSAGES).copied();
                let near = keyword_table::nearest(other, known).unwrap_or(".if");
                let message = format!("unknown directive '{other}'; did you mean '{near}'?");
                self.fault(spot, WordError::new(words[0].column, message));
                return true;
            }
        };
        if let Some(extra) = words.get(2) {
            let message = "a message with spaces must be quoted";
            self.fault(spot, WordError::new(extra.column, message));
            return true;
        }
        let text = words.get(1).map_or(String::new(), |word| word.text.clone());
        if let Some(severity) = severity {
            let fault = WordError::new(words[0].column, text);
            self.found.push(Diagnostic::at(severity, &spot.place, &spot.text, fault));
        }
        severity != Some(Severity::Alert)
    }

    fn statement(&mut self, spot: &LineRef, words: &[Word]) -> Result<(), WordError> {
        if self.begins_section(spot, words)? {
            return Ok(());
        }
        match &self.section {
            Section::Skipped => Ok(()),
            Section::Outside => {
                let word = &words[0];
                let near = keyword_table::nearest(&word.text, SECTIONS.iter().copied());
                let near = near.map(|near| format!("; did you mean '{near}'?"));
                let message = format!(
                    "unknown keyword '{}' out of section{}",
                    word.text,
                    near.unwrap_or_default()
                );
                Err(WordError::new(word.column, message))
            }
            Section::Global => {
                let visible = self.globals.visible();
                let mut globals = std::mem::replace(&mut self.globals, visible);
                let read = self.read_global(&mut globals, spot, words);
                self.globals = globals;
                self.take_variables();
                read
            }
            Section::Defaults => {
                let Some(mut draft) = self.defaults.pop() else { return Ok(()) };
                let read = self.read_proxy(&mut draft, spot, words);
                self.defaults.push(draft);
                read
            }
            Section::Proxy => {
                let Some(mut draft) = self.proxies.pop() else { return Ok(()) };
                let read = self.read_proxy(&mut draft, spot, words);
                self.proxies.push(draft);
                read
            }
            Section::Userlist => {
                let Some(mut list) = self.userlists.pop() else { return Ok(()) };
                let rows = keywords::USERLIST;
                let read = self.read_simple(&mut list, rows, "userlist", spot, words);
                self.userlists.push(list);
                read
            }
            Section::Errors(name) => {
                let name = name.clone();
                let mut pages = self.globals.error_groups.remove(&name).unwrap_or_default();
                let rows = keywords::HTTP_ERRORS;
                let read = self.read_simple(&mut pages, rows, "http-errors", spot, words);
                self.globals.error_groups.insert(name, pages);
                read
            }
        }
    }

    /// `setenv` and so on take effect from the next line.
    fn take_variables(&mut self) {
        for (name, value) in std::mem::take(&mut self.globals.variables) {
            match value {
                Some(value) => self.environment.0.insert(name, value),
                None => self.environment.0.remove(&name),
            };
        }
    }

    fn read_global(
        &mut self,
        globals: &mut Globals,
        spot: &LineRef,
        words: &[Word],
    ) -> Result<(), WordError> {
        let (said, words) = prefix(words);
        let tables = keywords::GLOBAL;
        let Some((row, len)) = keyword_table::find(tables, words) else {
            return self.unknown(tables, "global", keywords::UNSUPPORTED_GLOBAL, spot, words);
        };
        may_be_negated(said, row.name, row.sections, words)?;
        self.run(row.read, globals, row.name, said, spot, &words[len..])
    }

    fn read_proxy(
        &mut self,
        draft: &mut ProxyDraft,
        spot: &LineRef,
        words: &[Word],
    ) -> Result<(), WordError> {
        let (said, words) = prefix(words);
        let tables = keywords::PROXY;
        let Some((row, len)) = keyword_table::find(tables, words) else {
            return self.unknown(
                tables,
                draft.kind.name(),
                keywords::UNSUPPORTED_PROXY,
                spot,
                words,
            );
        };
        may_be_negated(said, row.name, row.sections, words)?;
        if !self.belongs(row, draft, spot, words)? {
            // Lines of a skipped section are checked, and have no effect.
            let mut nowhere = draft.clone();
            return self.run(row.read, &mut nowhere, row.name, said, spot, &words[len..]);
        }
        if row.sections & keyword_table::HTTP != 0
            && draft.kind != ProxySection::Defaults
            && said.is_on()
        {
            draft.http_only.push((spot.clone(), words[0].clone()));
        }
        self.run(row.read, draft, row.name, said, spot, &words[len..])
    }

    fn read_simple<T>(
        &mut self,
        draft: &mut T,
        rows: &'static [Keyword<T>],
        section: &str,
        spot: &LineRef,
        words: &[Word],
    ) -> Result<(), WordError> {
        match keyword_table::find(&[rows], words) {
            Some((row, len)) => {
                self.run(row.read, draft, row.name, KeywordPrefix::Plain, spot, &words[len..])
            }
            None => self.unknown(&[rows], section, &[], spot, words),
        }
    }

    /// Whether a keyword applies to this section.
    fn belongs(
        &mut self,
        row: &Keyword<ProxyDraft>,
        draft: &ProxyDraft,
        spot: &LineRef,
        words: &[Word],
    ) -> Result<bool, WordError> {
        let has = |sections: Sections| row.sections & sections != 0;
        let column = words[0].column;
        let name = row.name;
        match draft.kind {
            ProxySection::Defaults if has(keyword_table::NAMED) && draft.name.is_empty() => {
                let message =
                    format!("'{name}' is not allowed in a 'defaults' section without a name");
                Err(WordError::new(column, message))
            }
            ProxySection::Defaults if has(keyword_table::NAMED | keyword_table::DEFAULTS) => {
                Ok(true)
            }
            ProxySection::Defaults => {
                let message = format!("'{name}' is not allowed in a 'defaults' section");
                Err(WordError::new(column, message))
            }
            kind if kind.is_front() && has(keyword_table::FRONTEND) => Ok(true),
            kind if kind.is_back() && has(keyword_table::BACKEND) => Ok(true),
            kind => {
                let lacks = if kind.is_front() { "servers" } else { "listeners" };
                let message =
                    format!("'{name}' requires {lacks}, which a {} does not have", kind.name());
                if has(keyword_table::STRICT) {
                    return Err(WordError::new(column, message));
                }
                let fault = WordError::new(column, format!("{message}: ignored"));
                self.found.push(Diagnostic::at(Severity::Warning, &spot.place, &spot.text, fault));
                Ok(false)
            }
        }
    }

    /// Runs the parser of a keyword, which must use the whole line.
    fn run<T>(
        &mut self,
        read: keyword_table::Read<T>,
        draft: &mut T,
        keyword: &'static str,
        said: KeywordPrefix,
        spot: &LineRef,
        words: &[Word],
    ) -> Result<(), WordError> {
        let mut line = KeywordLine {
            words: WordCursor::new(words, end_of(&spot.text)),
            keyword,
            said,
            spot,
            globals: &self.globals,
            environment: &self.environment,
            machine: self.machine,
            lenient_names: self.options.lenient.names,
            facts: Vec::new(),
            found: Vec::new(),
        };
        let read = read(draft, &mut line).and_then(|()| line.words.end());
        self.needs_destination |= needs_destination(words, &line.facts);
        let facts = line.facts.into_iter();
        self.facts.extend(facts.map(|(column, fact)| (spot.clone(), column, fact)));
        for (severity, fault) in line.found {
            self.entry(severity, spot, fault);
        }
        read
    }

    fn unknown<T: 'static>(
        &self,
        tables: &[&'static [Keyword<T>]],
        section: &str,
        unsupported: &'static [Unsupported],
        spot: &LineRef,
        words: &[Word],
    ) -> Result<(), WordError> {
        if let Some(read) = read_accepted(section, words, end_of(&spot.text)) {
            return read;
        }
        let known = tables.iter().flat_map(|table| table.iter()).map(|row| row.name);
        let known = known.chain(accepted(section));
        // An unindented word may be a misspelled section.
        let sections =
            if words.first().is_some_and(|word| word.column == 1) { SECTIONS } else { &[] };
        let known = known.chain(sections.iter().copied());
        let what = format!("keyword of a '{section}' section");
        Err(keyword_table::unknown(words, &what, known, unsupported))
    }

    fn fault(&mut self, spot: &LineRef, fault: WordError) {
        self.entry(Severity::Alert, spot, fault);
    }

    /// Adds a diagnostic; errors covered by the leniency become warnings.
    fn entry(&mut self, severity: Severity, spot: &LineRef, fault: WordError) {
        let severity = match fault.unknown && self.options.lenient.keywords {
            true => severity.min(Severity::Warning),
            false => severity,
        };
        self.found.push(Diagnostic::at(severity, &spot.place, &spot.text, fault));
    }
}

/// Section headers.
impl ConfigReader<'_> {
    /// True if the line starts a section.
    fn begins_section(&mut self, spot: &LineRef, words: &[Word]) -> Result<bool, WordError> {
        let word = &words[0];
        let kind = match &*word.text {
            "global" => {
                self.section = Section::Global;
                return expect_end(&words[1..]).map(|()| true);
            }
            "userlist" => return self.begin_userlist(words).map(|()| true),
            "http-errors" => return self.begin_errors(words).map(|()| true),
            "defaults" => ProxySection::Defaults,
            "frontend" => ProxySection::Frontend,
            "backend" => ProxySection::Backend,
            "listen" => ProxySection::Listen,
            name if SECTIONS_UNSUPPORTED.iter().any(|(other, _)| *other == name) => {
                // `program` and so on are only section names at the start of a line.
                self.section = Section::Skipped;
                self.unsupported_section(spot, word);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        self.section = Section::Skipped;
        self.begin_proxy(kind, spot, words).map(|()| true)
    }

    fn unsupported_section(&mut self, spot: &LineRef, word: &Word) {
        let found = SECTIONS_UNSUPPORTED.iter().find(|(name, _)| *name == word.text);
        let why = found.map_or("", |(_, why)| *why);
        let message = format!("sections '{}' are not supported: {why}", word.text);
        let may_be_missing =
            self.options.lenient.sections || SECTIONS_SPARED.contains(&&*word.text);
        let severity = match may_be_missing {
            true => Severity::Warning,
            false => Severity::Alert,
        };
        let fault = WordError::new(word.column, message);
        self.found.push(Diagnostic::at(severity, &spot.place, &spot.text, fault));
    }

    fn begin_proxy(
        &mut self,
        kind: ProxySection,
        spot: &LineRef,
        words: &[Word],
    ) -> Result<(), WordError> {
        let mut left = WordCursor::new(&words[1..], end_of(&spot.text));
        let is_named = left.peek().is_some_and(|word| word.text != "from");
        let name = match (kind, is_named) {
            (_, true) => left.expect("a name")?.clone(),
            (ProxySection::Defaults, false) => {
                Word { text: String::new(), column: words[0].column }
            }
            (_, false) => return Err(WordError::new(left.column(), "missing section name")),
        };
        check_name(&name)?;
        let from = match left.take("from") {
            true => Some(self.defaults_named(left.expect("the name of a 'defaults' section")?)?),
            false => None,
        };
        if let Some(extra) = left.peek() {
            let message = match kind {
                ProxySection::Listen | ProxySection::Frontend => {
                    "obsolete syntax: put the address in a 'bind' line"
                }
                _ => "unexpected argument",
            };
            return Err(WordError::new(extra.column, message));
        }
        self.check_unique(kind, &name)?;
        let base = match (kind, from) {
            (_, Some(at)) => self.defaults.get(at),
            (ProxySection::Defaults, None) => None,
            (_, None) => self.defaults.last(),
        };
        if let Some(rules) = base.and_then(|base| base.disallowed_rules(kind)) {
            let message = format!(
                "the 'defaults' section of this {} has '{rules}' rules, which are not allowed here",
                kind.name()
            );
            return Err(WordError::new(words[0].column, message));
        }
        let draft = ProxyDraft::begin(kind, name.text, spot.clone(), base);
        self.section = match kind {
            ProxySection::Defaults => {
                self.defaults.push(draft);
                Section::Defaults
            }
            _ => {
                self.proxies.push(draft);
                Section::Proxy
            }
        };
        Ok(())
    }

    fn defaults_named(&self, name: &Word) -> Result<usize, WordError> {
        let found = self.defaults.iter().rposition(|draft| draft.name == name.text);
        found.ok_or_else(|| {
            let known = self.defaults.iter().map(|draft| &*draft.name);
            let near = keyword_table::nearest(&name.text, known.filter(|name| !name.is_empty()));
            let near = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
            let message = format!("unknown 'defaults' section '{}'{near}", name.text);
            WordError::new(name.column, message)
        })
    }

    /// Two frontends or two backends cannot have the same name.
    fn check_unique(&self, kind: ProxySection, name: &Word) -> Result<(), WordError> {
        let overlaps = |other: &ProxySection| {
            kind.is_front() && other.is_front() || kind.is_back() && other.is_back()
        };
        let drafts = match kind {
            ProxySection::Defaults => return Ok(()),
            _ => &self.proxies,
        };
        let other = drafts.iter().find(|draft| draft.name == name.text && overlaps(&draft.kind));
        let Some(other) = other else { return Ok(()) };
        let line = other.spot.as_ref().map_or(0, |spot| spot.place.line);
        let message = format!(
            "the name '{}' is already used by the {} in line {line}",
            name.text,
            other.kind.name()
        );
        Err(WordError::new(name.column, message))
    }

    fn begin_userlist(&mut self, words: &[Word]) -> Result<(), WordError> {
        self.section = Section::Skipped;
        let name = only_name(words)?;
        if self.userlists.iter().any(|list| list.name == name.text) {
            let message = format!("userlist '{}' is already defined", name.text);
            return Err(WordError::new(name.column, message));
        }
        self.userlists.push(UserlistDraft::begin(name.text.clone()));
        self.section = Section::Userlist;
        Ok(())
    }

    fn begin_errors(&mut self, words: &[Word]) -> Result<(), WordError> {
        self.section = Section::Skipped;
        let name = only_name(words)?;
        if self.globals.error_groups.contains_key(&name.text) {
            let message = format!("http-errors section '{}' is already defined", name.text);
            return Err(WordError::new(name.column, message));
        }
        self.globals.error_groups.insert(name.text.clone(), ErrorPages::default());
        self.section = Section::Errors(name.text.clone());
        Ok(())
    }
}

impl std::fmt::Debug for ConfigReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigReader")
            .field("section", &self.section_name())
            .finish_non_exhaustive()
    }
}

/// `no` or `default` before a keyword.
fn prefix(words: &[Word]) -> (KeywordPrefix, &[Word]) {
    match words {
        [first, rest @ ..] if first.text == "no" && !rest.is_empty() => (KeywordPrefix::No, rest),
        [first, rest @ ..] if first.text == "default" && !rest.is_empty() => {
            (KeywordPrefix::Default, rest)
        }
        _ => (KeywordPrefix::Plain, words),
    }
}

fn may_be_negated(
    said: KeywordPrefix,
    name: &str,
    sections: Sections,
    words: &[Word],
) -> Result<(), WordError> {
    if said == KeywordPrefix::Plain || sections & keyword_table::NO != 0 {
        return Ok(());
    }
    let message = format!("'{name}' does not support 'no' or 'default'");
    Err(WordError::new(words[0].column, message))
}

/// The name of a section without further words.
fn only_name(words: &[Word]) -> Result<&Word, WordError> {
    let name = words.get(1).ok_or_else(|| {
        let end = words[0].column.saturating_add(u32::try_from(words[0].text.len()).unwrap_or(0));
        WordError::new(end, format!("missing name of this '{}' section", words[0].text))
    })?;
    check_name(name)?;
    expect_end(&words[2..])?;
    Ok(name)
}

fn expect_end(words: &[Word]) -> Result<(), WordError> {
    WordCursor::new(words, 1).end()
}

/// Letters, digits, `-`, `_`, `.` and `:`.
fn check_name(name: &Word) -> Result<(), WordError> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    match name.text.chars().find(|&c| !is_known(c)) {
        None => Ok(()),
        Some(c) => {
            let message = format!(
                "character '{c}' is not allowed in a name, only letters, digits, '-', '_', '.' \
                 and ':'"
            );
            Err(WordError::new(name.column, message))
        }
    }
}

fn end_of(line: &str) -> u32 {
    u32::try_from(line.trim_end().len()).unwrap_or(u32::MAX - 1) + 1
}

const SECTIONS: &[&str] =
    &["global", "defaults", "frontend", "backend", "listen", "userlist", "http-errors"];

/// HAProxy's sections that are not supported, with the reason.
pub(crate) const SECTIONS_UNSUPPORTED: &[Unsupported] = &[
    ("cache", "caching is not supported"),
    ("fcgi-app", "FastCGI is not supported"),
    ("log-forward", "log forwarding is not supported"),
    ("mailers", "email alerts are not supported"),
    ("peers", "stick tables are not supported"),
    ("program", "start other programs by the service manager"),
    ("resolvers", "names are resolved only once, at the start"),
    ("ring", "send logs to syslog or a descriptor"),
    ("crt-store", "put certificates in 'bind' lines"),
];

/// Unsupported sections that are only warnings: without a cache, more responses come from servers;
/// peers only exchange tables, which are rejected where they are used.
const SECTIONS_SPARED: [&str; 2] = ["cache", "peers"];

const MESSAGES: [&str; 4] = [".notice", ".warning", ".alert", ".diag"];

/// True if a line may need the connection's destination address: it contains a sample's name,
/// anywhere, or a log variable. The line is not parsed for this: samples can occur in many places.
fn needs_destination(words: &[Word], facts: &[(u32, Fact)]) -> bool {
    let of_format =
        |fact: &Fact| matches!(fact, Fact::Log(LogField::FrontendAddress | LogField::FrontendPort));
    words.iter().any(|word| word.text.contains("dst")) || facts.iter().any(|(_, it)| of_format(it))
}
