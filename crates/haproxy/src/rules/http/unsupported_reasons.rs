//! Why an action is not supported or has no effect: parts of messages.

pub(crate) const NOT_THERE: &str = "not supported yet";
pub(crate) const NO_MARK: &str = "no effect: packets are not marked";
pub(crate) const NO_NICE: &str = "no effect: all exchanges have the same priority";
pub(crate) const NO_EARLY_DATA: &str = "no effect: rules run after the handshake";
pub(crate) const NO_PRIORITY: &str = "queue priorities are not supported";
pub(crate) const NO_CHANGES: &str =
    "rules cannot change lists and maps: use the runtime socket, for example 'add map'";
pub(crate) const NO_CACHE: &str = "no effect: caching is not supported";
pub(crate) const NO_RESOLVERS: &str = "names are resolved only at the start";
pub(crate) const NO_AGENTS: &str = "SPOE is not supported";
pub(crate) const NO_TABLES: &str = "stick tables are not supported";
