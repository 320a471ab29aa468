//! Reports of every shape: to JSON and back, as text, as HTML.

use super::*;

fn report() -> Report {
    let row = |name: &str, at: f64, cells: [Cell; 3]| Row {
        name: name.to_owned(),
        at: Some(at),
        cells: cells.into(),
    };
    let table = |plot| Table {
        title: "An <event>".to_owned(),
        note: "Read & understood.".to_owned(),
        unit: "µs per event".to_owned(),
        row_name: "connections".to_owned(),
        better: Better::Lower,
        columns: vec![Column::document("2005"), Column::peer("peer"), Column::fulmar("fulmar")],
        rows: vec![
            row("10", 10.0, [Cell::none(), Cell::exactly(4.0), Cell::of(&[3.0, 2.0, 1.0], "")]),
            row("1,000", 1e3, [Cell::exactly(90.0), Cell::exactly(4.0), Cell::exactly(8.0)]),
            row("9", 9.0, [Cell::none(), Cell::of(&[], "not installed"), Cell::exactly(0.0)]),
        ],
        plot,
    };
    let axis = || "connections".to_owned();
    Report {
        version: 1,
        machine: Machine {
            facts: vec![
                Fact { name: "processor".to_owned(), value: "<fast>".to_owned() },
                Fact { name: "fulmar".to_owned(), value: "0.1.0".to_owned() },
                Fact { name: "commit".to_owned(), value: "725b-dirty".to_owned() },
            ],
        },
        experiments: vec![Outcome {
            name: "idle".to_owned(),
            title: "one active transfer".to_owned(),
            source: "a document".to_owned(),
            about: vec!["What is done.".to_owned()],
            tables: vec![
                table(Some(Plot::Lines { axis: axis() })),
                table(Some(Plot::Stacks)),
                table(Some(Plot::Bars)),
                table(None),
            ],
            listings: vec![Listing {
                title: "a sequence".to_owned(),
                note: String::new(),
                rows: vec![Fact { name: "fulmar".to_owned(), value: "recv=1  send=2".to_owned() }],
            }],
            missing: vec!["nginx is not installed: install nginx-light".to_owned()],
            failure: Some("it fell over".to_owned()),
            commands: vec!["fulmar bench-worker among --idle 9".to_owned()],
        }],
    }
}

#[test]
fn json_is_read_as_it_was_written_and_nothing_else_is() {
    let report = report();
    assert_eq!(Report::from_json(&report.json()).unwrap(), report);
    assert!(Report::from_json("{}").is_err());
    let why = |report: &Report| Report::from_json(&report.json()).unwrap_err().to_string();
    let later = Report { version: 2, ..report.clone() };
    assert_eq!(why(&later), "a report of version 2; this fulmar reads version 1");
    let mut ragged = report;
    ragged.experiments[0].tables[1].rows[2].cells.pop();
    assert_eq!(why(&ragged), "An <event>: 9: 2 cells for 3 columns");
}

#[test]
fn a_median_stands_between_its_rounds() {
    let rounds = vec![3.0, 1.0, 2.0];
    assert_eq!(Cell::of(&rounds, ""), Cell::Value { value: 2.0, low: 1.0, high: 3.0, rounds });
    assert_eq!(Cell::of(&[4.0, 1.0], "").value(), Some(2.5));
    assert_eq!(Cell::of(&[f64::NAN], "why"), Cell::Absent { absent: "why".to_owned() });
}

#[test]
fn text_tells_who_is_ahead_and_what_is_missing() {
    let text = text(&report());
    let lines: Vec<_> = text.lines().collect();
    let has =
        |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(has(&["10 ", "4", "2.0", "ahead of peer: 2.0x"]), "{text}");
    assert!(has(&["1,000", "90", "8", "behind peer: 2.0x"]), "{text}");
    assert!(has(&["not installed", "0"]), "{text}");
    assert!(has(&["not measured: nginx is not installed: install nginx-light"]), "{text}");
    assert!(has(&["fulmar is ahead in 4 of 8 rows"]), "{text}");
    assert!(
        text.starts_with(
            "fulmar is not ahead in\n  idle: An <event>: 1,000 connections behind peer"
        )
    );
}

#[test]
fn html_is_whole_escaped_and_described() {
    let html = html(&report());
    assert!(!html.contains("<event>") && html.contains("An &lt;event&gt;"));
    assert!(!html.contains("<fast>"));
    assert!(!html.contains("<script") && !html.contains("http:") && !html.contains("https:"));
    for tag in
        ["table", "figure", "section", "svg", "tr", "td", "th", "p", "div", "dl", "g", "text"]
    {
        let opened =
            html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert!(html.contains("<p>fulmar 0.1.0 (725b-dirty) beside its peers"));
    assert!(html.contains("Where fulmar is not ahead") && html.contains("behind peer: 2.0x"));
    assert!(html.contains("<code>recv=1</code> <code>send=2</code>"));
    assert_eq!(html.matches("<desc ").count(), 3);
}
