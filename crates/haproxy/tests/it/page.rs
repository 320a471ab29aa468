//! The page of keywords equals the tables.

use std::fs;
use std::path::Path;

#[test]
fn the_page_of_keywords_equals_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/haproxy-keywords.md");
    let made = fulmar_haproxy::keywords_page();
    if std::env::var_os("FULMAR_WRITE_PAGES").is_some() {
        fs::write(&path, &made).expect("docs can be written");
    }
    let committed = fs::read_to_string(&path).expect("the page is there");
    assert!(
        committed == made,
        "docs/haproxy-keywords.md is not what the tables say: run this test with \
         FULMAR_WRITE_PAGES=1, and look at what changed"
    );
}
