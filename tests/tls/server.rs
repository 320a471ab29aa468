//! A server's TLS without sockets: the choice of certificates, reloads, client certificates, and
//! versions.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{http1_tls, server_tls, trusting_over_http1};
use fulmar_tests::tls_end::{TlsEnd, carry, established_pair, pair};
use fulmar_tls::{
    Authorities, ClientAuth, ClientOptions, ClientTls, Identity, Pem, ServerOptions, ServerTls,
    TlsError, UnknownNames, Verify, Version,
};

fn server(options: ServerOptions) -> ServerTls {
    ServerTls::new(options).expect("options that can be used")
}

/// The certificate that a client gets which requests `host`, and does not verify.
fn shown(certs: &Certs, server: &ServerTls, host: &str) -> Vec<u8> {
    let options =
        ClientOptions { verify: Verify::Nothing, resumption_len: 0, ..trusting_over_http1(certs) };
    let client = ClientTls::new(options).expect("no files");
    let (mut client, mut server) = pair(&client, server, host);
    carry(&mut client, &mut server, |n| n).unwrap_or_else(|error| panic!("{host}: {error}"));
    own_certificate(&client)
}

fn own_certificate(client: &TlsEnd) -> Vec<u8> {
    client.info().certificates().next().expect("a server has one").to_vec()
}

/// What is in a file of one certificate.
fn der(identity: &Identity) -> Vec<u8> {
    use rcgen::PublicKeyData as _;
    let Pem::File(path) = &identity.key else { panic!("a file") };
    let pem = fs::read_to_string(path).expect("it was made");
    rcgen::KeyPair::from_pem(&pem).expect("a key").der_bytes().to_vec()
}

fn holds(certificate: &[u8], key: &[u8]) -> bool {
    certificate.windows(key.len()).any(|window| window == key)
}

#[test]
fn each_name_gets_its_own_certificate() {
    let certs = Certs::new();
    let names: [(&str, &[&str]); 4] = [
        ("first", &["first.example"]),
        ("exact", &["a.wild.example", "Mixed.Example"]),
        ("wild", &["*.wild.example"]),
        ("last", &["last.example", "first.example"]),
    ];
    let identities = names.map(|(file, names)| certs.issue(file, names)).to_vec();
    let keys: Vec<_> = identities.iter().map(der).collect();
    let options = ServerOptions { identities, ..ServerOptions::default() };
    let strict = ServerOptions { unknown_names: UnknownNames::Refused, ..options.clone() };
    let (open, strict) = (server(options), server(strict));
    for (host, wanted) in [
        ("first.example", 0),
        ("FIRST.example", 0),
        ("a.wild.example", 1),
        ("mixed.example", 1),
        ("b.wild.example", 2),
        ("last.example", 3),
    ] {
        for server in [&open, &strict] {
            assert!(holds(&shown(&certs, server, host), &keys[wanted]), "{host}");
        }
    }
    for host in ["wild.example", "a.b.wild.example", "example", "other.example", "127.0.0.1"] {
        assert!(holds(&shown(&certs, &open, host), &keys[0]), "{host}: the first");
        let (mut client, mut end) = pair(&http1_tls(&certs), &strict, host);
        let error = carry(&mut client, &mut end, |n| n).expect_err("nobody has that name");
        let name = (host != "127.0.0.1").then(|| host.to_owned());
        assert_eq!(error.downcast_ref(), Some(&TlsError::UnknownName(name)));
        client.wire.extend_from_slice(&end.take());
        let error = client.open().expect_err("an alert");
        assert!(error.to_string().contains("AccessDenied"), "{error}");
    }
}

#[test]
fn a_certificate_may_be_in_memory() {
    let certs = Certs::new();
    let (cert, key) = certs.files(CertOwner::Server);
    let read = |path| Pem::Bytes(Bytes::from(fs::read(path).expect("it was made")));
    let identity = Identity::new(read(cert), read(key));
    let shown = format!("{identity:?}");
    assert!(shown.len() < 100 && !shown.contains("PRIVATE"), "{shown}");
    established_pair(&http1_tls(&certs), &server(identity.into()));
    let empty = Pem::Bytes(Bytes::new());
    let error = ServerTls::new(Identity::new(empty.clone(), empty).into());
    let error = error.expect_err("nothing is in it").to_string();
    assert_eq!(error, "0 bytes of PEM: no certificate in PEM");
}

