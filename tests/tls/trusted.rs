//! Certificates that are trusted themselves, as `openssl req -x509` makes them, and trust anchors
//! from memory.

use std::fs;
use std::path::{Path, PathBuf};

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{server_tls, trusting_over_http1};
use fulmar_tests::process::{peer, run};
use fulmar_tests::tls_end::{carry, pair};
use fulmar_tls::{
    ClientAuth, ClientOptions, ClientTls, Identity, Roots, ServerOptions, ServerTls, TlsError,
    Verify,
};
use tempfile::TempDir;

/// A directory in which openssl runs.
struct Openssl(TempDir);

impl Openssl {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn run(&self, line: &str) {
        run(peer("openssl").args(line.split_whitespace()).current_dir(self.0.path()));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The command of docs/serve.md with other options: `NAME.pem` and `NAME.key`.
    fn self_signed(&self, name: &str, options: &str) -> Identity {
        self.run(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key \
             -out {name}.pem {options}"
        ));
        Identity::files(self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")))
    }

    /// Without `-extfile` openssl makes a certificate of version 1.
    fn version_1(&self) -> Identity {
        self.run(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
             -keyout old.key -out old.csr",
        );
        self.run("x509 -req -in old.csr -signkey old.key -days 1 -out old.pem");
        Identity::files(self.path("old.pem"), self.path("old.key"))
    }
}

const LOCALHOST: &str = "-days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost";

fn server(identity: Identity) -> ServerTls {
    ServerTls::new(identity.into()).expect("a certificate and its key")
}

fn with_roots(roots: Roots) -> ClientOptions {
    ClientOptions { roots, ..ClientOptions::default() }
}

fn trusting_file(path: &Path) -> ClientOptions {
    with_roots(Roots::empty().file(path))
}

/// The client's verdict on the server's certificate.
fn verdict(options: ClientOptions, server: &ServerTls, host: &str) -> Result<(), TlsError> {
    let client = ClientTls::new(options).expect("roots that can be used");
    let (mut client, mut server) = pair(&client, server, host);
    match carry(&mut client, &mut server, |n| n) {
        Ok(()) => Ok(()),
        Err(error) => Err(*error.downcast::<TlsError>().expect("an error of TLS")),
    }
}

#[test]
fn self_signed_certificate_is_accepted_if_it_is_trusted_itself() {
    let openssl = Openssl::new();
    let plain = server(openssl.self_signed("plain", LOCALHOST));
    let leaf = format!("{LOCALHOST} -addext basicConstraints=critical,CA:FALSE");
    let leaf = server(openssl.self_signed("leaf", &leaf));
    let (plain_pem, leaf_pem) = (openssl.path("plain.pem"), openssl.path("leaf.pem"));
    assert_eq!(verdict(trusting_file(&plain_pem), &plain, "localhost"), Ok(()));
    assert_eq!(verdict(trusting_file(&leaf_pem), &leaf, "localhost"), Ok(()));
    let chain = |path| ClientOptions { verify: Verify::Chain, ..trusting_file(path) };
    assert_eq!(verdict(chain(&plain_pem), &plain, "other.example"), Ok(()));
    let named = |host| {
        let options = ClientOptions { verify: Verify::Name, ..ClientOptions::default() };
        verdict(options, &plain, host)
    };
    assert_eq!(named("localhost"), Ok(()), "whichever CA issued it");
    assert!(matches!(named("other.example"), Err(TlsError::WrongHost { .. })));
    // Another one of the same subject is not this one.
    openssl.self_signed("twin", LOCALHOST);
    let twin = trusting_file(&openssl.path("twin.pem"));
    assert_eq!(verdict(twin, &plain, "localhost"), Err(TlsError::AuthorityAsServer));
    let Err(TlsError::WrongHost { expected, presented }) =
        verdict(trusting_file(&plain_pem), &plain, "other.example")
    else {
        panic!("the name is not in the certificate");
    };
    assert_eq!((&*expected, &presented[..]), ("other.example", &["localhost".into()][..]));
}

#[test]
fn trusted_certificate_that_has_expired_is_refused() {
    let certs = Certs::new();
    for (who, error) in [
        (CertOwner::Expired, TlsError::Expired),
        (CertOwner::ExpiredAuthority, TlsError::Expired),
        (CertOwner::NotYetValid, TlsError::NotYetValid),
    ] {
        let options = trusting_file(&certs.files(who).0);
        assert_eq!(verdict(options, &server_tls(&certs, who), "localhost"), Err(error));
    }
}

#[test]
fn trusted_certificate_needs_no_issuer_but_must_not_be_revoked() {
    let certs = Certs::new();
    let own = |who| certs.files(who).0;
    let stranger = server_tls(&certs, CertOwner::Stranger);
    assert_eq!(verdict(trusting_file(&own(CertOwner::Stranger)), &stranger, "localhost"), Ok(()));
    let client = server_tls(&certs, CertOwner::Client);
    let trusted = trusting_file(&own(CertOwner::Client));
    assert!(verdict(trusted, &client, "client.example").is_err(), "not for servers");
    let revoked = server_tls(&certs, CertOwner::Revoked);
    let roots = Roots::empty().file(certs.ca()).file(own(CertOwner::Revoked));
    let options = ClientOptions { revoked: vec![certs.revoked()], ..with_roots(roots) };
    assert_eq!(verdict(options, &revoked, "localhost"), Err(TlsError::Revoked));
}

#[test]
fn client_certificate_that_is_trusted_itself_is_accepted() {
    let openssl = Openssl::new();
    let ann = openssl.self_signed("ann", "-days 1 -subj /CN=ann");
    let bob = openssl.self_signed("bob", "-days 1 -subj /CN=ann");
    let certs = Certs::new();
    let old = certs.identity(CertOwner::ExpiredAuthority);
    let authorities = [openssl.path("ann.pem"), certs.files(CertOwner::ExpiredAuthority).0];
    let authorities = authorities.map(|path| path.into());
    let mut options = ServerOptions::from(certs.identity(CertOwner::Server));
    options.client_auth = ClientAuth::Required(authorities.to_vec().into());
    let server = ServerTls::new(options).expect("files");
    for (identity, accepted) in [(ann, true), (bob, false), (old, false)] {
        let shown = identity.cert.to_string();
        let options = ClientOptions { identity: Some(identity), ..trusting_over_http1(&certs) };
        let client = ClientTls::new(options).expect("files");
        let (mut client, mut server) = pair(&client, &server, "localhost");
        let result = carry(&mut client, &mut server, |n| n);
        assert_eq!(result.is_ok(), accepted, "{shown}: {result:?}");
    }
}

#[test]
fn certificate_of_version_1_is_reported_with_a_way_out() {
    let openssl = Openssl::new();
    let identity = openssl.version_1();
    let error = ServerTls::new(identity.into()).expect_err("it has no names").to_string();
    assert!(error.contains("old.pem: unsupported X.509 certificate version 1"), "{error}");
    let text = TlsError::CertificateVersion.to_string();
    assert!(text.contains("version 1") && text.contains("openssl req -x509"), "{text}");
}

#[test]
fn roots_come_from_memory_and_beside_those_of_the_platform() {
    let openssl = Openssl::new();
    let localhost = server(openssl.self_signed("plain", LOCALHOST));
    openssl.run("x509 -in plain.pem -outform der -out plain.der");
    let pem = fs::read(openssl.path("plain.pem")).expect("made above");
    let der = fs::read(openssl.path("plain.der")).expect("made above");
    for roots in [
        Roots::empty().pem(pem.clone()),
        Roots::empty().der(der.clone()),
        Roots::platform().pem(pem.clone()),
        Roots::platform().der(der),
    ] {
        assert_eq!(
            verdict(with_roots(roots.clone()), &localhost, "localhost"),
            Ok(()),
            "{roots:?}"
        );
    }
    let certs = Certs::new();
    let several = [pem, fs::read(certs.ca()).expect("made above")].concat();
    let both = with_roots(Roots::empty().pem(several));
    assert_eq!(verdict(both.clone(), &localhost, "localhost"), Ok(()));
    assert_eq!(verdict(both, &server_tls(&certs, CertOwner::Server), "localhost"), Ok(()));
    let platform = with_roots(Roots::platform());
    assert_eq!(verdict(platform, &localhost, "localhost"), Err(TlsError::AuthorityAsServer));
    for (roots, wanted) in [
        (
            Roots::empty().der(&b"no certificate"[..]),
            "a trusted certificate in DER cannot be parsed",
        ),
        (Roots::empty().pem(&b"no certificate"[..]), "14 bytes of PEM: no certificate in PEM"),
        (Roots::empty(), "no root trust anchors"),
    ] {
        let error = ClientTls::new(with_roots(roots)).expect_err("nothing is trusted").to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
