//! What other nodes use of limits that hold for all nodes together.
//!
//! Each node tells all nodes, itself included, what it uses: rows by name, in rounds that it has
//! numbers for. Words may be lost, so what was told last counts. What a round does not tell again
//! ends with the next one; a node without a word for [`SILENT_MS`] has nothing. A node that hears
//! nobody has the limits alone.

use std::collections::BTreeMap;

use throng_types::{Load as _, Millis, Save as _};

use crate::work::SharedDebt;

/// Time without a word after which a node is no more, in milliseconds.
const SILENT_MS: u64 = 15_000;
/// Rows of one word.
const ROWS_MAX: usize = 256;

/// Connections on a node, and what debts have counted there, in microseconds.
pub type NodeUse<const N: usize> = (u64, [u64; N]);

/// Use of names on other nodes, each with so many debts.
pub struct Elsewhere<const N: usize> {
    /// First byte of the words, which no others have; it rises with each change of their form.
    form: u8,
    /// Round of this node.
    round: u32,
    /// Other nodes by their names. Bound: the cluster's.
    nodes: BTreeMap<Box<str>, Node<N>>,
}

struct Node<const N: usize> {
    heard_at: Millis,
    round: u32,
    /// Each with the round that told it. Bound: what the node uses.
    rows: BTreeMap<Box<str>, (NodeUse<N>, u32)>,
}

impl<const N: usize> Elsewhere<N> {
    #[must_use]
    pub const fn new(form: u8) -> Self {
        Self {
            form,
            round: 0,
            nodes: BTreeMap::new(),
        }
    }

    /// Makes words of the node with this name about a part of a round, the last one or not; once a
    /// second. Forgets nodes that are no more.
    pub fn words(
        &mut self,
        own: &str,
        rows: &[(&str, NodeUse<N>)],
        is_last: bool,
        now: Millis,
    ) -> Vec<Vec<u8>> {
        let is_there = |node: &Node<N>| now <= node.heard_at + SILENT_MS;
        self.nodes.retain(|_, node| is_there(node));
        let words = { rows.chunks(ROWS_MAX) }
            .map(|rows| (self.form, own, self.round, rows).saved())
            .collect();
        self.round = self.round.wrapping_add(is_last.into());
        words
    }

    /// Takes a word of some node, and charges what is new in it to the debts of its names.
    pub fn hear<'d>(
        &mut self,
        word: &[u8],
        own: &str,
        now: Millis,
        debts: impl Fn(&str) -> Option<&'d [SharedDebt; N]>,
    ) {
        let word = word.strip_prefix(&[self.form]);
        let word = word.and_then(<(Box<str>, u32, Vec<(Box<str>, NodeUse<N>)>)>::load_whole);
        let Some((name, round, rows)) = word.filter(|(name, ..)| **name != *own) else {
            return;
        };
        let node = self.nodes.entry(name).or_insert_with(|| Node {
            heard_at: now,
            round,
            rows: BTreeMap::new(),
        });
        node.heard_at = now;
        if node.round != round {
            let last = std::mem::replace(&mut node.round, round);
            node.rows.retain(|_, (_, told_in)| *told_in == last);
        }
        for (name, row) in rows {
            if let (Some(((_, before), _)), Some(debts)) = (node.rows.get(&name), debts(&name)) {
                for ((debt, before_us), told_us) in debts.iter().zip(before).zip(row.1) {
                    debt.charge_elsewhere(*before_us, told_us, now);
                }
            }
            node.rows.insert(name, (row, round));
        }
    }

    /// Adds up the connections of a name on other nodes.
    pub fn connections(&self, name: &str) -> u64 {
        let rows = { self.nodes.values() }.filter_map(|node| node.rows.get(name));
        rows.fold(0, |sum, ((connections, _), _)| {
            sum.saturating_add(*connections)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_last_counts_until_a_round_or_the_node_is_over() {
        let mut here = Elsewhere::<1>::new(7);
        let debts = [SharedDebt::default()];
        let say = |here: &mut Elsewhere<1>, own: &str, round, rows: &[(&str, u64)], ms| {
            let rows: Vec<_> = rows.iter().map(|(name, n)| (*name, (*n, [*n]))).collect();
            let mut from = Elsewhere {
                round,
                ..Elsewhere::new(7)
            };
            for word in from.words(own, &rows, true, Millis(0)) {
                here.hear(&word, "own", Millis(ms), |name| {
                    (name == "a").then_some(&debts)
                });
            }
        };
        let owed = || debts[0].charge(0, Millis(0), |_| false).unwrap_err();
        say(&mut here, "own", 1, &[("a", 9)], 0);
        say(&mut here, "n", 1, &[("a", 1), ("b", 2)], 0);
        say(&mut here, "m", 5, &[("a", 3)], 0);
        assert_eq!(owed(), 0, "what was before it began is not known");
        say(&mut here, "n", 2, &[("a", 4)], 0);
        assert_eq!(owed(), 3);
        let sum = |here: &Elsewhere<1>, name: &str| here.connections(name);
        assert_eq!((sum(&here, "a"), sum(&here, "b")), (7, 2));
        // The round that is over has not told of the second one.
        say(&mut here, "n", 3, &[("a", 4), ("c", 1)], 0);
        assert_eq!((sum(&here, "a"), sum(&here, "b")), (7, 0));
        // A process that goes on for another begins with any round, and with no charges.
        say(&mut here, "n", 1, &[("a", 1), ("c", 2)], 10);
        assert_eq!((sum(&here, "a"), sum(&here, "c"), owed()), (4, 2, 10_001));
        here.words("own", &[], true, Millis(SILENT_MS + 1));
        assert_eq!((sum(&here, "a"), sum(&here, "c")), (1, 2));
        for word in [&b""[..], b"7", &[7, 1], &[8, 0, 0, 0, 0]] {
            here.hear(word, "own", Millis(30), |_| panic!("no word"));
        }
    }

    #[test]
    fn many_rows_are_several_words() {
        let (mut here, mut there) = (Elsewhere::<0>::new(7), Elsewhere::<0>::new(7));
        let names: Vec<String> = (0..600).map(|n| n.to_string()).collect();
        let rows: Vec<_> = names.iter().map(|name| (&**name, (1, []))).collect();
        let words = here.words("n", &rows, true, Millis(0));
        assert_eq!(words.len(), 3);
        for word in words {
            there.hear(&word, "own", Millis(0), |_| None);
        }
        let sum: u64 = names.iter().map(|name| there.connections(name)).sum();
        assert_eq!(sum, 600);
    }
}