#[test]
fn unusable_certificates_are_reported_at_the_start() {
    let certs = Certs::new();
    let complaint = |options| ServerTls::new(options).expect_err("it is wrong").to_string();
    let says = |options, wanted: &str| {
        let text = complaint(options);
        assert!(text.contains(wanted), "{wanted:?} is not in {text:?}");
    };
    let good = || ServerOptions::from(certs.identity(CertOwner::Server));
    let two = |second| ServerOptions {
        identities: vec![certs.identity(CertOwner::Server), second],
        ..ServerOptions::default()
    };
    says(ServerOptions::default(), "a server needs a certificate");
    let (server_cert, server_key) = certs.files(CertOwner::Server);
    let (client_cert, _) = certs.files(CertOwner::Client);
    says(
        two(Identity::files(&client_cert, &server_key)),
        "Server.key: private key does not belong to the certificate of",
    );
    says(two(Identity::files(&client_cert, &server_key)), "Client.pem");
    says(two(Identity::files("nowhere.pem", &server_key)), "nowhere.pem: No such file");
    says(two(Identity::files(&server_cert, "nowhere.key")), "nowhere.key: No such file");
    says(two(Identity::files(&server_key, &server_key)), "Server.key: no certificate in PEM");
    says(two(Identity::files(&server_cert, &server_cert)), "Server.pem: no private key in PEM");
    let broken = certs.path().join("broken.pem");
    let text = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    fs::write(&broken, text).expect("room");
    says(two(Identity::files(&broken, &server_key)), "broken.pem: ");

    let chain = certs.path().join("chain.pem");
    let read = |path: &Path| fs::read_to_string(path).expect("it was made");
    for (then, good) in [(certs.ca(), true), (certs.files(CertOwner::Client).0, false)] {
        fs::write(&chain, read(&server_cert) + &read(&then)).expect("room");
        let made = ServerTls::new(two(Identity::files(&chain, &server_key)));
        match made {
            Ok(_) => assert!(good),
            Err(error) => {
                assert!(!good, "{error}");
                let text = error.to_string();
                assert!(text.ends_with("no other certificate issued the first one"));
            }
        }
    }

    let ciphers = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let wrong = ServerOptions { ciphers: ciphers(&["TLS_RSA_WITH_RC4_128_MD5"]), ..good() };
    says(wrong.clone(), "unknown cipher suite TLS_RSA_WITH_RC4_128_MD5; known: TLS_");
    says(wrong, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256");
    let old = ciphers(&["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]);
    let never = ServerOptions { ciphers: old, version_min: Version::Tls13, ..good() };
    says(never, "no cipher suite of an allowed TLS version");
    let upside_down = (Version::Tls13, Version::Tls12);
    let (version_min, version_max) = upside_down;
    says(ServerOptions { version_min, version_max, ..good() }, "minimum TLS version is newer");
    let nobody = ClientAuth::Required(Vec::new().into());
    says(ServerOptions { client_auth: nobody, ..good() }, "no root trust anchors");
    let key = ClientAuth::Optional(vec![server_key.into()].into());
    says(ServerOptions { client_auth: key, ..good() }, "Server.key: no certificate in PEM");
}

#[test]
fn a_reload_affects_new_sessions_only() {
    let certs = Certs::new();
    let identity = certs.issue("renewed", &["localhost"]);
    let tls = server(identity.clone().into());
    let elsewhere = tls.clone(); // as another thread has it
    let before = der(&identity);
    let (mut client, mut end) = established_pair(&http1_tls(&certs), &tls);
    let (mut late, mut begun) = pair(&http1_tls(&certs), &tls, "localhost");

    certs.issue("renewed", &["localhost"]);
    assert!(holds(&shown(&certs, &tls, "localhost"), &before), "nobody has asked for it yet");
    elsewhere.reload().expect("a new certificate");
    let after = der(&identity);
    assert!(before != after && holds(&shown(&certs, &tls, "localhost"), &after));

    carry(&mut late, &mut begun, |n| n).expect("it goes on as it began");
    assert!(holds(&own_certificate(&late), &before));
    end.send(b"still here");
    client.send(b"so am I");
    carry(&mut client, &mut end, |n| n).expect("so do those that stood");
    assert_eq!((&client.above[..], &end.above[..]), (&b"still here"[..], &b"so am I"[..]));
}

#[test]
fn a_reload_that_fails_leaves_all_as_it_was() {
    let certs = Certs::new();
    let good = certs.issue("good", &["localhost"]);
    let other = certs.issue("other", &["other.example"]);
    let identities = vec![good.clone(), other.clone()];
    let tls = server(ServerOptions { identities, ..ServerOptions::default() });
    let before = (der(&good), der(&other));
    certs.issue("good", &["localhost"]); // this one could be used,
    let Pem::File(path) = &other.key else { panic!("a file") };
    fs::write(path, "half of a ke").expect("room"); // and this one is being written
    let error = tls.reload().expect_err("it is broken");
    assert_eq!(error.path(), Some(&**path));
    assert!(error.to_string().contains("other.key: no private key in PEM"), "{error}");
    assert!(holds(&shown(&certs, &tls, "localhost"), &before.0));
    assert!(holds(&shown(&certs, &tls, "other.example"), &before.1));
    certs.issue("other", &["other.example"]);
    tls.reload().expect("it is complete now");
    assert!(holds(&shown(&certs, &tls, "localhost"), &der(&good)));
    let options = ServerOptions { alpn: vec![b"other".to_vec()], ..tls.options() };
    tls.replace(options.clone()).expect("other options");
    assert_eq!(tls.options(), options);
}

/// Certificate and key are of one kind at every moment, on every thread.
#[test]
fn threads_shake_hands_while_certificates_change() {
    let certs = Certs::new();
    let one = ServerOptions::from(certs.issue("one", &["localhost"]));
    let other = ServerOptions::from(certs.issue("other", &["localhost"]));
    let tls = server(one.clone());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (client, server) = (http1_tls(&certs), tls.clone());
                scope.spawn(move || (0..50).for_each(|_| drop(established_pair(&client, &server))))
            })
            .collect();
        let mut turns = 0;
        while turns < 50 || threads.iter().any(|thread| !thread.is_finished()) {
            turns += 1;
            let next = if turns % 2 == 0 { &one } else { &other };
            tls.replace(next.clone()).expect("files");
        }
        threads.into_iter().for_each(|thread| thread.join().expect("all agree"));
    });
}

