//! A strict reader of the Prometheus text format, version 0.0.4.
//!
//! Stricter than scrapers are: `# HELP` and `# TYPE` stand before their samples, a metric's samples
//! stand together, no series comes twice, counters end in `_total` and do not fall below zero, and
//! a histogram's buckets rise to its count.

use std::collections::{BTreeMap, BTreeSet};

/// Metrics that a server exposed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposition {
    samples: BTreeMap<String, f64>,
    types: BTreeMap<String, String>,
}

impl Exposition {
    /// The value of a series, spelled as the server spells it.
    pub fn value(&self, series: &str) -> Option<f64> {
        self.samples.get(series).copied()
    }

    /// The sum of all series of a metric.
    pub fn sum(&self, metric: &str) -> f64 {
        let own = |series: &&String| name_of(series) == metric;
        self.samples
            .iter()
            .filter(|(series, _)| own(series))
            .map(|(_, value)| value)
            .sum()
    }

    /// Number of metrics exposed.
    pub fn metrics(&self) -> usize {
        self.types.len()
    }
}

fn name_of(series: &str) -> &str {
    series.split('{').next().unwrap_or(series)
}

/// Reads all of it.
///
/// # Errors
/// A sentence about the first line that breaks a rule.
pub fn parse(text: &str) -> Result<Exposition, String> {
    if !text.ends_with('\n') {
        return Err("the last line does not end".to_owned());
    }
    let mut reader = Reader::default();
    for (n, line) in text.lines().enumerate() {
        reader
            .line(line)
            .map_err(|why| format!("line {}: {why}: {line}", n + 1))?;
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    read: Exposition,
    helped: BTreeSet<String>,
    current: String,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or("no help")?;
            check_name(name)?;
            if help.is_empty() || !self.helped.insert(name.to_owned()) {
                return Err("empty or repeated help".to_owned());
            }
            name.clone_into(&mut self.current);
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or("no type")?;
            let known = ["counter", "gauge", "histogram"].contains(&kind);
            if name != self.current || !known {
                return Err("a type without its help, or of no known kind".to_owned());
            }
            // Metrics under Pushpin's names keep those names, against the rule.
            let is_ours = !name.starts_with("pushpin_");
            if kind == "counter" && is_ours && !name.ends_with("_total") {
                return Err("a counter's name does not end in _total".to_owned());
            }
            let first = self
                .read
                .types
                .insert(name.to_owned(), kind.to_owned())
                .is_none();
            return if first {
                Ok(())
            } else {
                Err("repeated type".to_owned())
            };
        }
        self.sample(line)
    }

    fn sample(&mut self, line: &str) -> Result<(), String> {
        let (series, value) = line
            .rsplit_once(' ')
            .ok_or("neither a comment nor a sample")?;
        let name = name_of(series);
        check_name(name)?;
        if let Some(labels) = series
            .strip_prefix(name)
            .filter(|labels| !labels.is_empty())
        {
            check_labels(labels)?;
        }
        let kind = self
            .read
            .types
            .get(&self.current)
            .ok_or("a sample before its type")?;
        let base = match kind.as_str() {
            "histogram" => ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end)),
            _ => Some(name),
        };
        if base != Some(&*self.current) {
            return Err(format!("a sample among those of {}", self.current));
        }
        let value: f64 = value.parse().map_err(|_| "not a number")?;
        if kind != "gauge" && (value < 0.0 || !value.is_finite()) {
            return Err("a count below zero".to_owned());
        }
        if self.read.samples.insert(series.to_owned(), value).is_some() {
            return Err("a series for the second time".to_owned());
        }
        Ok(())
    }

    fn finish(self) -> Result<Exposition, String> {
        for (name, kind) in &self.read.types {
            if kind == "histogram" {
                self.histogram(name)?;
            }
        }
        Ok(self.read)
    }

    fn histogram(&self, name: &str) -> Result<(), String> {
        let prefix = format!("{name}_bucket{{");
        // By their labels besides the bound.
        let mut several: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for (series, count) in &self.read.samples {
            let Some(labels) = series.strip_prefix(&prefix) else {
                continue;
            };
            let bound = labels.split_once("le=\"").and_then(|(own, rest)| {
                let bound = rest.split('"').next()?.parse().ok()?;
                Some((own.trim_end_matches(','), bound))
            });
            let (own, bound) = bound.ok_or_else(|| format!("{series} has no bound"))?;
            let own = if own.is_empty() {
                String::new()
            } else {
                format!("{{{own}}}")
            };
            several.entry(own).or_default().push((bound, *count));
        }
        let is_whole = |(own, buckets): (&String, &mut Vec<(f64, f64)>)| {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            let rises = buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1);
            let count = self.read.value(&format!("{name}_count{own}"));
            let last = buckets.last();
            let ends = last.is_some_and(|&(bound, all)| bound.is_infinite() && Some(all) == count);
            rises && ends && self.read.value(&format!("{name}_sum{own}")).is_some()
        };
        if !several.is_empty() && several.iter_mut().all(is_whole) {
            return Ok(());
        }
        Err(format!(
            "{name} falls, or lacks its sum, its count or the bucket that holds all"
        ))
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let mut letters = name.chars();
    let first = letters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == ':');
    if first && letters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':') {
        Ok(())
    } else {
        Err(format!("{name:?} is no name"))
    }
}

