//! User and group numbers from passwd(5) and group(5).

use crate::machine::Machine;
use crate::rules::{Word, WordError};

/// The number of a user.
///
/// # Errors
/// The user does not exist.
pub(crate) fn user(name: &Word, machine: &dyn Machine) -> Result<u32, WordError> {
    number(name, "user", "/etc/passwd", machine)
}

/// The number of a group.
///
/// # Errors
/// The group does not exist.
pub(crate) fn group(name: &Word, machine: &dyn Machine) -> Result<u32, WordError> {
    number(name, "group", "/etc/group", machine)
}

/// In both files, the first field of a line is the name, and the third the number.
fn number(name: &Word, what: &str, file: &str, machine: &dyn Machine) -> Result<u32, WordError> {
    let missing = || {
        let message = format!("unknown {what} '{}' (not in {file})", name.text);
        WordError::new(name.column, message)
    };
    let bytes = machine.read(file.as_ref()).map_err(|_| missing())?;
    let text = String::from_utf8_lossy(&bytes);
    let entry = text.lines().find_map(|line| {
        let mut parts = line.split(':');
        let is_it = parts.next() == Some(&name.text);
        is_it.then(|| parts.nth(1).and_then(|number| number.parse().ok())).flatten()
    });
    entry.ok_or_else(missing)
}