/// True if the second of two sessions resumes the first.
fn resumes(client: &ClientTls, server: &ServerTls, between: impl FnOnce()) -> bool {
    let (first, _) = established_pair(client, server);
    assert!(!first.info().resumed);
    between();
    let (client, server) = established_pair(client, server);
    assert_eq!(client.info().resumed, server.info().resumed);
    client.info().resumed
}

#[test]
fn tickets_outlive_a_reload_unless_clients_are_verified() {
    let certs = Certs::new();
    for version_max in [Version::Tls12, Version::Tls13] {
        let plain =
            ServerOptions { version_max, ..ServerOptions::from(certs.identity(CertOwner::Server)) };
        let tls = server(plain.clone());
        assert!(resumes(&http1_tls(&certs), &tls, || ()));
        assert!(resumes(&http1_tls(&certs), &tls, || tls.reload().expect("nothing new")));

        let verified = ServerOptions {
            client_auth: ClientAuth::Optional(vec![certs.ca().into()].into()),
            ..plain.clone()
        };
        let strict = server(verified.clone());
        assert!(resumes(&http1_tls(&certs), &strict, || ()));
        assert!(!resumes(&http1_tls(&certs), &strict, || strict.reload().expect("nothing new")));
        let begins = || tls.replace(verified.clone()).expect("from now on");
        assert!(!resumes(&http1_tls(&certs), &tls, begins), "a ticket of somebody unverified");
        let ends = || tls.replace(plain.clone()).expect("no more");
        assert!(!resumes(&http1_tls(&certs), &tls, ends));

        let none = server(ServerOptions { tickets: 0, ..plain });
        assert!(!resumes(&http1_tls(&certs), &none, || ()), "it gives none");
    }
}

#[test]
fn a_ticket_of_one_name_is_no_ticket_of_another() {
    let certs = Certs::new();
    let tls = server_tls(&certs, CertOwner::Server);
    let client = http1_tls(&certs);
    for (host, resumed) in [("localhost", false), ("test.example", false), ("localhost", true)] {
        let (mut client, mut end) = pair(&client, &tls, host);
        carry(&mut client, &mut end, |n| n).expect("they agree");
        assert_eq!((end.info().resumed, end.info().server_name), (resumed, Some(host)));
    }
}

#[test]
fn a_server_can_read_the_client_certificate() {
    let certs = Certs::new();
    let known = ClientOptions {
        identity: Some(certs.identity(CertOwner::Client)),
        ..trusting_over_http1(&certs)
    };
    let required = ClientAuth::Required(vec![certs.ca().into()].into());
    for version_max in [Version::Tls12, Version::Tls13] {
        let options = ServerOptions {
            client_auth: required.clone(),
            version_max,
            ..ServerOptions::from(certs.identity(CertOwner::Server))
        };
        let tls = server(options);
        let known = ClientTls::new(known.clone()).expect("files");
        for resumed in [false, true] {
            let (client, end) = established_pair(&known, &tls);
            let info = end.info();
            assert_eq!((info.version, info.resumed), (version_max, resumed));
            assert_eq!((info.alpn, info.cipher), (Some(&b"http/1.1"[..]), client.info().cipher));
            assert_eq!(info.server_name, Some("localhost"));
            assert_eq!(client.info().server_name, None, "it knows");
            assert_eq!(info.certificates().len(), 1, "also of the session that is resumed");
            let own = der(&certs.identity(CertOwner::Client));
            assert!(holds(info.certificates().next().expect("one"), &own));
        }
    }
}

