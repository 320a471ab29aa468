//! Source of server states at the start: `server-state-file` and so on.

use std::path::{Path, PathBuf};

use crate::draft::{Globals, ProxyDraft, StatesDraft};
use crate::keyword_table::{BACK, BACKEND, Keyword, row};
use crate::line::KeywordLine;
use crate::model::StateSource;
use crate::rules::WordError;
use crate::values::one_of;

pub(super) const GLOBAL: &[Keyword<Globals>] = &[
    row("server-state-base", 0, "<directory>", "base of relative paths of state files", base),
    row("server-state-file", 0, "<file>", "file with saved output of 'show servers state'", file),
];

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row(
        "load-server-state-from-file",
        BACK,
        "global | local | none",
        "restore server states at the start",
        load,
    ),
    row(
        "server-state-file-name",
        BACKEND,
        "[<file> | use-backend-name]",
        "file name for 'local' (default: name of the backend)",
        name,
    ),
];

fn base(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.state_base = Some(line.word("a directory")?.text.into());
    Ok(())
}

fn file(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.state_file = Some(line.word("a file")?.text.into());
    Ok(())
}

fn load(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("global, local or none")?;
    let known = [
        ("global", StatesDraft::Global),
        ("local", StatesDraft::Local),
        ("none", StatesDraft::Unread),
    ];
    draft.states = one_of(&word, "source of server states", &known)?;
    Ok(())
}

fn name(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.words.next().map(|word| word.text.clone());
    draft.state_file = word.filter(|word| word != "use-backend-name");
    Ok(())
}

/// The state file of a backend.
pub(crate) fn source(globals: &Globals, draft: &ProxyDraft) -> Option<StateSource> {
    match draft.states {
        StatesDraft::Unread => None,
        StatesDraft::Global => Some(StateSource::Global),
        StatesDraft::Local => {
            let file = draft.state_file.as_ref().unwrap_or(&draft.name);
            Some(StateSource::Local(within(globals.state_base.as_deref(), file.as_ref())))
        }
    }
}

/// A path, relative to the base if there is one.
pub(crate) fn within(base: Option<&Path>, file: &Path) -> PathBuf {
    base.map_or_else(|| file.to_owned(), |base| base.join(file))
}
