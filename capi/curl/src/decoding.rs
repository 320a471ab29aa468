//! The codings of a response's body: `Content-Encoding`, and those of `Transfer-Encoding` besides
//! `chunked`, decoded as libcurl does it.
//!
//! The decoder of `fulmar-semantics` is not used: what libcurl accepts behind the end of a coding,
//! which of its errors it reports by which code, and zlib's texts differ from it.

use bytes::Bytes;

use crate::code::CurlCode;
use crate::codings::BodyCodec;
use crate::failure::Failure;
use crate::response_field::ResponseField;
use crate::text::{Reader, is_blank};

/// The decoder of a body.
#[derive(Debug, Default)]
pub(crate) struct BodyDecoder {
    /// Those of `Transfer-Encoding` first, each kind in the reverse order of its fields.
    stages: Vec<BodyCodec>,
    /// How many of them are of `Transfer-Encoding`.
    transfer_len: usize,
    /// Names that were counted, for the limit.
    names_len: usize,
    pub(crate) is_chunked: bool,
}

impl BodyDecoder {
    /// Without codings.
    pub(crate) const NONE: Self =
        Self { stages: Vec::new(), transfer_len: 0, names_len: 0, is_chunked: false };

    /// Judges a field. `decodes_content`: `CURLOPT_ACCEPT_ENCODING` is set.
    ///
    /// # Errors
    /// There are too many codings.
    pub(crate) fn add_field(
        &mut self,
        field: ResponseField,
        value: &[u8],
        decodes_content: bool,
    ) -> Result<(), Failure> {
        match field {
            ResponseField::TransferEncoding => self.add_codings(value, true),
            ResponseField::ContentEncoding if decodes_content => self.add_codings(value, false),
            _ => Ok(()),
        }
    }

    fn add_codings(&mut self, value: &[u8], is_transfer: bool) -> Result<(), Failure> {
        let mut rest = Reader::new(value);
        while !rest.is_empty() {
            rest.take(|byte| is_blank(byte) || byte == b',');
            let name = rest.take(|byte| byte != b',').trim_ascii();
            if is_transfer && name.eq_ignore_ascii_case(b"chunked") {
                self.is_chunked = true;
            } else if !name.is_empty() {
                self.add(BodyCodec::new(name), is_transfer)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, codec: BodyCodec, is_transfer: bool) -> Result<(), Failure> {
        self.names_len += 1;
        if self.names_len > CODINGS_MAX {
            let text = "Reject response due to more than 5 content encodings";
            return Err(Failure::new(CurlCode::BadContentEncoding, text));
        }
        let at = if is_transfer { 0 } else { self.transfer_len };
        self.transfer_len += usize::from(is_transfer);
        self.stages.insert(at, codec);
        Ok(())
    }

    /// True if the bytes are delivered as they are.
    pub(crate) fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Decodes a piece. `deliver` receives the decoded ones.
    ///
    /// # Errors
    /// The body does not match its codings, or `deliver` fails.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        deliver: &mut dyn FnMut(Bytes) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        pass(&mut self.stages, bytes, deliver)
    }
}

/// Passes bytes through the stages, the first one first.
fn pass(
    stages: &mut [BodyCodec],
    bytes: &[u8],
    deliver: &mut dyn FnMut(Bytes) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match stages.split_first_mut() {
        _ if bytes.is_empty() => Ok(()),
        None => deliver(Bytes::copy_from_slice(bytes)),
        Some((stage, inner)) => stage.decode(bytes, &mut |piece| pass(inner, piece, deliver)),
    }
}

/// `MAX_ENCODE_STACK` of libcurl.
const CODINGS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn decoder(lines: &[&str]) -> BodyDecoder {
        let mut decoder = BodyDecoder::default();
        for line in lines {
            let (field, value) = ResponseField::of(line.as_bytes()).expect("it is known");
            decoder.add_field(field, value, true).expect("few codings");
        }
        decoder
    }

