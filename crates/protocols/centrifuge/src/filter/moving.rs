//! A filter as bytes, for a process that takes over.

use std::cmp::Ordering;

use throng_types::{Save, Saved};

use super::{DEPTH_MAX, Filter, NODES_MAX, Node, Room, Test, VALUES_MAX};

impl Save for Filter {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        // A comparison that is negated is two nodes here, and was one.
        let mut room = Room {
            nodes: 2 * NODES_MAX,
            values: VALUES_MAX,
        };
        Node::load(from, DEPTH_MAX + 1, &mut room).map(Self)
    }
}

impl Node {
    fn save(&self, out: &mut Vec<u8>) {
        let mut several = |number: u8, nodes: &[Self]| {
            (number, nodes.len() as u32).save(out);
            nodes.iter().for_each(|node| node.save(out));
        };
        match self {
            Self::All(nodes) => several(0, nodes),
            Self::Any(nodes) => several(1, nodes),
            Self::Not(node) => {
                out.push(2);
                node.save(out);
            }
            Self::Leaf { key, test } => {
                (3_u8, key.clone()).save(out);
                test.save(out);
            }
        }
    }

    fn load(from: &mut Saved<'_>, depth: usize, room: &mut Room) -> Option<Self> {
        room.nodes = room.nodes.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        let number = u8::load(from)?;
        Some(match number {
            0 | 1 => {
                let mut nodes = Vec::new();
                for _ in 0..from.count()? {
                    nodes.push(Self::load(from, depth, room)?);
                }
                match number {
                    0 => Self::All(nodes),
                    _ => Self::Any(nodes),
                }
            }
            2 => Self::Not(Box::new(Self::load(from, depth, room)?)),
            3 => {
                let key = Save::load(from)?;
                let test = Test::load(from)?;
                let values = match &test {
                    Test::OneOf(all) => all.len(),
                    _ => 1,
                };
                room.values = room.values.checked_sub(values)?;
                Self::Leaf { key, test }
            }
            _ => return None,
        })
    }
}

impl Save for Test {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Self::Exists => out.push(0),
            Self::Is(value) => (1_u8, value.clone()).save(out),
            Self::OneOf(values) => {
                out.push(2);
                values.save(out);
            }
            Self::Starts(value) => (3_u8, value.clone()).save(out),
            Self::Ends(value) => (4_u8, value.clone()).save(out),
            Self::Contains(value) => (5_u8, value.clone()).save(out),
            Self::Number(value, orders) => {
                (6_u8, value.clone()).save(out);
                out.extend(orders.map(|order| (order as i8 + 1) as u8));
            }
        }
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        Some(match u8::load(from)? {
            0 => Self::Exists,
            1 => Self::Is(Save::load(from)?),
            2 => Self::OneOf(Save::load(from)?),
            3 => Self::Starts(Save::load(from)?),
            4 => Self::Ends(Save::load(from)?),
            5 => Self::Contains(Save::load(from)?),
            6 => Self::Number(Save::load(from)?, [order(from)?, order(from)?]),
            _ => return None,
        })
    }
}

fn order(from: &mut Saved<'_>) -> Option<Ordering> {
    match u8::load(from)? {
        0 => Some(Ordering::Less),
        1 => Some(Ordering::Equal),
        2 => Some(Ordering::Greater),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilterNode;

    fn filter(json: &str) -> Filter {
        let node: FilterNode<'_> = serde_json::from_str(json).expect("a node");
        Filter::new(&node).expect("a valid filter")
    }

    #[test]
    fn every_filter_comes_back_and_no_part_of_one() {
        let leaf = |cmp: &str, rest: &str| format!("{{\"key\":\"k\",\"cmp\":\"{cmp}\"{rest}}}");
        let value = ",\"val\":\"1.5\"";
        let leaves = ["eq", "neq", "sw", "ew", "ct", "gt", "gte", "lt", "lte"];
        let leaves = leaves.iter().map(|cmp| leaf(cmp, value));
        let others = [
            leaf("ex", ""),
            leaf("nex", ""),
            leaf("in", ",\"vals\":[\"a\",\"\"]"),
            leaf("nin", ",\"vals\":[\"b\"]"),
        ];
        let all: Vec<String> = leaves.chain(others).collect();
        let mut deep = leaf("neq", value);
        for _ in 1..DEPTH_MAX {
            deep = format!("{{\"op\":\"not\",\"nodes\":[{deep}]}}");
        }
        let both =
            ["and", "or"].map(|op| format!("{{\"op\":\"{op}\",\"nodes\":[{}]}}", all.join(",")));
        for json in all.iter().chain(&both).chain([&deep]) {
            let filter = filter(json);
            let bytes = filter.saved();
            assert_eq!(Filter::load_whole(&bytes), Some(filter), "{json}");
            for cut in 0..bytes.len() {
                assert_eq!(Filter::load_whole(&bytes[..cut]), None, "{json}: {cut}");
            }
        }
    }

    #[test]
    fn bytes_of_no_filter_are_refused() {
        // Deeper than any filter is, and of a kind that there is not.
        for bytes in [vec![2; 100_000], vec![4], vec![3, 0, 0, 0, 0, 7]] {
            assert_eq!(Filter::load_whole(&bytes), None);
        }
        let wide = Node::Any(vec![Node::Not(Box::new(Node::Any(Vec::new()))); NODES_MAX]);
        assert_eq!(Filter::load_whole(&Filter(wide).saved()), None);
    }
}
