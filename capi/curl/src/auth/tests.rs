//! The expectations are those of libcurl's tests, or were recorded from curl 7.88.1.

use super::choice::ChallengeInput;
use super::digest::BadDigest;
use super::ntlm::BadNtlm;
use super::*;

/// Tests 1933 to 1936.
#[test]
fn sigv4_signs_with_the_parameters_of_the_option() {
    for (test, option, signature) in [
        (1933, "xxx", "3d8e00a02e437211a596143dcd590fcc805b731365c68f7f48951ea6eda39c4f"),
        (1934, "xxx:yyy", "cf8dc9a4af903a1a9bb1385d8e2366d780afb501e266436598438395e502d58c"),
        (1935, "xxx:yyy:rrr", "a0b11b97b54689428d4188b788ed32865d607822d85d3e91cf06141f479dac0b"),
        (
            1936,
            "xxx:yyy:rrr:sss",
            "026b713d76b0789bd224c5e41322f74eed088f8a22fd15183ca68376c575c5b0",
        ),
    ] {
        let path = format!("/{test}/testapi/test");
        let request = SignedRequest {
            host: b"127.0.0.1",
            host_value: b"127.0.0.1:9000",
            path: path.as_bytes(),
            headers: &[JSON],
            password: b"yyy",
            ..UNSIGNED
        };
        let name = if option.contains("yyy") { "Yyy" } else { "Xxx" };
        let (value, date) = sign(option, &request);
        assert!(value.ends_with(&format!(", Signature={signature}")), "{test}: {value}");
        assert!(value.starts_with("XXX4-HMAC-SHA256 Credential=xxx/19700101/"), "{value}");
        assert_eq!(date.unwrap(), format!("X-{name}-Date: 19700101T000000Z"));
    }
}

/// Tests 1955 to 1959.
#[test]
fn sigv4_signs_the_headers_of_the_application() {
    let empty = [b"X-Xxx-Content-Sha256: ", EMPTY_HASH].concat();
    let long = [&empty[..], EMPTY_HASH].concat();
    let mixed: &[&[u8]] = &[
        b"test2: 1234",
        JSON,
        b"test1:",
        b"test0",
        b"test_space: t\ts  m\t   end    ",
        b"tesMixCase: MixCase",
    ];
    for (signature, headers) in [
        ("779a8ff876528aece8bf03b1296702af0644a4745aa5feabb6ebb1a7bb0d907e", mixed),
        ("dfe78c8846a9b7d65d1eb4c1d6ea7bc886650d03f3568088cb8d5b4c3778287f", &[JSON, &empty]),
        (
            "25b4cac711ea8f65010c485d3778885f5f3870d0b8ff0b3ab58a8d7eeab991ff",
            &[JSON, b"X-Xxx-Content-Sha256: arbitrary"],
        ),
        (
            "25b4cac711ea8f65010c485d3778885f5f3870d0b8ff0b3ab58a8d7eeab991ff",
            &[JSON, b"X-Xxx-Content-Sha256: \tarbitrary "],
        ),
        ("7b343a4aa55d73ffc05005d84480bc705a3367373ed8cae1a1c0fbd2b3aa0483", &[JSON, &long]),
    ] {
        let (value, _) = sign("xxx", &SignedRequest { headers, ..UNSIGNED });
        assert!(value.ends_with(&format!(", Signature={signature}")), "{value}");
    }
}

