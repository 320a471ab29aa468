//! Environment variables of a configuration.

use std::collections::BTreeMap;

/// Environment variables that the configuration can refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(pub BTreeMap<String, String>);

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let variables = std::env::vars_os();
        let known = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(variables.filter_map(known).collect())
    }

    pub(crate) fn value(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}