/// The server's result for clients with `identity`.
fn judged(certs: &Certs, auth: &ClientAuth, identity: Option<Identity>) -> Result<usize, TlsError> {
    let options = ServerOptions {
        client_auth: auth.clone(),
        ..ServerOptions::from(certs.identity(CertOwner::Server))
    };
    let client =
        ClientTls::new(ClientOptions { identity, ..trusting_over_http1(certs) }).expect("files");
    let (mut client, mut end) = pair(&client, &server(options), "localhost");
    match carry(&mut client, &mut end, |n| n) {
        Ok(()) => Ok(end.info().certificates().len()),
        Err(error) => Err(*error.downcast::<TlsError>().expect("an error of TLS")),
    }
}

#[test]
fn clients_are_accepted_by_their_certificates() {
    let certs = Certs::new();
    let authorities = Authorities { roots: vec![certs.ca().into()], revoked: Vec::new() };
    let revoking = Authorities { revoked: vec![certs.revoked().into()], ..authorities.clone() };
    let client = || Some(certs.identity(CertOwner::Client));
    for (auth, without) in [
        (ClientAuth::None, Ok(0)),
        (ClientAuth::Optional(authorities.clone()), Ok(0)),
        (ClientAuth::Required(authorities), Err(TlsError::NoCertificate)),
        (ClientAuth::Optional(revoking.clone()), Ok(0)),
        (ClientAuth::Required(revoking), Err(TlsError::NoCertificate)),
    ] {
        let asked = auth != ClientAuth::None;
        assert_eq!(judged(&certs, &auth, None), without, "{auth:?}");
        assert_eq!(judged(&certs, &auth, client()), Ok(usize::from(asked)), "{auth:?}");
        if asked {
            let judge = |who| judged(&certs, &auth, Some(certs.identity(who)));
            assert_eq!(judge(CertOwner::StrangerClient), Err(TlsError::UnknownIssuer), "{auth:?}");
            assert_eq!(judge(CertOwner::Expired), Err(TlsError::Expired), "{auth:?}");
            assert_eq!(judge(CertOwner::Server), Err(TlsError::WrongPurpose), "{auth:?}");
        }
    }
}

#[test]
fn a_client_whose_certificate_was_revoked_is_refused() {
    let certs = Certs::new();
    let roots = vec![certs.ca().into()];
    let all = Authorities { roots, revoked: Vec::new() };
    let listed = Authorities { revoked: vec![certs.revoked().into()], ..all.clone() };
    let gone = || Some(certs.identity(CertOwner::RevokedClient));
    assert_eq!(judged(&certs, &ClientAuth::Required(all), gone()), Ok(1), "nobody has the list");
    let listed = ClientAuth::Required(listed);
    assert_eq!(judged(&certs, &listed, gone()), Err(TlsError::Revoked));
}

#[test]
fn cipher_suites_are_those_named_in_the_order_named() {
    let certs = Certs::new();
    let named = |names: &[&str], version_max| {
        server(ServerOptions {
            ciphers: names.iter().map(|name| (*name).to_owned()).collect(),
            version_max,
            ..ServerOptions::from(certs.identity(CertOwner::Server))
        })
    };
    let (chacha, aes) = ("TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256");
    let (old_chacha, old_aes) = (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    );
    for (version, a, b) in [(Version::Tls13, chacha, aes), (Version::Tls12, old_chacha, old_aes)] {
        for order in [[a, b], [b, a]] {
            let (client, server) = established_pair(&http1_tls(&certs), &named(&order, version));
            assert_eq!((client.info().cipher, server.info().cipher), (order[0], order[0]));
        }
    }
    let only_rsa = named(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], Version::Tls12);
    let (mut client, mut end) = pair(&http1_tls(&certs), &only_rsa, "localhost");
    let error = carry(&mut client, &mut end, |n| n).expect_err("the key is of another kind");
    assert_eq!(error.downcast_ref(), Some(&TlsError::NoCommonCipher));
}

#[test]
fn clients_with_fewer_versions_are_served_or_get_an_alert() {
    let certs = Certs::new();
    let options = |version_min, version_max| ServerOptions {
        version_min,
        version_max,
        ..ServerOptions::from(certs.identity(CertOwner::Server))
    };
    let modern = server(options(Version::Tls13, Version::Tls13));
    assert_eq!(established_pair(&http1_tls(&certs), &modern).1.info().version, Version::Tls13);
    let old = server(options(Version::Tls12, Version::Tls12));
    assert_eq!(established_pair(&http1_tls(&certs), &old).1.info().version, Version::Tls12);
}
