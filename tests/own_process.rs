//! A process of its own for a test of resources of a process: limits, descriptors, memory,
//! allocations. The test binary starts itself again with this test only.

use std::env;
use std::process::Command;

use crate::process::{run, text};

/// Runs `test` in a process of its own. It is the whole body of a test function: the name of the
/// function is the filter of the second process.
///
/// # Panics
/// `test` panics, or the second process runs no test.
pub fn own_process<F: FnOnce()>(test: F) {
    let name = test_name(std::any::type_name::<F>());
    if is_own(name) {
        return test();
    }
    let mut command = Command::new(env::current_exe().expect("a running test has a path"));
    let output = run(command.args(["--exact", name, "--nocapture"]).env(OWN_PROCESS, name));
    let out = text(&output.stdout);
    assert!(out.contains("test result: ok. 1 passed;"), "there is no test {name}:\n{out}");
}

/// True in the second process of this test.
fn is_own(name: &str) -> bool {
    env::var_os(OWN_PROCESS).is_some_and(|own| own == name)
}

/// The test harness omits the name of the crate.
fn test_name(closure: &str) -> &str {
    let function = closure.trim_end_matches("::{{closure}}");
    function.split_once("::").map_or(function, |(_, path)| path)
}

/// Names the test of a second process.
const OWN_PROCESS: &str = "FULMAR_TEST_OWN_PROCESS";

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{catch_unwind, resume_unwind};

    #[test]
    fn a_test_runs_in_a_second_process() {
        own_process(|| assert!(env::var_os(OWN_PROCESS).is_some()));
    }

    #[test]
    fn a_failure_in_the_second_process_is_one_of_the_test() {
        let result = catch_unwind(|| own_process(|| panic!("it fails")));
        match result {
            Err(panic) if env::var_os(OWN_PROCESS).is_some() => resume_unwind(panic),
            result => assert!(result.is_err()),
        }
    }

    #[test]
    fn a_function_that_is_no_test_is_an_error() {
        fn no_test() {
            own_process(|| {});
        }
        assert!(catch_unwind(no_test).is_err());
    }
}
