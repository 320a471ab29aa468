//! Runs the fuzz targets on mutated rules, with a fixed seed.

use std::panic::{AssertUnwindSafe, catch_unwind};

#[path = "../../../../../fuzz/src/rules.rs"]
#[allow(unreachable_pub, reason = "a crate of its own elsewhere")]
mod fuzz;

use crate::smoke::mutate::{Random, mutate};

type SmokeTarget = (&'static str, fn(&[u8]), &'static [&'static str]);

const TARGETS: [SmokeTarget; 3] = [
    ("rule_formats", fuzz::formats, FORMATS),
    ("rule_conditions", fuzz::conditions, CONDITIONS),
    ("rules", fuzz::rules, RULES),
];

#[test]
fn mutated_rules_are_compiled_or_refused() {
    let mut random = Random(SEED);
    for (name, target, cases) in TARGETS {
        let corpus: Vec<_> = cases.iter().map(|case| case.as_bytes().to_vec()).collect();
        corpus.iter().for_each(|case| target(case));
        for round in 0..ROUNDS {
            let mut data = corpus[random.below(corpus.len())].clone();
            (0..=random.below(6)).for_each(|_| mutate(&mut data, &corpus, &mut random));
            let result = catch_unwind(AssertUnwindSafe(|| target(&data)));
            assert!(result.is_ok(), "{name}, round {round}: {}", data.escape_ascii());
        }
    }
}

const FORMATS: &[&str] = &[
    "/x?y=%0a\0%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %hr %hs %{+Q}r",
    "a=1; b=2\0%{+X}ci %[src] %[path,url_dec] %[req.hdr(host),lower,field(1,.)] %{-Q,+E}HU %%",
    "\r\n\x01\0%[var(txn.evil)] %{+E}[var(txn.evil)] %[req.cook(a),bytes(1,2),base64] %T %t %Tl",
    "1\0\\1%[rand(5),add(1),mod(2)] %[date,utime(%Y-%m-%d)] %[str(a,b),concat(x,txn.evil,y)]",
];
const CONDITIONS: &[&str] = &[
    "/a\0x path_beg /a\ny hdr(host) -i -m reg ^a(b|c)*$\nif x !y or { src 10.0.0.0/8 }",
    "/a?b=1\0n url_param(b) -m int gt 0\nm query,url_dec -m sub a\n\
     unless n m || { method GET POST }",
    "\x16\x03\x01\0req.ssl_hello_type 1\nif { req.ssl_sni -i a.example } { req.len ge 5:9 }",
    "a=b\0c req.cook(a) -m len 1:5\nif c { res.hdr_cnt(set-cookie) 1 2 } or { always_true }",
];
const RULES: &[&str] = &[
    "/a\0set-header x %[src] if { path /a }\nreplace-path (.*) /b\\1\ndeny deny_status 403",
    "/a/../b?c\0normalize-uri path-strip-dotdot\nset-var(txn.a) path,length\nreturn status 200",
    "x\0redirect prefix https://h code 301 drop-query\ndel-header host -m beg x\nset-status 204",
    "h\0accept if { src 127.0.0.1 }\nreject\nset-src src,ipmask(24)\nset-var(sess.x) int(3)",
    "v\0replace-value host (.) <\\1>\nadd-header set-cookie a=%[path]\ntarpit\nallow",
];
const SEED: u64 = 0x5151_7a9e_0bad_cafe;
const ROUNDS: usize = 300;
