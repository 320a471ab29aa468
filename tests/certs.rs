//! Certificates, generated for each test: an authority and the certificates that it issued.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use fulmar_tls::Identity;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, NameConstraints, PKCS_RSA_SHA256, RevokedCertParams, RsaKeySize, SanType,
    SerialNumber, date_time_ymd,
};
use tempfile::TempDir;

/// The owner of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertOwner {
    /// A server's: `localhost`, `test.example`, `*.wild.example`, and loopback.
    Server,
    /// The same, until 2001.
    Expired,
    /// The same, from 2999 on.
    NotYetValid,
    /// Of `other.example` only.
    OtherHost,
    /// A self-signed certificate of a server.
    SelfSigned,
    /// An authority's own, as `openssl req -x509` makes them.
    OwnAuthority,
    /// The same, until 2001.
    ExpiredAuthority,
    /// A server's, issued by an unknown authority.
    Stranger,
    /// A server's, which the list of [`Certs::revoked`] names.
    Revoked,
    /// A server's, issued by an authority with the constraint `*.elsewhere.example`.
    OutOfBounds,
    /// A client's.
    Client,
    /// A client's, which the list names too.
    RevokedClient,
    /// A client's, issued by an unknown authority.
    StrangerClient,
}

impl CertOwner {
    fn is_client(self) -> bool {
        matches!(self, Self::Client | Self::RevokedClient | Self::StrangerClient)
    }
}

/// A directory of certificates.
#[derive(Debug)]
pub struct Certs {
    dir: TempDir,
}

impl Certs {
    /// An authority that only the tests trust, and its list of revoked certificates.
    ///
    /// # Panics
    /// The files cannot be written.
    pub fn new() -> Self {
        let certs = Self { dir: tempfile::tempdir().expect("a temporary directory") };
        let (params, key) = (authority("the authority of this test"), new_key());
        certs.write("ca.pem", &params.self_signed(&key).expect("a certificate").pem());
        certs.write("ca.key", &key.serialize_pem());
        let revoked = |owner| RevokedCertParams {
            serial_number: serial(owner),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2999, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked(CertOwner::Revoked), revoked(CertOwner::RevokedClient)],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&Issuer::from_params(&params, &key)).expect("a list");
        certs.write("revoked.pem", &list.pem().expect("PEM"));
        certs
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The authority's certificate.
    pub fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Its list of revoked certificates.
    pub fn revoked(&self) -> PathBuf {
        self.dir.path().join("revoked.pem")
    }

    /// A certificate with its key.
    ///
    /// # Panics
    /// The files cannot be written.
    pub fn identity(&self, owner: CertOwner) -> Identity {
        let (cert, key) = self.files(owner);
        Identity::files(cert, key)
    }

    /// The files of a certificate and of its key.
    ///
    /// # Panics
    /// There is no room for them.
    pub fn files(&self, owner: CertOwner) -> (PathBuf, PathBuf) {
        let (cert, key) = (format!("{owner:?}.pem"), format!("{owner:?}.key"));
        let paths = (self.dir.path().join(&cert), self.dir.path().join(&key));
        if !paths.0.exists() {
            let pair = new_key();
            self.write(&key, &pair.serialize_pem());
            self.write(&cert, &self.chain(owner, &pair));
        }
        paths
    }

    /// A server's certificate for these names, in files called `file`; each call generates another
    /// one.
    ///
    /// # Panics
    /// The files cannot be written.
    pub fn issue(&self, file: &str, names: &[&str]) -> Identity {
        self.issue_for(file, names, &new_key())
    }

