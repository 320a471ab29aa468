//! Bytes to events, as data; and the same whatever way the bytes are split.

use fulmar_proto::h1::Leniency;

#[test]
fn every_case_comes_out_as_written() {
    let mut wrong = Vec::new();
    let cases = crate::common::cases();
    assert!(cases.len() > 340, "only {} cases were found", cases.len());
    for case in &cases {
        let lines = case.run(&[]);
        if lines != case.expected {
            wrong.push(format!(
                "# {}\nexpected\n  {}\nbut got\n  {}\n",
                case.name,
                case.expected.join("\n  "),
                lines.join("\n  ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn any_split_of_the_input_gives_the_same_events() {
    for case in crate::common::cases() {
        let size = case.input.len();
        let every: Vec<usize> = (1..size).collect();
        assert_eq!(case.run(&every), case.expected, "# {}, byte by byte", case.name);
        let step = size / CUTS_MAX + 1;
        for cut in (0..=size).step_by(step) {
            assert_eq!(case.run(&[cut]), case.expected, "# {}, cut at {cut}", case.name);
        }
    }
}

#[test]
fn deviations_are_refused_without_their_leniency() {
    let mut count = 0;
    for case in crate::common::cases() {
        let Some(error) = &case.refused else { continue };
        count += 1;
        assert!(!case.expected.iter().any(|line| line.starts_with("error")), "# {}", case.name);
        assert_eq!(case.run_with(crate::common::EVERYTHING, &[]), case.expected, "# {}", case.name);
        let others = crate::common::EVERYTHING.without(case.leniency);
        for leniency in [Leniency::strict(), others] {
            let every: Vec<usize> = (1..case.input.len()).collect();
            for cuts in [&[][..], &every] {
                let lines = case.run_with(leniency, cuts);
                let refused = lines.iter().any(|line| line.strip_prefix("error ") == Some(error));
                assert!(refused, "# {} with {leniency:?}: {lines:?}", case.name);
            }
        }
    }
    assert!(count > 20, "only {count} cases have a refusal");
}

/// A lenient connection reads every message that a strict one accepts in the same way.
#[test]
fn leniency_changes_no_valid_message() {
    for case in crate::common::cases() {
        let is_sound = !case.expected.iter().any(|line| line.starts_with("error"));
        if is_sound && case.leniency == Leniency::strict() {
            let lines = case.run_with(crate::common::EVERYTHING, &[]);
            assert_eq!(lines, case.expected, "# {}", case.name);
        }
    }
}

/// Long inputs are not cut everywhere.
const CUTS_MAX: usize = 400;
