//! Files of a results folder.

use throng_bench_measure::{LogWriter, Sample};

use crate::html::report_page;
use crate::results::{Results, ResultsError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultFile {
    pub name: &'static str,
    pub bytes: Vec<u8>,
}

/// Makes `manifest.json`, `results.json` (without the series), `series.json`, `series.csv`,
/// `latency.hlog` and `report.html`, and writes none of them.
pub fn files(results: &Results, log: &LogWriter) -> Result<Vec<ResultFile>, ResultsError> {
    let json = |value: serde_json::Result<Vec<u8>>| {
        value.map_err(|error| ResultsError::Malformed(error.to_string()))
    };
    let mut csv = String::from(Sample::CSV_HEADER);
    csv.push('\n');
    for sample in &results.series {
        sample.write_csv(&mut csv);
    }
    let mut without_series = results.clone();
    without_series.series = Vec::new();
    let file = |name, bytes| ResultFile { name, bytes };
    let manifest = json(serde_json::to_vec_pretty(&results.manifest))?;
    let totals = json(serde_json::to_vec_pretty(&without_series))?;
    Ok(vec![
        file("manifest.json", manifest),
        file("results.json", totals),
        file("series.json", json(serde_json::to_vec(&results.series))?),
        file("series.csv", csv.into_bytes()),
        file("latency.hlog", log.as_bytes().to_vec()),
        file("report.html", report_page(results).into_bytes()),
    ])
}