/// Recorded from curl 7.88.1, with a date of the application.
#[test]
fn sigv4_signs_a_date_of_the_application() {
    let date: &[u8] = b"X-Xxx-Date: 20200102T030405Z";
    let request = SignedRequest { path: b"/p", query: b"q=1&b", password: b"yyy", ..UNSIGNED };
    let post = SignedRequest { method: b"POST", body: b"body", ..request };
    let odd: &[&[u8]] = &[date, b"Accept;", b"X-b: 2", b"x-B: 1", b"x-b:", b"X-a:"];
    let odd_names = "accept;;host;x-a;x-b;x-b;x-b;x-xxx-date";
    for (request, names, signature) in [
        (
            SignedRequest { headers: &[date, b"Host: other"], ..request },
            "host;x-xxx-date",
            "c357dcc5306f967cbfa909ff75fe477b6f0f1a2532a85564f5072dcc1c895181",
        ),
        (
            SignedRequest { headers: &[date, b"Content-Type: a/b"], ..post },
            "content-type;host;x-xxx-date",
            "d747023ca4aa98634d9adafcbc704933d129d34e3b2b2de043e3c1995d408e0f",
        ),
        (
            SignedRequest { headers: &[date], ..post },
            "host;x-xxx-date",
            "6a667467de2c3b5852c6b9fab88d461ed1e329503a0fad9f56f68f0c2f133d1f",
        ),
        (
            SignedRequest {
                headers: &[b"X-Xxx-Date:  20200102T030405Z  "],
                path: b"/c",
                query: b"",
                ..request
            },
            "host;x-xxx-date",
            "f93cff6e0257a4f99ca47a32b50e1d707dfbf887b500b253d635a28c3977d79f",
        ),
        (
            SignedRequest { headers: odd, ..request },
            odd_names,
            "7a7cd2ee20bc8251c32a36bbd3a53d0fd2977c018b007607c462b68c057f1f39",
        ),
    ] {
        let (value, date) = sign("xxx", &request);
        let expected = format!(
            "XXX4-HMAC-SHA256 Credential=xxx/20200102/ple/exam/xxx4_request, \
             SignedHeaders={names}, Signature={signature}"
        );
        assert_eq!((value, date), (expected, None));
    }
}

fn sign(option: &str, request: &SignedRequest<'_>) -> (String, Option<String>) {
    let (value, date) = SigV4::parse(option.as_bytes()).unwrap().sign(request).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(value), date.map(text))
}

const UNSIGNED: SignedRequest<'_> = SignedRequest {
    method: b"GET",
    host: b"exam.ple.com",
    host_value: b"exam.ple.com:9000",
    path: b"/aws_sigv4/testapi/test",
    query: b"",
    headers: &[],
    body: b"",
    user: b"xxx",
    password: b"",
    now: 0,
};

const JSON: &[u8] = b"Content-Type: application/json";

const EMPTY_HASH: &[u8] = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Recorded: the challenge, the random part, and what follows the user name.
#[test]
fn digest_answers_are_those_of_libcurl() {
    const USER: &str = "us\\\"er\\\\x";
    let cases = [
        (
            "realm=\"te\\\"st\", nonce=\"a b\\\\c\"",
            "",
            "realm=\"te\\\"st\", nonce=\"a b\\\\c\", uri=\"/p?q=1\", \
             response=\"9ade2b73133fc301a2c7662d2b0ba010\"",
        ),
        (
            "realm=unq , nonce=x y, opaque=\"o\", qop=\"auth-int, auth\", algorithm=MD5",
            "ZDYwMjFkNjcwZGEwNDJkYWRmZThmZmJiODE2NDU4Mjk=",
            "realm=\"unq \", nonce=\"x y\", uri=\"/p?q=1\", \
             cnonce=\"ZDYwMjFkNjcwZGEwNDJkYWRmZThmZmJiODE2NDU4Mjk=\", nc=00000001, qop=auth, \
             response=\"8800e2a5802ba36510ea36b4d35b465e\", opaque=\"o\", algorithm=MD5",
        ),
        (
            "realm=\"r\", nonce=\"n\", qop=\"auth-int\",algorithm=md5-sess",
            "NDljMjUwM2ViMzExYjY4MjU2MWM3YzhiNzgzNWNjZDY=",
            "realm=\"r\", nonce=\"n\", uri=\"/p?q=1\", \
             cnonce=\"NDljMjUwM2ViMzExYjY4MjU2MWM3YzhiNzgzNWNjZDY=\", nc=00000001, qop=auth-int, \
             response=\"c50718142d24688e2317b70ae584fa48\", algorithm=md5-sess",
        ),
        (
            "realm=\"r\", nonce=\"n\", algorithm=SHA-512-256, qop=\"auth\"",
            "MDFjMjNmMzlhOTM2ZDMzMDI3ZjgxNmRmNDY1MGEwYmU=",
            "realm=\"r\", nonce=\"n\", uri=\"/p?q=1\", \
             cnonce=\"MDFjMjNmMzlhOTM2ZDMzMDI3ZjgxNmRmNDY1MGEwYmU=\", nc=00000001, qop=auth, \
             response=\"94596fe0cbfd4dddcb942897bf384e6030de9b1847fa3d5702f1a23a96870e4c\", \
             algorithm=SHA-512-256",
        ),
        (
            "realm=\"r\" nonce=\"n\" opaque=\"\"",
            "",
            "realm=\"r\", nonce=\"n\", uri=\"/p?q=1\", \
             response=\"57f93271917dda4e897884cb0d8f87c1\", opaque=\"\"",
        ),
    ];
    for (challenge, cnonce, expected) in cases {
        let expected = format!("Digest username=\"{USER}\", {expected}");
        assert_eq!(answer(challenge, cnonce).unwrap(), expected, "{challenge}");
    }
    let expected = "Digest username=\"ffaac5a7f9c56cb393427e57ed75c8524348e63f067c015626dd722ce847\
        c0b2\", realm=\"\", nonce=\"n\", uri=\"/p?q=1\", \
        cnonce=\"MmVkZTdlMDIzM2ZlNzdjOWI2ZDJlMmNkZjgxOWZkMjE=\", nc=00000001, qop=auth, \
        response=\"04a272141808617340eefc36e187a19c26d45fe712cf047409e14f17af4d4b7f\", \
        algorithm=SHA-256, userhash=true";
    let challenge = "nonce=\"n\", algorithm=SHA-256, qop=auth, userhash=true";
    let cnonce = "MmVkZTdlMDIzM2ZlNzdjOWI2ZDJlMmNkZjgxOWZkMjE=";
    assert_eq!(answer(challenge, cnonce).unwrap(), expected);
    for challenge in [
        "realm=\"r\", nonce=\"n\", algorithm=MD5-sess",
        "realm=\"r\"",
        "realm=\"r\", nonce=\"n\", algorithm=foo",
        " realm=\"r\",,nonce=\"n\"",
        "realm = \"r\", nonce=\"n\"",
        "realm=\"r, nonce=\"n",
        "nonce=\"n\\",
    ] {
        assert_eq!(answer(challenge, ""), None, "{challenge}");
    }
}

