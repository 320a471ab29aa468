use base64::Engine as _;

use super::*;

/// The certificates in the output of a program with libcurl 7.88.1 and OpenSSL 3.0, which prints
/// each text in brackets on a line.
fn recorded(output: &str) -> Vec<String> {
    let texts = output.split("[Subject:").skip(1);
    texts.map(|text| format!("[Subject:{text}")).collect()
}

fn der_of(printed: &str) -> Vec<u8> {
    let (_, pem) = printed.split_once("-----BEGIN CERTIFICATE-----").expect("the last text");
    let (base64, _) = pem.split_once("-----END").expect("its end");
    let base64: String = base64.split_whitespace().collect();
    STANDARD.decode(base64).expect("valid")
}

fn printed(der: &[u8]) -> String {
    let lines = certificate_lines(der).into_iter();
    lines.map(|line| format!("[{}]\n", String::from_utf8(line).expect("ASCII"))).collect()
}

/// All extensions that OpenSSL makes from a configuration; keys of RSA, DSA and elliptic curves;
/// names with characters that are escaped; a serial number below 0.
#[test]
fn texts_are_those_of_libcurl() {
    for (output, count) in
        [(include_str!("data/extensions.txt"), 2), (include_str!("data/kinds.txt"), 5)]
    {
        let certificates = recorded(output);
        assert_eq!(certificates.len(), count);
        for expected in certificates {
            assert_eq!(printed(&der_of(&expected)), expected);
        }
    }
}

/// Whatever is cut off or changed, there are texts without a panic.
#[test]
fn malformed_certificates_have_a_pem_text() {
    let whole = der_of(&recorded(include_str!("data/extensions.txt"))[1]);
    assert_eq!(certificate_lines(&whole[..whole.len() - 1]).len(), 1);
    assert_eq!(printed(b""), "[Cert:-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n]\n");
    for (nth, byte) in [0, 0x30, 0x7f, 0xff].into_iter().enumerate() {
        for at in (nth..whole.len()).step_by(8) {
            let mut changed = whole.clone();
            changed[at] = byte;
            let lines = certificate_lines(&changed);
            assert!(lines.last().is_some_and(|line| line.starts_with(b"Cert:-----BEGIN")));
        }
    }
}

#[test]
fn unknown_and_malformed_extensions_have_their_printable_bytes() {
    assert_eq!(extension_text("1.2.3", b"\x0c\x03a\nb"), b"..a\nb");
    assert_eq!(extension_text("2.5.29.15", b"\x04\x02ab"), b"..ab");
    assert_eq!(extension_text("2.5.29.15", b"\x03\x01\x00"), b"<EMPTY>\n");
}
