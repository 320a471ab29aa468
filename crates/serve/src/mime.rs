//! The media type of a file, from its name alone (RFC 9110 §8.3).

/// The value of `Content-Type` for a file with this name.
///
/// Text has `charset=utf-8`. Source code is `text/plain`, which browsers display instead of saving
/// it; `.ts` is TypeScript, not an MPEG transport stream. Other files without an extension, or with
/// an unregistered one, are `application/octet-stream`.
///
/// ```
/// use fulmar_serve::mime::content_type;
/// assert_eq!(content_type(b"a/index.html"), "text/html; charset=utf-8");
/// ```
pub fn content_type(name: &[u8]) -> String {
    if is_source(name) {
        return TEXT.to_owned();
    }
    let Some(media) = extension(name).and_then(|ext| mime_guess::from_ext(ext).first()) else {
        return BYTES.to_owned();
    };
    match media.essence_str() {
        // The type before RFC 9239 §6.
        "application/javascript" => "text/javascript; charset=utf-8".to_owned(),
        // Private types of source code (`text/x-rust`), which some browsers save.
        text if text.starts_with("text/x-") && text != "text/x-vcard" => TEXT.to_owned(),
        text if text.starts_with("text/") => format!("{text}; charset=utf-8"),
        other => other.to_owned(),
    }
}

/// True for names of source code that have no registered type, or the type of another kind of file.
fn is_source(name: &[u8]) -> bool {
    let file = name.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let is_in = |list: &str, name: &[u8]| {
        list.split(' ').any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    };
    let extension = extension(file).unwrap_or_default();
    is_in(SOURCE_NAMES, file) || is_in(SOURCE_EXTENSIONS, extension.as_bytes())
}

/// The part after the last dot of the last segment. A name with a
/// single dot at its beginning has none.
fn extension(name: &[u8]) -> Option<&str> {
    let file = name.rsplit(|b| *b == b'/').next()?;
    let dot = file.iter().rposition(|b| *b == b'.')?;
    (dot > 0).then(|| str::from_utf8(&file[dot + 1..]).ok())?
}

const BYTES: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";
/// `mime_guess` has no type for these, or one that browsers save or play.
const SOURCE_EXTENSIONS: &str = "adoc awk bash bazel bzl cabal clj cmake cts d dart diff el env \
    erl ex exs fish fs go gradle graphql groovy hcl hs java jl jsonc kt kts lhs lisp lock m mk ml \
    mm mts nim nix patch php pl pm properties proto ps1 r rb rst scala sed service sh sql sv \
    svelte swift tcl tf ts tsx v vue zig zsh";
const SOURCE_NAMES: &str = "AUTHORS BUILD CHANGELOG CHANGES CODEOWNERS CONTRIBUTING COPYING \
    Containerfile Dockerfile GNUmakefile Gemfile INSTALL Jenkinsfile Justfile LICENSE Makefile \
    NEWS NOTICE README Rakefile go.mod go.sum";

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
            ("Makefile", TEXT),
            ("a.d/makefile", TEXT),
            ("LICENSE", TEXT),
            ("main.rs", TEXT),
            ("main.py", TEXT),
            ("main.ts", TEXT),
            ("Main.TSX", TEXT),
            ("main.mts", TEXT),
            ("main.go", TEXT),
            ("Main.java", TEXT),
            ("main.c", TEXT),
            ("app.jsx", "text/javascript; charset=utf-8"),
            ("Cargo.toml", TEXT),
            ("ci.yml", TEXT),
            ("go.mod", TEXT),
            ("run.sh", TEXT),
            ("card.vcf", "text/x-vcard; charset=utf-8"),
            ("Makefile.d/program", BYTES),
            ("program", BYTES),
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