fn answer(challenge: &str, cnonce: &str) -> Option<String> {
    let mut digest = DigestState::default();
    digest.handle_challenge(challenge.as_bytes()).ok()?;
    authorize(&mut digest, cnonce)
}

fn authorize(digest: &mut DigestState, cnonce: &str) -> Option<String> {
    let request = DigestRequest { method: b"GET", target: b"/p?q=1", omits_query: false };
    let value = digest.authorize(b"us\"er\\x", b"pa:ss", request, cnonce.as_bytes())?;
    Some(String::from_utf8(value).unwrap())
}

/// A user of a URL may have an encoded line end.
#[test]
fn digest_sends_no_control_characters() {
    let mut digest = DigestState::default();
    digest.handle_challenge(b"realm=\"r\", nonce=\"n\"").expect("valid");
    let request = DigestRequest { method: b"GET", target: b"/", omits_query: false };
    let mut value = |user: &[u8]| digest.authorize(user, b"p", request, b"c");
    assert!(value(b"user").is_some());
    assert_eq!(value(b"user\r\nX: y"), None);
}

#[test]
fn digest_counts_the_uses_of_a_nonce() {
    let mut digest = DigestState::default();
    assert_eq!(authorize(&mut digest, "c"), None);
    assert_eq!(digest.handle_challenge(b"nonce=\"n\", qop=\"auth\""), Ok(()));
    assert!(authorize(&mut digest, "c").unwrap().contains("cnonce=\"c\", nc=00000001"));
    assert!(authorize(&mut digest, "d").unwrap().contains("cnonce=\"c\", nc=00000002"));
    assert_eq!(digest.handle_challenge(b"nonce=\"m\", qop=\"auth\", stale=true"), Ok(()));
    assert!(authorize(&mut digest, "d").unwrap().contains("cnonce=\"d\", nc=00000001"));
    assert_eq!(digest.handle_challenge(b"nonce=\"o\", qop=\"auth\""), Err(BadDigest));
}