    /// The same with an RSA key, for clients without elliptic curves.
    ///
    /// # Panics
    /// The files cannot be written.
    pub fn issue_rsa(&self, file: &str, names: &[&str]) -> Identity {
        let pair = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048);
        self.issue_for(file, names, &pair.expect("a key"))
    }

    fn issue_for(&self, file: &str, names: &[&str], pair: &KeyPair) -> Identity {
        let mut own = params(CertOwner::Server);
        own.subject_alt_names = dns_names(names);
        own.serial_number = None; // each has one of its own
        let issuer = authority("the authority of this test");
        let key = self.key();
        let cert = own.signed_by(pair, &Issuer::from_params(&issuer, &key));
        let (cert_file, key_file) = (format!("{file}.pem"), format!("{file}.key"));
        self.write(&key_file, &pair.serialize_pem());
        self.write(&cert_file, &cert.expect("a certificate").pem());
        Identity::files(self.dir.path().join(cert_file), self.dir.path().join(key_file))
    }

    fn chain(&self, owner: CertOwner, pair: &KeyPair) -> String {
        let (own, key) = (params(owner), new_key());
        let signed_by = |issuer: &CertificateParams, key: &KeyPair| {
            own.signed_by(pair, &Issuer::from_params(issuer, key)).expect("a certificate").pem()
        };
        match owner {
            CertOwner::SelfSigned => own.self_signed(pair).expect("a certificate").pem(),
            CertOwner::OwnAuthority | CertOwner::ExpiredAuthority => {
                let mut own = own;
                own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
                own.self_signed(pair).expect("a certificate").pem()
            }
            CertOwner::Stranger | CertOwner::StrangerClient => {
                signed_by(&authority("an authority that nobody knows"), &key)
            }
            CertOwner::OutOfBounds => {
                let bounds = NameConstraints {
                    permitted_subtrees: vec![GeneralSubtree::DnsName("elsewhere.example".into())],
                    excluded_subtrees: Vec::new(),
                };
                let mut bounded = authority("an authority with bounds");
                bounded.name_constraints = Some(bounds);
                let root = self.key();
                let issuer_params = authority("the authority of this test");
                let issuer = Issuer::from_params(&issuer_params, &root);
                let between = bounded.signed_by(&key, &issuer).expect("a certificate").pem();
                signed_by(&bounded, &key) + &between
            }
            _ => signed_by(&authority("the authority of this test"), &self.key()),
        }
    }

    fn key(&self) -> KeyPair {
        let text = std::fs::read_to_string(self.dir.path().join("ca.key")).expect("it was made");
        KeyPair::from_pem(&text).expect("a key")
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).expect("room");
    }
}

impl Default for Certs {
    fn default() -> Self {
        Self::new()
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a key on P-256")
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn params(owner: CertOwner) -> CertificateParams {
    let names: &[&str] = match owner {
        CertOwner::OtherHost => &["other.example"],
        owner if owner.is_client() => &["client.example"],
        _ => &["localhost", "test.example", "*.wild.example"],
    };
    let mut subject_alt_names = dns_names(names);
    if owner != CertOwner::OtherHost && !owner.is_client() {
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
        subject_alt_names.extend(loopback.map(SanType::IpAddress));
    }
    let (from, until) = match owner {
        CertOwner::Expired | CertOwner::ExpiredAuthority => (2000, 2001),
        CertOwner::NotYetValid => (2999, 3000),
        _ => (2020, 2999),
    };
    let purpose = match owner.is_client() {
        true => ExtendedKeyUsagePurpose::ClientAuth,
        false => ExtendedKeyUsagePurpose::ServerAuth,
    };
    let mut params = CertificateParams::default();
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    params.serial_number = Some(serial(owner));
    params.subject_alt_names = subject_alt_names;
    params.distinguished_name = named(&format!("{owner:?}"));
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    params
}

fn dns_names(names: &[&str]) -> Vec<SanType> {
    let name = |name: &&str| SanType::DnsName((*name).try_into().expect("a name"));
    names.iter().map(name).collect()
}

fn named(name: &str) -> DistinguishedName {
    let mut found = DistinguishedName::new();
    found.push(DnType::CommonName, name);
    found
}

fn serial(owner: CertOwner) -> SerialNumber {
    SerialNumber::from(100 + owner as u64)
}
