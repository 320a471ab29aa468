//! Bytes to events, as data; and the same whatever way the bytes are split.

mod common;

#[test]
fn every_case_comes_out_as_written() {
    let mut wrong = Vec::new();
    let cases = common::cases();
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
    for case in common::cases() {
        let size = case.input.len();
        let every: Vec<usize> = (1..size).collect();
        assert_eq!(case.run(&every), case.expected, "# {}, byte by byte", case.name);
        let step = size / CUTS_MAX + 1;
        for cut in (0..=size).step_by(step) {
            assert_eq!(case.run(&[cut]), case.expected, "# {}, cut at {cut}", case.name);
        }
    }
}

/// Long inputs are not cut everywhere.
const CUTS_MAX: usize = 400;
