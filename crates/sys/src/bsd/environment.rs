//! The environment of the process (`environ(7)`).

use std::env;

/// True if one of these variables is set, also to nothing.
pub fn has_variable(names: &[&str]) -> bool {
    names.iter().any(|name| env::var_os(name).is_some())
}
