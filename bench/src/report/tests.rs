//! Reports of every shape: to JSON and back, as Markdown, as HTML.

use super::*;

fn report() -> BenchReport {
    let row = |name: &str, cells: [Figure; 3]| FigureRow {
        name: name.to_owned(),
        cells: cells.into(),
        limit: (name == "10").then(|| BarLimit::at_most_times(0.4)),
    };
    let column = |name: &str, whose| SideColumn { name: name.to_owned(), whose };
    let none = || Figure::of(&[], "");
    let table = FigureTable {
        title: "An <event>".to_owned(),
        note: "Read & understood.".to_owned(),
        unit: "us per event".to_owned(),
        row_name: "connections".to_owned(),
        better: Better::Lower,
        is_charted: false,
        columns: vec![
            column("2005", Whose::Document),
            column("peer", Whose::Peer),
            column("fulmar", Whose::Fulmar),
        ],
        rows: vec![
            row("10", [none(), Figure::exactly(4.0), Figure::of(&[3.0, 2.0, 1.0], "")]),
            row("1,000", [90.0, 4.0, 8.0].map(Figure::exactly)),
            row("9", [none(), Figure::of(&[], "not installed"), Figure::exactly(0.0)]),
        ],
    };
    let fact =
        |name: &str, value: &str| MachineFact { name: name.to_owned(), value: value.to_owned() };
    BenchReport {
        version: VERSION,
        machine: MachineFacts {
            facts: vec![
                fact("processor", "<fast>"),
                fact("fulmar", "0.1.0"),
                fact("commit", "725b-dirty"),
            ],
        },
        experiments: vec![ScenarioReport {
            name: "idle".to_owned(),
            title: "one active transfer".to_owned(),
            source: "a document".to_owned(),
            about: vec!["The method.".to_owned()],
            tables: vec![table.clone(), table],
            listings: vec![Listing {
                title: "a sequence".to_owned(),
                rows: vec![fact("fulmar", "recv=1  send=2")],
            }],
            missing: vec!["nginx is not installed: install nginx-light".to_owned()],
            failure: Some("a process ended early".to_owned()),
            commands: vec!["fulmar-bench worker among --idle 9".to_owned()],
        }],
    }
}

#[test]
fn json_is_read_back_and_other_text_is_refused() {
    let report = report();
    assert_eq!(BenchReport::from_json(&report.json()).unwrap(), report);
    assert!(BenchReport::from_json("{}").is_err());
    let why =
        |report: &BenchReport| BenchReport::from_json(&report.json()).unwrap_err().to_string();
    let other = BenchReport { version: 1, ..report.clone() };
    assert_eq!(why(&other), "report version 1; this program reads version 2");
    let mut ragged = report;
    ragged.experiments[0].tables[1].rows[2].cells.pop();
    assert_eq!(why(&ragged), "An <event>: 9: 2 cells for 3 columns");
}

#[test]
fn a_figure_is_the_median_of_its_rounds() {
    let rounds = vec![3.0, 1.0, 2.0];
    assert_eq!(Figure::of(&rounds, ""), Figure::Value { value: 2.0, low: 1.0, high: 3.0, rounds });
    assert_eq!(Figure::of(&[4.0, 1.0], "").value(), Some(2.5));
    assert_eq!(Figure::of(&[f64::NAN], "why"), Figure::Absent { absent: "why".to_owned() });
}

#[test]
fn markdown_reports_leads_limits_and_missing_figures() {
    let text = markdown(&report());
    let lines: Vec<_> = text.lines().collect();
    let has =
        |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(has(&["| 10 ", "4", "2.0", "ahead of peer: 2.0x; at most 0.40x: NOT MET"]), "{text}");
    assert!(!report().is_good());
    assert!(has(&["1,000", "90", "8", "behind peer: 2.0x"]), "{text}");
    assert!(has(&["not installed", "0"]), "{text}");
    assert!(has(&["not measured: nginx is not installed: install nginx-light"]), "{text}");
    assert!(has(&["fulmar is ahead in 2 of 4 rows"]), "{text}");
    assert!(text.starts_with(
        "fulmar is not ahead in\n\n- idle: An <event>: 1,000 connections behind peer"
    ));
}

#[test]
fn html_is_well_formed_and_escaped() {
    let html = html(&report());
    assert!(!html.contains("<event>") && html.contains("An &lt;event&gt;"));
    assert!(!html.contains("<fast>"));
    assert!(!html.contains("<script") && !html.contains("http:") && !html.contains("https:"));
    for tag in ["table", "figure", "section", "tr", "td", "th", "p", "div", "dl", "ul", "li", "em"]
    {
        let opened =
            html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert!(html.contains("<p>fulmar 0.1.0 (725b-dirty) beside its peers"));
    assert!(html.contains("Where fulmar is not ahead") && html.contains("behind peer: 2.0x"));
    assert!(html.contains("<code>recv=1</code> <code>send=2</code>"));
    assert_eq!(html.matches("--bar:50%").count(), 2);
}
