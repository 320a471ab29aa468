//! The media type of a file, from its name alone (RFC 9110 §8.3).

/// What goes into `Content-Type` for a file with this name.
///
/// Text is said to be UTF-8, as nearly all of it is. A file without an extension, or with one
/// that nobody has registered, is bytes.
///
/// ```
/// use fulmar_serve::mime::content_type;
/// assert_eq!(content_type(b"a/index.html"), "text/html; charset=utf-8");
/// ```
pub fn content_type(name: &[u8]) -> String {
    let Some(media) = extension(name).and_then(|ext| mime_guess::from_ext(ext).first()) else {
        return BYTES.to_owned();
    };
    match media.essence_str() {
        // The name it was given before RFC 9239 §6.
        "application/javascript" => "text/javascript; charset=utf-8".to_owned(),
        text if text.starts_with("text/") => format!("{text}; charset=utf-8"),
        other => other.to_owned(),
    }
}

/// What follows the last dot of the last segment; a name that begins with its only dot has none.
fn extension(name: &[u8]) -> Option<&str> {
    let file = name.rsplit(|b| *b == b'/').next()?;
    let dot = file.iter().rposition(|b| *b == b'.')?;
    (dot > 0).then(|| str::from_utf8(&file[dot + 1..]).ok())?
}

const BYTES: &str = "application/octet-stream";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_types() {
        for (name, media) in [
            ("index.html", "text/html; charset=utf-8"),
            ("A.HTM", "text/html; charset=utf-8"),
            ("notes.txt", "text/plain; charset=utf-8"),
            ("style.css", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("data.json", "application/json"),
            ("module.wasm", "application/wasm"),
            ("logo.svg", "image/svg+xml"),
            ("photo.jpeg", "image/jpeg"),
            ("photo.avif", "image/avif"),
            ("font.woff2", "font/woff2"),
            ("film.mp4", "video/mp4"),
            ("a.tar.gz", "application/gzip"),
            ("Makefile", BYTES),
            (".html", BYTES),
            ("a.html/b", BYTES),
            ("dir.d/.html", BYTES),
            ("a.", BYTES),
            ("a.nobody-knows", BYTES),
        ] {
            assert_eq!(content_type(name.as_bytes()), media, "{name}");
        }
        assert_eq!(content_type(b"a.\xff"), BYTES);
    }
}
