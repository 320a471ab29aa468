//! Options of sockets: order of addresses, probes, delays, zones of IPv6, and the PROXY header.

use std::time::Duration;

use fulmar_client::{KeepAlive, Options};

use crate::option::OptionId as Id;
use crate::values::OptionValues;

/// The options of connections to a target whose address has this zone.
pub(crate) fn socket_options(values: &OptionValues, zone: Option<&[u8]>) -> Options {
    Options {
        keep_alive: values.is_on(Id::TCP_KEEPALIVE).then(|| keep_alive(values)),
        nagle: !values.is_on(Id::TCP_NODELAY),
        fast_open: values.is_on(Id::TCP_FASTOPEN),
        proxy_header: values.is_on(Id::HAPROXYPROTOCOL),
        address_scope: match u32::try_from(values.number(Id::ADDRESS_SCOPE)) {
            Ok(scope) if scope > 0 => scope,
            Ok(_) | Err(_) => zone.map_or(0, scope_of),
        },
        attempt_delay: u64::try_from(values.number(Id::HAPPY_EYEBALLS_TIMEOUT_MS))
            .ok()
            .map(Duration::from_millis),
        shuffles_addresses: values.is_on(Id::DNS_SHUFFLE_ADDRESSES),
        ..Options::default()
    }
}

/// Times that the kernel refuses leave its own.
fn keep_alive(values: &OptionValues) -> KeepAlive {
    let seconds = |id, usual| match u64::try_from(values.number(id)) {
        Ok(seconds @ 1..=SECONDS_MAX) => Duration::from_secs(seconds),
        Ok(_) | Err(_) => usual,
    };
    KeepAlive {
        idle: seconds(Id::TCP_KEEPIDLE, USUAL_IDLE),
        interval: seconds(Id::TCP_KEEPINTVL, USUAL_INTERVAL),
        count: 0,
    }
}

/// A number, or the name of an interface; 0 if there is none of that name.
fn scope_of(zone: &[u8]) -> u32 {
    let Ok(zone) = std::str::from_utf8(zone) else { return 0 };
    if let Ok(number) = zone.parse() {
        return number;
    }
    if zone.contains('/') || zone.starts_with('.') {
        return 0; // no name of an interface
    }
    let index = std::fs::read_to_string(format!("/sys/class/net/{zone}/ifindex"));
    index.ok().and_then(|index| index.trim().parse().ok()).unwrap_or(0)
}

/// tcp(7): `TCP_KEEPIDLE` and `TCP_KEEPINTVL` in Linux.
const SECONDS_MAX: u64 = 32_767;
/// `tcp_keepalive_time` and `tcp_keepalive_intvl`, if the system was not changed.
const USUAL_IDLE: Duration = Duration::from_secs(7_200);
const USUAL_INTERVAL: Duration = Duration::from_secs(75);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::{Argument, EasyOptions};

    fn options_of(set: &[(Id, i64)], zone: Option<&[u8]>) -> Options {
        let mut options = EasyOptions::default();
        for (id, number) in set {
            options.set(*id, Argument::Number(*number)).expect("a valid option");
        }
        socket_options(&options.values, zone)
    }

    #[test]
    fn by_default_sockets_have_no_options() {
        let attempt_delay = Some(Duration::from_millis(200));
        let expected = Options { attempt_delay, ..Options::default() };
        assert_eq!(options_of(&[], None), expected);
    }

    #[test]
    fn addresses_are_tried_as_the_options_demand() {
        let set = [(Id::HAPPY_EYEBALLS_TIMEOUT_MS, 7), (Id::DNS_SHUFFLE_ADDRESSES, 1)];
        let options = options_of(&set, None);
        assert_eq!(options.attempt_delay, Some(Duration::from_millis(7)));
        assert!(options.shuffles_addresses);
    }

    #[test]
    fn probes_have_the_times_of_the_options() {
        let probes = |set: &[(Id, i64)]| {
            let set = [&[(Id::TCP_KEEPALIVE, 1)], set].concat();
            let probes = options_of(&set, None).keep_alive.expect("probes");
            (probes.idle.as_secs(), probes.interval.as_secs())
        };
        assert_eq!(probes(&[]), (60, 60));
        assert_eq!(probes(&[(Id::TCP_KEEPIDLE, 7), (Id::TCP_KEEPINTVL, 9)]), (7, 9));
        let refused = [(Id::TCP_KEEPIDLE, 0), (Id::TCP_KEEPINTVL, 40_000)];
        assert_eq!(probes(&refused), (7_200, 75), "setsockopt(2) fails in libcurl");
    }

    #[test]
    fn the_option_precedes_the_zone_of_the_url() {
        let scope = |set: &[(Id, i64)], zone| options_of(set, zone).address_scope;
        assert_eq!(scope(&[], Some(b"7")), 7);
        assert_eq!(scope(&[(Id::ADDRESS_SCOPE, 3)], Some(b"7")), 3);
        assert_eq!(scope(&[], Some(b"lo")), 1, "the first interface of each network namespace");
        for zone in [&b"../lo"[..], b"no-such", b"..", b"\xff"] {
            assert_eq!(scope(&[], Some(zone)), 0);
        }
    }
}
