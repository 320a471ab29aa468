//! Any text is accepted or rejected: nothing panics, and every error has a position.

use crate::memory::read;
use fulmar_haproxy::{ConfigLeniency, Severity};
use proptest::prelude::*;

/// Words that reach many parts of the parser.
fn word() -> impl Strategy<Value = String> {
    let known =
        prop::sample::select(KNOWN.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    prop_oneof![8 => known, 1 => "[ -~]{0,12}", 1 => "\\PC{0,4}"]
}

fn line() -> impl Strategy<Value = String> {
    prop::collection::vec(word(), 0..9).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn random_words_are_read_or_refused(lines in prop::collection::vec(line(), 0..30)) {
        let text = lines.join("\n") + "\n";
        for lenient in ["all", "names"] {
            let lenient = ConfigLeniency::parse(lenient).expect("a word that is known");
            if let Err(found) = read(&text, lenient) {
                let alerts = found.0.iter().filter(|found| found.severity == Severity::Alert);
                prop_assert!(alerts.clone().count() > 0);
                for alert in alerts {
                    prop_assert!(alert.place.is_some(), "{:?}", alert);
                    prop_assert!(!alert.to_string().is_empty());
                }
            }
        }
    }

    #[test]
    fn random_bytes_are_read_or_refused(text in any::<Vec<u8>>()) {
        let text = String::from_utf8_lossy(&text);
        let _ = read(&text, ConfigLeniency::default());
    }
}

const KNOWN: &str = "global defaults frontend backend listen userlist http-errors from a b c no \
    default option httplog httpchk forwardfor redispatch tcp-check mode http tcp bind :80 *:80-90 \
    ssl crt /certs/a.pem verify none server 127.0.0.1:80 check inter 3s weight 5 default-server \
    timeout client connect 5s 0 -1 99999999999 balance roundrobin uri hdr(host) random(3) \
    hash-type consistent acl path_beg /a -i -m reg -f /words if unless { } ! or http-request deny \
    set-header %[path] %ci redirect location prefix use_backend default_backend use-server log \
    stdout local0 info global log-format stats enable uri auth a:b admin errorfile 503 /503.http \
    http-error status string cookie insert indirect capture request header len 10 http-check \
    expect send connect meth GET rstatus ^2 tcp-request content accept inspect-delay session \
    connection user group password insecure-password .if .else .elif .endif 1 feature(OPENSSL) \
    .notice \"$A\" \"${B-c}\" ' \" \\ # set-var(txn.a) src,ipmask(24) nbthread 4 maxconn daemon \
    source init-addr none redir send-proxy id name on-error mark-down retries retry-on 500 \
    monitor-uri monitor fail disabled description unique-id-format http-reuse always";