    /// What the pieces of `size` bytes decode to.
    fn decode(lines: &[&str], body: &[u8], size: usize) -> Result<Vec<u8>, (CurlCode, String)> {
        let (mut decoder, mut decoded) = (decoder(lines), Vec::new());
        for piece in body.chunks(size) {
            let add = &mut |bytes: Bytes| {
                decoded.extend_from_slice(&bytes);
                Ok(())
            };
            decoder.decode(piece, add).map_err(|it| (it.code, it.text.into_owned()))?;
        }
        Ok(decoded)
    }

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body).expect("in memory");
        encoder.finish().expect("in memory")
    }

    fn zlib(body: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body).expect("in memory");
        encoder.finish().expect("in memory")
    }

    fn raw(body: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body).expect("in memory");
        encoder.finish().expect("in memory")
    }

    #[test]
    fn every_coding_is_decoded_whatever_the_pieces_are() {
        let body = b"fulmar ".repeat(20_000);
        let rows: [(&str, Vec<u8>); 7] = [
            ("gzip", gzip(&body)),
            ("X-GZIP", gzip(&body)),
            ("gzip", zlib(&body)),
            ("deflate", zlib(&body)),
            ("deflate", raw(&body)),
            ("zstd", zstd::encode_all(&body[..], 3).expect("in memory")),
            ("identity", body.clone()),
        ];
        for (name, coded) in rows {
            for size in [1, 7, 4_096, usize::MAX] {
                // Without a zlib header the first piece must show that.
                let size = if name == "deflate" { size.max(7) } else { size };
                let line = format!("Content-Encoding: {name}\r\n");
                assert_eq!(decode(&[&line], &coded, size).as_ref(), Ok(&body), "{name} {size}");
            }
        }
    }

    #[test]
    fn brotli_is_decoded() {
        let coded = [0x0b, 0x02, 0x80, b'h', b'e', b'l', b'l', b'o', 0x03];
        for size in [1, 9] {
            let decoded = decode(&["content-encoding: br"], &coded, size);
            assert_eq!(decoded.as_deref(), Ok(&b"hello"[..]));
        }
    }

    #[test]
    fn layers_are_removed_in_the_reverse_order() {
        let body = b"fulmar".repeat(1_000);
        let lines = ["Transfer-Encoding: gzip, chunked", "Content-Encoding: deflate, gzip"];
        let coded = gzip(&gzip(&zlib(&body)));
        assert_eq!(decode(&lines, &coded, 5).as_ref(), Ok(&body));
        assert!(decoder(&lines).is_chunked);
        let reversed = [lines[1], lines[0]];
        assert_eq!(decode(&reversed, &coded, 5).as_ref(), Ok(&body));
    }

    #[test]
    fn broken_bodies_have_the_codes_and_texts_of_libcurl() {
        let line = ["Content-Encoding: gzip"];
        let mut damaged = gzip(b"hello");
        let at = damaged.len() - 8;
        damaged[at] ^= 1;
        let trailing = [&gzip(b"hello")[..], b"x"].concat();
        let text = |why: &str| format!("Error while processing content unencoding: {why}");
        let header = (CurlCode::BadContentEncoding, text("incorrect header check"));
        assert_eq!(decode(&line, b"hello", 9), Err(header));
        let sum = (CurlCode::BadContentEncoding, text("incorrect data check"));
        assert_eq!(decode(&line, &damaged, 99), Err(sum));
        assert_eq!(decode(&line, &trailing, 99), Err((CurlCode::WriteError, String::new())));
        let unknown = decode(&["Content-Encoding: lzma"], b"x", 1);
        let text = "Unrecognized content encoding type. libcurl understands deflate, gzip, br, \
                    zstd content encodings.";
        assert_eq!(unknown, Err((CurlCode::BadContentEncoding, text.to_owned())));
        for (name, body) in [("br", &b"\xff\x1f\x00\x80"[..]), ("zstd", b"\x1f\x8bxxxxx")] {
            let broken = decode(&[&format!("Content-Encoding: {name}")], body, 9);
            assert_eq!(broken, Err((CurlCode::BadContentEncoding, String::new())), "{name}");
        }
    }

    #[test]
    fn sixth_coding_is_refused() {
        let mut decoder = decoder(&["Content-Encoding: gzip, br, gzip", "Transfer-Encoding: a, b"]);
        let refused =
            decoder.add_field(ResponseField::TransferEncoding, b"c", false).map_err(|it| it.code);
        assert_eq!(refused, Err(CurlCode::BadContentEncoding));
        let unread = decoder.add_field(ResponseField::ContentEncoding, b"c", false);
        assert_eq!(unread, Ok(()), "it is not decoded");
    }
}
