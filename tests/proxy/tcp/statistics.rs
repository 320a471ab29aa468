//! The statistics of a proxy: rows in all their forms, and changes by the page.

use std::sync::Arc;

use fulmar_haproxy::model::StatsPage;
use fulmar_proxy::Live;
use fulmar_proxy::balance::Admin;
use fulmar_tests::statistics::{PageRequest, live, page, reports, send_request};

fn text(page: &fulmar_proxy::GeneratedPage) -> String {
    String::from_utf8(page.body.clone()).unwrap()
}

fn get(target: &str) -> String {
    let live = live();
    let answer = send_request(&mut reports(&live), &page(), "GET", target, &PageRequest::default());
    assert_eq!(answer.status, 200, "{target}");
    text(&answer)
}

#[test]
fn every_form_has_every_row() {
    let csv = get("/stats;csv");
    assert_eq!(csv.lines().count(), 1 + 2 + 6 + 1 + 3 + 1 + 2 + 1);
    let json: serde_json::Value = serde_json::from_str(&get("/stats;json")).unwrap();
    assert_eq!(json.as_array().unwrap().len(), csv.lines().count() - 1);
    let typed = get("/stats;typed");
    assert_eq!(typed.matches(".pxname.1:KNS:str:").count(), csv.lines().count() - 1);
    let page = get("/stats");
    assert_eq!(page.matches("<tr class=").count(), csv.lines().count() - 1);
}

#[test]
fn names_from_a_configuration_are_text_everywhere() {
    let page = get("/stats");
    assert!(page.contains("blog&quot;&lt;&amp;&gt;"));
    assert!(!page.contains("blog\"<"));
    assert!(page.contains("Shop &amp; &lt;blog&gt;"));
    assert!(get("/stats;csv").contains("\"blog\"\"<&>\",web1,"));
    assert!(get("/metrics").contains("proxy=\"blog\\\"<&>\",server=\"web1\""));
}

#[test]
fn query_parameters_select_rows() {
    let rows = |target| get(target).lines().count();
    let all = rows("/stats;csv");
    assert_eq!(rows("/stats;csv;no-maint"), all - 1);
    assert_eq!(rows("/stats;csv;up"), all - 2);
    assert_eq!(rows("/stats;csv?scope=shop"), 1 + 6 + 1);
    let shown = StatsPage { scope: vec!["shop".into()], ..page() };
    let answer =
        send_request(&mut reports(&live()), &shown, "GET", "/stats;csv", &PageRequest::default());
    assert_eq!(text(&answer).lines().count(), 1 + 6 + 1);
}

#[test]
fn a_form_changes_servers_and_reports_the_result() {
    let live = live();
    let mut reports = reports(&live);
    let mut post = |body, may_change, fields| {
        let asked = PageRequest { fields, body, may_change };
        let answer = send_request(&mut reports, &page(), "POST", "/stats", &asked);
        assert_eq!(answer.status, 303);
        let place = answer.fields.as_headers().get("location").unwrap();
        String::from_utf8(place.to_vec()).unwrap()
    };
    let near = &[("host", "h"), ("origin", "http://h")][..];
    let table = [
        ("s=web1&action=drain&b=%233", "DONE"),
        ("s=web1&action=drain&b=shop", "DONE"),
        ("s=web1&s=nobody&action=drain&b=shop", "PART"),
        ("s=nobody&action=drain&b=shop", "ERRP"),
        ("s=web1&action=nothing&b=shop", "ERRP"),
        ("s=web1&action=drain&b=%23x", "ERRP"),
        ("s=web5&action=dhlth&b=shop", "NONE"),
        ("action=drain&b=shop", "NONE"),
        ("", "NONE"),
        ("%zz&&==&s", "NONE"),
    ];
    for (body, outcome) in table {
        assert_eq!(post(body, true, near), format!("/stats;st={outcome}"), "{body}");
    }
    assert_eq!(live.backends[0].group.members()[0].admin(), Admin::Drain);
    assert_eq!(post("s=web1&action=ready&b=shop", false, near), "/stats;st=DENY");
    let far = &[("host", "h"), ("origin", "http://elsewhere")][..];
    assert_eq!(post("s=web1&action=ready&b=shop", true, far), "/stats;st=DENY");
    assert_eq!(live.backends[0].group.members()[0].admin(), Admin::Drain);
    let long = format!("s={}&action=ready&b=shop", "x".repeat(20_000));
    assert_eq!(post(&long, true, near), "/stats;st=EXCD");
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    let page = get("/stats");
    for word in ["http://", "https://", "//cdn", " src=", "@import", "url("] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(!page.contains(" style="), "a style in an attribute breaks the policy");
    assert!(!page.contains(" onclick="), "a handler in an attribute breaks the policy");
}

#[test]
fn hidden_details_are_absent() {
    let plain = StatsPage { uri: "/stats".into(), hide_version: true, ..StatsPage::default() };
    let answer =
        send_request(&mut reports(&live()), &plain, "GET", "/stats", &PageRequest::default());
    let page = text(&answer);
    assert!(
        !page.contains("Version") && !page.contains("127.0.0.1") && !page.contains("<form class")
    );
}

/// The page showed one backend, and its form changed any.
#[test]
fn servers_outside_the_scope_cannot_be_changed() {
    let live = live();
    let page = StatsPage { scope: vec!["shop".into()], ..page() };
    let post = |backend: &str| {
        let body = format!("s=web1&b={backend}&action=maint");
        let asked = PageRequest { body: &body, may_change: true, ..PageRequest::default() };
        let answer = send_request(&mut reports(&live), &page, "POST", "/stats", &asked);
        let place = answer.fields.as_headers().get("location").expect("where to go").to_vec();
        String::from_utf8(place).expect("text")
    };
    assert_eq!(post("database"), "/stats;st=ERRP");
    assert_eq!(post("shop"), "/stats;st=DONE");
}

/// All calls since the start were those of one request.
#[test]
fn figures_without_requests_are_no_numbers() {
    let idle = Arc::new(Live::new(live().config.clone(), 1));
    let target = "/metrics?scope=global";
    let metrics =
        text(&send_request(&mut reports(&idle), &page(), "GET", target, &PageRequest::default()));
    for figure in ["fulmar_syscalls_per_request", "fulmar_syscalls_per_connection"] {
        assert!(metrics.contains(&format!("\n{figure} NaN\n")), "{figure}: {metrics}");
    }
}

#[test]
fn metrics_have_scopes() {
    let servers = get("/metrics?scope=server");
    assert!(servers.lines().all(|line| line.contains("haproxy_server_")));
    assert!(get("/metrics?scope=global").contains("fulmar_syscalls_per_request "));
    assert!(!get("/metrics?no-maint").contains("proxy=\"shop\",server=\"web3\""));
    let answer = send_request(
        &mut reports(&live()),
        &page(),
        "GET",
        "/metrics?scope=x",
        &PageRequest::default(),
    );
    assert_eq!(answer.status, 400);
}
