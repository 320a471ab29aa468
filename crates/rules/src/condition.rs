//! Conditions: `if` and `unless`, access control lists, and how they are combined (HAProxy's
//! manual, §7.1 and §7.2).

use std::collections::HashMap;
use std::sync::Arc;

use crate::subject::Subject;

/// Whether a rule applies.
#[derive(Clone, Debug)]
pub struct Condition {
    negated: bool,
}

/// Lists by name, as they have been declared so far in a section. Several of one name are one
/// list: any of them may match.
pub type Acls = HashMap<String, Vec<Arc<Acl>>>;

/// An access control list: an expression, and patterns for its value.
#[derive(Clone, Debug)]
pub struct Acl {}

impl Condition {
    /// Whether it holds; what cannot be told is false.
    pub fn holds(&self, _subject: &dyn Subject) -> bool {
        !self.negated
    }
}
