//! Rules, whose words crate `rules` reads.

use fulmar_rules::Fault;

use crate::draft::Draft;
use crate::line::Line;
use crate::table::{BACK, BACKEND, BOTH, FRONT, FRONTEND, HTTP, Keyword, NAMED, row};

pub(super) const ROWS: &[Keyword<Draft>] = &[row(
    "acl",
    FRONTEND | BACKEND | NAMED,
    "<name> <expression> [<flag>...] [<pattern>...]",
    "a list by name",
    acl,
)];

fn acl(_draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    line.skip();
    Ok(())
}
