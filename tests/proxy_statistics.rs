//! The statistics of a proxy: rows in all their forms, and changes by the page.

use std::sync::Arc;

use fulmar_tests::statistics::{Asked, Site, ask, live, page, reports};

#[test]
fn look() {
    let site = Site::start(live(), page());
    println!("{}", site.url());
    std::fs::write("/tmp/stats-hap/url", site.url()).unwrap();
    loop {
        std::thread::park();
    }
}
