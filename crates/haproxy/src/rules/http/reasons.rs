//! Why an action is not there, or does nothing: the ends of messages.

pub(crate) const NOT_THERE: &str = "not there yet";
pub(crate) const NO_MARK: &str = "packets are not marked: it has no effect";
pub(crate) const NO_NICE: &str = "all exchanges are equal: it has no effect";
pub(crate) const NO_EARLY_DATA: &str = "rules only run after the handshake: it has no effect";
pub(crate) const NO_PRIORITY: &str = "queues have no priorities: leave it out";
pub(crate) const NO_CHANGES: &str = "lists and maps of files do not change while the proxy runs: change the \
                          file, and reload";
pub(crate) const NO_CACHE: &str = "there is no cache: it has no effect";
pub(crate) const NO_RESOLVERS: &str = "names are resolved when the proxy starts: leave it out";
pub(crate) const NO_AGENTS: &str = "there are no agents (SPOE): leave it out";
pub(crate) const NO_TABLES: &str = "there are no stick tables yet: leave it out";
