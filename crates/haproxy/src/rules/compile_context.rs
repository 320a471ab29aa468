//! The context of compilation: declared ACLs, and files.

use crate::rules::acl::Acls;
use crate::rules::lists::ConfigFiles;

/// What an expression or a condition may refer to.
#[derive(Clone, Copy, Debug)]
pub struct CompileContext<'a> {
    /// The ACLs declared so far in this section.
    pub acls: &'a Acls,
    /// Source of maps and pattern lists.
    pub files: &'a dyn ConfigFiles,
}
