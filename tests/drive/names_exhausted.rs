//! Lookups without a free descriptor end with an error of their own. In a process of its own,
//! because it changes the limit.

use std::fs::File;

use fulmar_engine::ResolveError;
use fulmar_names::{Names, Options};
use fulmar_tests::dns::{self, Dns};
use fulmar_tests::lookups::{LookupEngine, LookupOutcome};
use fulmar_tests::loops::{AppLoop, Loop, OwnLoop};
use fulmar_tests::own_process::own_process;
use fulmar_tests::process::PATIENCE;

#[test]
fn running_out_of_descriptors_is_an_error_of_its_own_and_passes() {
    own_process(|| {
        let server =
            Dns::start(|heard| dns::addresses(&heard.name, heard.kind, &[[192, 0, 2, 1].into()]));
        // No descriptor for c-ares; then one, which c-ares takes, and none to watch it with.
        for left in [0, 1] {
            starve::<OwnLoop<LookupEngine>>(&server, left);
            starve::<AppLoop<LookupEngine>>(&server, left);
        }
    });
}

fn starve<L: Loop<Engine = LookupEngine>>(server: &Dns, left: usize) {
    let (mut driver, _) = L::start(LookupEngine::default());
    let servers = vec![server.address];
    let (tries, try_timeout, deadline) = (1, PATIENCE, PATIENCE);
    let options = Options { servers, tries, try_timeout, deadline, ..Options::default() };
    driver.set_resolver(Box::new(Names::new(options)));
    assert!(resolve(&mut driver, "first.example").is_ok(), "files are read");
    let mut hoard: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    hoard.truncate(hoard.len() - left);
    let starved = resolve(&mut driver, "second.example");
    drop(hoard);
    assert_eq!(starved, Err(ResolveError::Exhausted), "{left} left");
    assert!(resolve(&mut driver, "second.example").is_ok(), "it is not kept");
}

fn resolve<L: Loop<Engine = LookupEngine>>(driver: &mut L, name: &str) -> LookupOutcome {
    let lookup = driver.engine().lookup(name);
    driver.kick();
    driver.turn_until(|driver| driver.engine().answer(lookup).is_some());
    driver.engine().answer(lookup).unwrap().clone()
}