/// Recorded with --anyauth: the fields of a response, and the scheme of the next request.
#[test]
fn schemes_are_picked_as_by_libcurl() {
    let any = !(method::DIGEST_IE | method::NTLM_WB | method::AWS_SIGV4);
    for (fields, has_token, picked) in [
        (&["Basic realm=\"x\"", "Digest realm=\"r\", nonce=\"n\""][..], false, method::DIGEST),
        (&["Basic realm=\"x\", Digest realm=\"r\", nonce=\"n\""], false, method::DIGEST),
        (&["NTLM, Basic realm=\"x\""], false, method::NTLM),
        (&["Negotiatex, Basicx", "basic"], false, method::BASIC),
        (&["Bearer, Basic"], false, method::BASIC),
        (&["Bearer, Basic"], true, method::BEARER),
        (&["Unknown"], false, 0),
    ] {
        let mut choice = AuthChoice::new(any);
        let mut digest = DigestState::default();
        assert_eq!(choice.scheme(), None);
        for field in fields {
            let input = choice.handle_challenge(field.as_bytes(), &mut digest);
            assert_eq!(input, ChallengeInput::default(), "{field}");
        }
        assert_eq!(choice.pick(has_token), picked != 0, "{fields:?}");
        assert_eq!(choice.scheme().unwrap_or(0), picked, "{fields:?}");
    }
}

#[test]
fn refused_credentials_are_a_problem() {
    let mut digest = DigestState::default();
    let mut choice = AuthChoice::new(method::BASIC);
    assert_eq!(choice.scheme(), Some(method::BASIC));
    assert!(choice.handle_challenge(b"Basic realm=\"x\"", &mut digest).is_problem);
    assert_eq!((choice.available, choice.pick(false)), (method::BASIC, false));
    let mut choice = AuthChoice::new(method::DIGEST_IE);
    assert_eq!(choice.scheme(), Some(method::DIGEST));
    assert!(choice.handle_challenge(b"Digest x=y", &mut digest).is_problem);
    assert!(!choice.handle_challenge(b"Digest nonce=n", &mut digest).is_problem, "a second one");
    let mut choice = AuthChoice::new(method::NTLM);
    assert_eq!(choice.scheme(), Some(method::NTLM));
    let ntlm = choice.handle_challenge(b"NTLM TlRMTVNTUAAC\r\n", &mut digest).ntlm;
    assert_eq!(ntlm.as_deref(), Some(&b"TlRMTVNTUAAC"[..]));
}

#[test]
fn values_of_simple_schemes() {
    assert_eq!(basic(b"u", b"p"), b"Basic dTpw");
    assert_eq!(bearer(b"tok"), b"Bearer tok");
    let error = |option: &str, host: &str| {
        let request = SignedRequest { host: host.as_bytes(), ..UNSIGNED };
        let signed = SigV4::parse(option.as_bytes()).and_then(|sigv4| sigv4.sign(&request));
        signed.map(drop).unwrap_err()
    };
    assert_eq!(error("", "a.b.c"), SigV4Error::Provider);
    assert_eq!(error("x", "host"), SigV4Error::Service);
    assert_eq!(error("x", "a.b"), SigV4Error::Region);
}

