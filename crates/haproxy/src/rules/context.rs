//! What an expression or a condition is compiled in: the lists that were declared, and files.

use crate::rules::acl::Acls;
use crate::rules::lists::Files;

/// What an expression or a condition may refer to.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The lists that have been declared so far in this section.
    pub acls: &'a Acls,
    /// Where maps and lists of patterns come from.
    pub files: &'a dyn Files,
}
