//! Pages: one HTML file with everything in it, which opens from disk and needs no network.
//!
//! Owns: the templates of pages, and handing the charts to `page.js`. Tables and tiles are readable
//! without a script.

use serde_json::{Value, json};

use throng_types::date;
use throng_types::fill::fill_page;

use crate::Results;
use crate::charts::{self, Chart};
use crate::compare::{Row, compare, percent};
use crate::view::view;

pub fn report_page(results: &Results) -> String {
    let body = fill_page(include_str!("report.html"), &view(results));
    page(&results.manifest.title, &body, &charts::of_run(results))
}

pub fn comparison_page(a: &Results, b: &Results, names: (&str, &str)) -> String {
    let comparison = compare(a, b);
    let row = |row: &Row| {
        let word = row.reading.as_str();
        json!({
            "name": row.name, "a": row.a, "b": row.b, "percent": percent(row.change), "word": word,
            // The change has its colour too: on a narrow screen the word has no room.
            "class": word.replace(' ', "-"),
        })
    };
    let view = json!({
        "first": names.0,
        "first_title": a.manifest.title,
        "first_started": date::minute(a.manifest.started_unix_ms),
        "second": names.1,
        "second_title": b.manifest.title,
        "second_started": date::minute(b.manifest.started_unix_ms),
        "warnings": comparison.warnings,
        "rows": comparison.rows.iter().map(row).collect::<Value>(),
    });
    let body = fill_page(include_str!("comparison.html"), &view);
    let title = format!("{} against {}", names.0, names.1);
    page(&title, &body, &charts::of_two(a, b, names))
}

fn page(title: &str, body: &str, charts: &[Chart]) -> String {
    // A chart is made of numbers and short texts, which always become JSON. Within a script element
    // only `<` can do harm.
    let data = serde_json::to_string(charts)
        .unwrap_or_else(|_| "[]".into())
        .replace('<', "\\u003c");
    let view = json!({
        "title": title,
        "css": include_str!("page.css"),
        "body": body,
        "charts": data,
        "js": include_str!("page.js"),
    });
    fill_page(include_str!("page.html"), &view)
}

#[cfg(test)]
mod tests;
