//! The context of compilation: declared ACLs, and files.

use crate::rules::acl::Acls;
use crate::rules::lists::Files;

/// What an expression or a condition may refer to.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The ACLs declared so far in this section.
    pub acls: &'a Acls,
    /// Source of maps and pattern lists.
    pub files: &'a dyn Files,
}
