//! Numbers of users and groups, from the files that name them (passwd(5), group(5)).

use crate::machine::Machine;
use crate::rules::{Fault, Word};

/// The number of a user.
///
/// # Errors
/// There is none of this name.
pub(crate) fn user(name: &Word, machine: &dyn Machine) -> Result<u32, Fault> {
    number(name, "user", "/etc/passwd", machine)
}

/// The number of a group.
///
/// # Errors
/// There is none of this name.
pub(crate) fn group(name: &Word, machine: &dyn Machine) -> Result<u32, Fault> {
    number(name, "group", "/etc/group", machine)
}

/// In both files, the name is the first part of a line, and the number the third.
fn number(name: &Word, what: &str, file: &str, machine: &dyn Machine) -> Result<u32, Fault> {
    let missing = || {
        let message = format!("there is no {what} '{}' in {file}", name.text);
        Fault::new(name.column, message)
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