/// Recorded: the challenge, the login, the entropy, the seconds, and the answer.
#[test]
fn ntlm_answers_are_those_of_libcurl() {
    let first = ntlm_negotiate();
    assert_eq!(first, b"NTLM TlRMTVNTUAABAAAABoIIAAAAAAAAAAAAAAAAAAAAAAA=");
    let oem = "TlRMTVNTUAACAAAAAAAAADAAAACGggAAAQIDBAUGBwgAAAAAAAAAAAAAAAAwAAAA";
    let unicode = "TlRMTVNTUAACAAAAAAAAADAAAACHggAAAQIDBAUGBwgAAAAAAAAAAAAAAAAwAAAA";
    for (challenge, user, password, entropy, answer) in [
        (
            oem,
            "user",
            "SecREt01",
            "",
            "TlRMTVNTUAADAAAAGAAYAEAAAAAYABgAWAAAAAAAAABwAAAABAAEAHAAAAALAAsAdAAAAAAAAAAAAAAA\
             hoIAACWETEWGzgf5893GSLuLQle7kl+LEd1ri6R++AyCRqS91a62M0ymhNCI7jGY0X5WoXVzZXJXT1JL\
             U1RBVElPTg==",
        ),
        (
            unicode,
            "user",
            "SecREt01",
            "",
            "TlRMTVNTUAADAAAAGAAYAEAAAAAYABgAWAAAAAAAAABwAAAACAAIAHAAAAAWABYAeAAAAAAAAAAAAAAA\
             h4IAACWETEWGzgf5893GSLuLQle7kl+LEd1ri6R++AyCRqS91a62M0ymhNCI7jGY0X5WoXUAcwBlAHIA\
             VwBPAFIASwBTAFQAQQBUAEkATwBOAA==",
        ),
        (
            oem,
            "DOM\\user",
            "pässword-is-very-long",
            "",
            "TlRMTVNTUAADAAAAGAAYAEAAAAAYABgAWAAAAAMAAwBwAAAABAAEAHMAAAALAAsAdwAAAAAAAAAAAAAA\
             hoIAAAJH0Vu9bn8IQowA9TBxletIJCct5w66/15h8WYAi86m3QZEttQfQK8OGQp5N6dSN0RPTXVzZXJX\
             T1JLU1RBVElPTg==",
        ),
        (
            "TlRMTVNTUAACAAAAAAAAADAAAAAHgogAAQIDBAUGBwgAAAAAAAAAABQAFAAwAAAAAgAMAEQATwBNAEEA\
             SQBOAAAAAAA=",
            "Dom\\uSer",
            "SecREt01",
            "8208359e1b658ecd",
            "TlRMTVNTUAADAAAAGAAYAEAAAABEAEQAWAAAAAYABgCcAAAACAAIAKIAAAAWABYAqgAAAAAAAAAAAAAA\
             B4KIAIUwVwC9vtaeiJCNZWigHxCCCDWeG2WOzRUIOEPA9AF7JT/O9PNpJZUBAQAAAAAAAIDWXl9YfN0B\
             ggg1nhtljs0AAAAAAgAMAEQATwBNAEEASQBOAAAAAAAAAAAARABvAG0AdQBTAGUAcgBXAE8AUgBLAFMA\
             VABBAFQASQBPAE4A",
        ),
        (
            "TlRMTVNTUAACAAAAAAAAADAAAAAGgggAAQIDBAUGBwgAAAAAAAAAAAAAAAAwAAAA",
            "uSer",
            "SecREt01",
            "e784d43bdfec9dda",
            "TlRMTVNTUAADAAAAGAAYAEAAAAAwADAAWAAAAAAAAACIAAAABAAEAIgAAAALAAsAjAAAAAAAAAAAAAAA\
             BoIIAO2WFp1vKyzZ2s8f/PUwh4bnhNQ73+yd2mlOFV8Gfq4L83QhWRi8BwUBAQAAAAAAAIDWXl9YfN0B\
             54TUO9/sndoAAAAAAAAAAHVTZXJXT1JLU1RBVElPTg==",
        ),
    ] {
        let value = ntlm_answer(challenge, user.as_bytes(), password, entropy);
        assert_eq!(value.unwrap(), format!("NTLM {answer}"), "{user}");
    }
}

fn ntlm_answer(challenge: &str, user: &[u8], password: &str, entropy: &str) -> Option<String> {
    let entropy = u64::from_str_radix(entropy, 16).unwrap_or_default().to_be_bytes();
    let login = NtlmLogin { user, password: password.as_bytes(), entropy, now: 1_795_554_689 };
    let value = NtlmChallenge::parse(challenge.as_bytes()).ok()?.authorize(login)?;
    Some(String::from_utf8(value).unwrap())
}

#[test]
fn ntlm_refuses_bad_challenges_and_long_names() {
    let oem = "TlRMTVNTUAACAAAAAAAAADAAAACGggAAAQIDBAUGBwgAAAAAAAAAAAAAAAAwAAAA";
    assert!(ntlm_answer(oem, &[b'A'; 900], "p", "").is_some());
    assert!(ntlm_answer(oem, &[b'A'; 901], "p", "").is_none());
    let beyond = "TlRMTVNTUAACAAAAAAAAADAAAAAHgogAAQIDBAUGBwgAAAAAAAAAABQAFAAwAAAAAgAMAEQATwBN";
    let first = "TlRMTVNTUAABAAAABoIIAAAAAAAAAAAAAAAAAAAAAAA=";
    for challenge in ["", "%%%", "TlRMTVNTUAAC", first, beyond] {
        assert_eq!(NtlmChallenge::parse(challenge.as_bytes()), Err(BadNtlm), "{challenge}");
    }
}
