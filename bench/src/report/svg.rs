//! Plots of tables, as SVG that stands in a page of HTML.
//!
//! Colours are classes, which the page's style sheet fills for light and for dark. Every plot has a
//! title and a description, for those who do not see it; the table stands beside it anyway.

mod bars;
mod lines;
mod stacks;

use super::numbers::figure;
use super::{Column, Plot, Table, Whose};

/// The table's plot, if it is drawn and there is something to draw; `id` is unique in the page.
pub(super) fn plot(table: &Table, id: &str) -> Option<String> {
    let (body, height, description) = match table.plot.as_ref()? {
        Plot::Lines { axis } => lines::draw(table, axis)?,
        Plot::Stacks => stacks::draw(table)?,
        Plot::Bars => bars::draw(table)?,
    };
    Some(format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
         <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>\n{body}</svg>\n",
        escape(&table.title),
        escape(&description),
    ))
}

/// The class of a column's colour: each peer has its own, the others are all alike.
fn class(columns: &[Column], at: usize) -> String {
    let peers = |until: usize| columns[..until].iter().filter(|it| it.whose == Whose::Peer).count();
    match columns[at].whose {
        Whose::Fulmar => "ours".to_owned(),
        Whose::Document => "then".to_owned(),
        Whose::Beside => "beside".to_owned(),
        Whose::Peer => format!("p{}", peers(at) % PEER_COLOURS),
    }
}

/// What is seen of a column, in a sentence.
fn told(name: &str, first: (&str, f64), last: (&str, f64), unit: &str) -> String {
    match first.0 == last.0 {
        true => format!("{name}: {} {unit}.", figure(first.1)),
        false => format!(
            "{name}: from {} at {} to {} at {} {unit}.",
            figure(first.1),
            first.0,
            figure(last.1),
            last.0
        ),
    }
}

/// Text between tags and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// How wide a text is, about: fonts differ.
fn width_of(text: &str) -> f64 {
    f64::from(u32::try_from(text.chars().count()).unwrap_or(0)) * CHARACTER
}

const WIDTH: f64 = 860.0;
/// Of a character of 13 pixels, on the wide side.
const CHARACTER: f64 = 7.6;
const PEER_COLOURS: usize = 4;
