//! The limits of connections: of `curl_multi_setopt`, and `CURLOPT_MAXCONNECTS`.

use fulmar_client::Config;

use crate::handles::{Easy, Multi};
use crate::multi_options::MultiOptions;
use crate::option::OptionId as Id;

/// Limits as the client has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConnectionLimits {
    connections_max: usize,
    per_authority_max: usize,
    kept_max: usize,
    streams_max: u32,
}

impl ConnectionLimits {
    /// With `handles` in the multi handle.
    fn new(options: &MultiOptions, handles: usize) -> Self {
        let positive = |number| match usize::try_from(number) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(number) => number,
        };
        Self {
            connections_max: positive(options.total_connections_max),
            per_authority_max: positive(options.host_connections_max),
            kept_max: match options.connects_max {
                ..0 => positive(i64::try_from(handles.saturating_mul(4)).unwrap_or(i64::MAX)),
                number => positive(number),
            },
            streams_max: match options.multiplexes {
                true => u32::try_from(options.streams_max).unwrap_or(u32::MAX),
                false => 1,
            },
        }
    }

    fn of(config: &Config) -> Self {
        let Config { connections_max, per_authority_max, kept_max, streams_max, .. } = *config;
        Self { connections_max, per_authority_max, kept_max, streams_max }
    }

    fn in_config(self, config: Config) -> Config {
        let Self { connections_max, per_authority_max, kept_max, streams_max } = self;
        Config { connections_max, per_authority_max, kept_max, streams_max, ..config }
    }
}

impl Multi {
    /// Passes the limits that hold now to the client.
    pub(crate) fn apply_limits(&self) {
        let limits = ConnectionLimits::new(&self.options.borrow(), self.added.borrow().len());
        let mut reactor = self.reactor.borrow_mut();
        if ConnectionLimits::of(reactor.engine.config()) != limits {
            reactor.with(|client, now| {
                let config = limits.in_config(client.config().clone());
                client.set_config(now, config);
            });
        }
    }

    /// `CURLOPT_MAXCONNECTS`, in the multi handle of `curl_easy_perform`.
    pub(crate) fn limit_private(&self, easy: &Easy) {
        let max = easy.with_state(|state| state.options.values.number(Id::MAXCONNECTS));
        self.options.borrow_mut().connects_max = max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::Argument;

    #[test]
    fn limits_are_those_of_the_options() {
        let mut options = MultiOptions::default();
        let default = ConnectionLimits::new(&options, 3);
        assert_eq!((default.connections_max, default.per_authority_max), (usize::MAX, usize::MAX));
        assert_eq!((default.kept_max, default.streams_max), (12, 100), "four for each handle");
        assert_eq!(ConnectionLimits::new(&options, 0).kept_max, usize::MAX);
        for (option, number) in [(3, 0), (6, 0), (7, 5), (13, 6), (16, 7)] {
            options.set(option, Argument::Number(number)).expect("an option");
        }
        let limits = ConnectionLimits::new(&options, 3);
        assert_eq!((limits.connections_max, limits.per_authority_max), (6, 5));
        assert_eq!((limits.kept_max, limits.streams_max), (usize::MAX, 1));
        options.set(3, Argument::Number(2)).expect("an option");
        assert_eq!(ConnectionLimits::new(&options, 3).streams_max, 7);
        assert_eq!(ConnectionLimits::of(&limits.in_config(Config::default())), limits);
    }
}
