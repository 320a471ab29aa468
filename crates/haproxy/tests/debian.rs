//! Debian's own configuration, with a frontend and a backend.

#[test]
fn x() {
    let text = std::fs::read_to_string("/etc/haproxy/haproxy.cfg").unwrap();
    let text = format!(
        "{text}\nfrontend a\n bind :80\n default_backend b\nbackend b\n server s 127.0.0.1:81 check\n"
    );
    let l = fulmar_haproxy::load(
        &[fulmar_haproxy::Source::text("x", &text)],
        &Default::default(),
        &fulmar_haproxy::ThisMachine,
        &Default::default(),
    );
    match l {
        Ok(l) => {
            for w in &l.warnings {
                println!("{}", w.report(1));
            }
            println!("{:#?}", l.config);
        }
        Err(d) => panic!("{d}"),
    }
}
