//! Numbers of namespaces: a label for each of the first hundred that were ever configured, and the
//! cells behind the labels in each shard's [`Counters`].
//!
//! Invariant: a label keeps its namespace while the process lives, so that counters do not fall
//! after a reload.

use crate::labelled::{OTHERS, write_rows};
use crate::names::LABELS_MAX;
use crate::{Counters, Exposition, NamespaceMetric};

/// Label of channels without a namespace.
const PLAIN: &str = "(none)";

/// Labels of the namespaces that are or were configured.
#[derive(Debug, Default)]
pub struct NamespaceLabels {
    /// Names in the order of their labels. Bound: [`LABELS_MAX`].
    names: Vec<Box<str>>,
}

impl NamespaceLabels {
    /// The label of a namespace, which gets one if there is room; 0 is that of channels without.
    pub fn label_of(&mut self, namespace: &str) -> u8 {
        let names = &mut self.names;
        let at = names.iter().position(|name| **name == *namespace);
        let at = at.unwrap_or_else(|| {
            if names.len() < LABELS_MAX {
                names.push(namespace.into());
                return names.len() - 1;
            }
            LABELS_MAX
        });
        1 + at as u8
    }
}

/// Appends the metrics of all namespaces with a label, as sums over shards.
pub fn write_namespaces<C: AsRef<Counters>>(
    labels: &NamespaceLabels,
    counters: &[C],
    out: &mut Exposition<'_>,
) {
    let names = labels.names.iter().map(|name| &**name);
    let has_others = names.len() == LABELS_MAX;
    let labels = [PLAIN].into_iter().chain(names);
    let labels = labels.chain(has_others.then_some(OTHERS)).enumerate();
    let sum = |label: usize, metric: NamespaceMetric| {
        let all = counters.iter().map(|it| it.as_ref());
        all.fold(0, |sum: u64, it| {
            sum.wrapping_add(it.of_namespace(label, metric))
        })
    };
    let rows = labels.map(|(at, name)| {
        (
            name,
            std::array::from_fn(|metric| sum(at, NamespaceMetric::ALL[metric])),
        )
    });
    let rows: Vec<(&str, [u64; NamespaceMetric::COUNT])> = rows.collect();
    let metrics = NamespaceMetric::ALL.iter();
    let metrics = metrics.map(|it| (it.name(), it.help(), "counter", it.label()));
    write_rows("namespace", metrics, &rows, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(labels: &NamespaceLabels, shards: &[Counters]) -> String {
        let mut out = Exposition::default();
        write_namespaces(labels, shards, &mut out);
        out.finish().1
    }

    #[test]
    fn the_first_hundred_keep_their_labels_and_the_others_are_added_up() {
        let (mut labels, shards) = (
            NamespaceLabels::default(),
            [Counters::new(), Counters::new()],
        );
        shards[0].add_for(0, NamespaceMetric::Publications, 3);
        shards[1].add_for(labels.label_of("chat"), NamespaceMetric::Deliveries, 5);
        shards[0].add_for(labels.label_of("chat"), NamespaceMetric::Deliveries, 6);
        let text = text_of(&labels, &shards);
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            values,
            [
                "throng_namespace_publications_total{namespace=\"(none)\"} 3",
                "throng_namespace_publications_total{namespace=\"chat\"} 0",
                "throng_namespace_deliveries_total{namespace=\"(none)\"} 0",
                "throng_namespace_deliveries_total{namespace=\"chat\"} 11",
            ]
        );
        for number in 0..200 {
            let label = labels.label_of(&number.to_string());
            shards[0].add_for(label, NamespaceMetric::Publications, 1);
        }
        assert_eq!((labels.label_of("chat"), labels.label_of("0")), (1, 2));
        let text = text_of(&labels, &shards);
        for (name, value) in [("98", 1), ("(other)", 101)] {
            let line =
                format!("throng_namespace_publications_total{{namespace=\"{name}\"}} {value}\n");
            assert!(text.contains(&line), "{line}");
        }
        assert!(!text.contains("\"99\""));
    }
}
