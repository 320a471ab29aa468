//! Reads configurations and says what is wrong with them.
fn main() {
    for arg in std::env::args().skip(1) {
        let sources = [fulmar_haproxy::Source::Path(arg.clone().into())];
        let found = fulmar_haproxy::load(
            &sources,
            &fulmar_haproxy::Environment::of_process(),
            &fulmar_haproxy::ThisMachine,
            &Default::default(),
        );
        match found {
            Ok(loaded) => {
                println!("## {arg} OK");
                for w in loaded.warnings {
                    println!("{}", w.report(1));
                }
            }
            Err(found) => {
                println!("## {arg} ERR");
                for w in found.0 {
                    println!("{}", w.report(1));
                }
            }
        }
    }
}