/// `{name="value",other="value"}`; values here need no escapes.
fn check_labels(labels: &str) -> Result<(), String> {
    let inner = labels
        .strip_prefix('{')
        .and_then(|labels| labels.strip_suffix('}'));
    for label in inner.ok_or("labels without braces")?.split(',') {
        let (name, value) = label.split_once('=').ok_or("a label without a value")?;
        check_name(name)?;
        let value = value
            .strip_prefix('"')
            .and_then(|value| value.strip_suffix('"'));
        if value.is_none_or(|value| value.contains(['"', '\\', '\n'])) {
            return Err("a label's value is not quoted".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\"} 2\n\
                        a_total{x=\"2\"} 3\n\
        # HELP h H.\n# TYPE h histogram\nh_bucket{le=\"0.5\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum \
        1.5\nh_count 2\n\
        # HELP l L.\n# TYPE l histogram\nl_bucket{x=\"1\",le=\"+Inf\"} 2\nl_sum{x=\"1\"} \
        1\nl_count{x=\"1\"} 2\n";

    #[test]
    fn good_text_is_read() {
        let read = parse(GOOD).unwrap();
        assert_eq!(read.value("a_total{x=\"2\"}"), Some(3.0));
        assert_eq!((read.sum("a_total"), read.metrics()), (5.0, 3));
    }

    #[test]
    fn broken_rules_are_found() {
        for (from, to) in [
            ("# HELP a_total A.\n", ""),
            ("# TYPE a_total counter\n", ""),
            ("a_total{x=\"2\"} 3", "a_total{x=\"1\"} 3"),
            ("a_total{x=\"2\"} 3", "b_total 3"),
            ("a_total{x=\"2\"} 3", "a_total{x=2} 3"),
            ("a_total{x=\"2\"} 3", "a_total{x=\"2\"} -3"),
            ("a_total{x=\"2\"} 3", "a_total{x=\"2\"} three"),
            ("a_total", "a"),
            ("h_bucket{le=\"+Inf\"} 2\n", ""),
            ("h_bucket{le=\"0.5\"} 1", "h_bucket{le=\"0.5\"} 7"),
            ("h_sum 1.5\n", ""),
            ("h_count 2\n", ""),
            ("l_sum{x=\"1\"}", "l_sum{x=\"2\"}"),
            ("l_count{x=\"1\"} 2\n", "l_count{x=\"1\"} 2"),
        ] {
            let broken = GOOD.replace(from, to);
            assert!(parse(&broken).is_err(), "{from:?} -> {to:?}");
        }
    }
}
