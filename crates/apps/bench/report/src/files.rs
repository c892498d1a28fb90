//! Files of a results folder.

use serde_json::json;

use throng_bench_measure::LogWriter;

use crate::html::report_page;
use crate::results::{Results, ResultsError};
use throng_types::fill::fill;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultFile {
    pub name: &'static str,
    pub bytes: Vec<u8>,
}

/// Makes `manifest.json`, `results.json` (without the series), `series.json`, `series.csv`,
/// `latency.hlog` and `report.html`, and writes none of them.
pub fn files(results: &Results, log: &LogWriter) -> Result<Vec<ResultFile>, ResultsError> {
    let json_of = |value: serde_json::Result<Vec<u8>>| {
        value.map_err(|error| ResultsError::Malformed(error.to_string()))
    };
    // Unknown figures are empty, not zero.
    let csv = fill(
        include_str!("series.csv"),
        &json!({"series": results.series}),
    );
    let mut without_series = results.clone();
    without_series.series = Vec::new();
    let file = |name, bytes| ResultFile { name, bytes };
    let manifest = json_of(serde_json::to_vec_pretty(&results.manifest))?;
    let totals = json_of(serde_json::to_vec_pretty(&without_series))?;
    Ok(vec![
        file("manifest.json", manifest),
        file("results.json", totals),
        file("series.json", json_of(serde_json::to_vec(&results.series))?),
        file("series.csv", csv.into_bytes()),
        file("latency.hlog", log.as_bytes().to_vec()),
        file("report.html", report_page(results).into_bytes()),
    ])
}

#[cfg(test)]
mod tests {
    use throng_bench_measure::{Sample, ServerSample};
    use throng_bench_plan::{ClientTransport, Dialect, Scenario, Workload};

    use super::*;

    #[test]
    fn every_row_has_the_header_s_columns_and_what_is_unknown_is_empty() {
        let full = Sample {
            latency_us: Some([1, 2, 3, 4, 5]),
            connect_us: Some([1, 2, 3, 4, 5]),
            lag_us: Some([1, 2, 3, 4, 5]),
            generator_memory_bytes: Some(7),
            server: Some(ServerSample {
                cpu: Some(0.5),
                memory_bytes: Some(1),
                slab_bytes: Some(2),
                sockets: Some(3),
                connections: Some(4),
            }),
            ..Sample::default()
        };
        let plain = ClientTransport::websocket(Dialect::Plain);
        let mut results = Results::empty(&Scenario::new(Workload::Hold, Vec::new(), plain));
        results.series = vec![Sample::default(), full];
        let files = files(&results, &LogWriter::new(0)).unwrap();
        let csv = files.iter().find(|file| file.name == "series.csv").unwrap();
        let csv = str::from_utf8(&csv.bytes).unwrap();
        let columns = |line: &str| line.split(',').count();
        let header = columns(csv.lines().next().unwrap());
        assert!(csv.lines().all(|line| columns(line) == header), "{csv}");
        assert!(csv.contains("0,,,,,,,,,,,,,,,,0.000,,,,,,\n"), "{csv}");
        assert!(csv.ends_with(",5,0.000,7,0.500,1,2,3,4\n"), "{csv}");
    }
}
