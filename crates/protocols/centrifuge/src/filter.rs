//! Filters over the tags of publications, which a client may put on its subscription (`tf`).
//!
//! A filter is a tree: comparisons of one tag are its leaves, `and`, `or` and `not` its nodes.
//! Owns: what makes a filter valid, and what passes it. Never: where publications come from.
//!
//! Facts come from `FilterNode` in the protocol's schema. Numbers are compared as decimals of any
//! length; a text that is no number passes no comparison of numbers.
//!
//! Invariants
//! - A filter has at most [`NODES_MAX`] nodes and [`VALUES_MAX`] values, [`DEPTH_MAX`] deep, so the
//!   work for one publication is bounded.

use std::borrow::Cow;
use std::cmp::Ordering;

use throng_types::Save;

use crate::field::fields;
use crate::json::each_tag;

/// Nodes of one filter, its leaves among them.
pub const NODES_MAX: usize = 128;
/// Values that its leaves name.
pub const VALUES_MAX: usize = 1024;
pub const DEPTH_MAX: usize = 16;

fields! {
    pub struct FilterNode<'a> {
        /// `and`, `or`, `not`, or nothing for a comparison.
        pub(crate) op: Cow<'a, str>,
        /// The tag that is compared.
        pub(crate) key: Cow<'a, str>,
        pub(crate) cmp: Cow<'a, str>,
        pub(crate) val: Cow<'a, str>,
        /// With which of several.
        pub(crate) vals: Vec<Cow<'a, str>>,
        pub(crate) nodes: Vec<Self>,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Save)]
#[save(check = Self::fits)]
pub struct TagFilter(Node);

#[derive(Clone, Debug, PartialEq, Eq, Save)]
enum Node {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Leaf { key: Box<str>, test: Test },
}

#[derive(Clone, Debug, PartialEq, Eq, Save)]
enum Test {
    Exists,
    Is(Box<str>),
    OneOf(Vec<Box<str>>),
    Starts(Box<str>),
    Ends(Box<str>),
    Contains(Box<str>),
    Above(Box<str>),
    AtLeast(Box<str>),
    Below(Box<str>),
    AtMost(Box<str>),
}

struct Room {
    nodes: usize,
    values: usize,
}

impl TagFilter {
    /// The filter that a client sent; nothing if it is not valid, or too large.
    #[must_use]
    pub fn new(node: &FilterNode<'_>) -> Option<Self> {
        let mut room = Room {
            nodes: NODES_MAX,
            values: VALUES_MAX,
        };
        Node::new(node, DEPTH_MAX, &mut room).map(Self)
    }

    /// Whether a filter that was loaded is within the bounds, by which a negated comparison, two
    /// nodes here, was one.
    fn fits(&self) -> bool {
        let (nodes, values) = self.0.size();
        nodes <= 2 * NODES_MAX && values <= VALUES_MAX
    }

    /// Tells whether a publication with these tags, a JSON object of texts, passes.
    #[must_use]
    pub fn passes(&self, tags: Option<&str>) -> bool {
        let mut all = Vec::new();
        each_tag(tags.unwrap_or("{}"), |name, value| all.push((name, value)));
        self.0.passes(&all)
    }
}

impl Node {
    fn new(node: &FilterNode<'_>, depth: usize, room: &mut Room) -> Option<Self> {
        room.nodes = room.nodes.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        let below = |room: &mut Room| {
            let nodes = node.nodes.iter();
            let nodes: Option<Vec<Self>> = nodes.map(|node| Self::new(node, depth, room)).collect();
            nodes.filter(|nodes| !nodes.is_empty())
        };
        match &*node.op {
            "" => Self::leaf(node, room),
            "and" => below(room).map(Self::All),
            "or" => below(room).map(Self::Any),
            "not" => {
                let mut nodes = below(room)?;
                let only = nodes.pop()?;
                nodes.is_empty().then(|| Self::Not(Box::new(only)))
            }
            _ => None,
        }
    }

    fn leaf(node: &FilterNode<'_>, room: &mut Room) -> Option<Self> {
        room.values = room.values.checked_sub(node.vals.len().max(1))?;
        let key: Box<str> = (&*node.key).into();
        let (has_value, has_values) = (!node.val.is_empty(), !node.vals.is_empty());
        let is_right = match &*node.cmp {
            "ex" | "nex" => !has_value && !has_values,
            "in" | "nin" => !has_value && has_values && !key.is_empty(),
            _ => has_value && !has_values && !key.is_empty(),
        };
        let value = || Box::<str>::from(&*node.val);
        let values = || node.vals.iter().map(|value| (&**value).into()).collect();
        let (is_negated, test) = match &*node.cmp {
            "ex" => (false, Test::Exists),
            "nex" => (true, Test::Exists),
            "eq" => (false, Test::Is(value())),
            "neq" => (true, Test::Is(value())),
            "in" => (false, Test::OneOf(values())),
            "nin" => (true, Test::OneOf(values())),
            "sw" => (false, Test::Starts(value())),
            "ew" => (false, Test::Ends(value())),
            "ct" => (false, Test::Contains(value())),
            "gt" => (false, Test::Above(value())),
            "gte" => (false, Test::AtLeast(value())),
            "lt" => (false, Test::Below(value())),
            "lte" => (false, Test::AtMost(value())),
            _ => return None,
        };
        let leaf = Self::Leaf { key, test };
        is_right.then(|| match is_negated {
            true => Self::Not(Box::new(leaf)),
            false => leaf,
        })
    }

    /// Number of nodes, and of values that leaves name.
    fn size(&self) -> (usize, usize) {
        let below = |nodes: &[Self]| {
            let add = |(a, b), (c, d)| (a + c, b + d);
            nodes.iter().map(Self::size).fold((1, 0), add)
        };
        match self {
            Self::All(nodes) | Self::Any(nodes) => below(nodes),
            Self::Not(node) => below(std::slice::from_ref(node)),
            Self::Leaf {
                test: Test::OneOf(values),
                ..
            } => (1, values.len()),
            Self::Leaf { .. } => (1, 1),
        }
    }

    fn passes(&self, tags: &[(Cow<'_, str>, Cow<'_, str>)]) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.passes(tags)),
            Self::Any(nodes) => nodes.iter().any(|node| node.passes(tags)),
            Self::Not(node) => !node.passes(tags),
            Self::Leaf { key, test } => {
                // Of equal names the last one counts, as elsewhere in JSON.
                let found = tags.iter().rev().find(|(name, _)| **name == **key);
                test.passes(found.map(|(_, value)| &**value))
            }
        }
    }
}

impl Test {
    fn passes(&self, value: Option<&str>) -> bool {
        let Some(value) = value else {
            // Centrifugo compares a tag that is not there as an empty text here, and only here.
            return matches!(self, Self::OneOf(all) if all.iter().any(|one| one.is_empty()));
        };
        match self {
            Self::Exists => true,
            Self::Is(other) => *value == **other,
            Self::OneOf(all) => all.iter().any(|one| **one == *value),
            Self::Starts(part) => value.starts_with(&**part),
            Self::Ends(part) => value.ends_with(&**part),
            Self::Contains(part) => value.contains(&**part),
            Self::Above(than) => compare(value, than).is_some_and(Ordering::is_gt),
            Self::AtLeast(than) => compare(value, than).is_some_and(Ordering::is_ge),
            Self::Below(than) => compare(value, than).is_some_and(Ordering::is_lt),
            Self::AtMost(than) => compare(value, than).is_some_and(Ordering::is_le),
        }
    }
}

/// Compares two decimals; nothing if one of them is none.
fn compare(one: &str, other: &str) -> Option<Ordering> {
    let (one, other) = (Decimal::parse(one)?, Decimal::parse(other)?);
    let by_size = || {
        let by_length = one.whole.len().cmp(&other.whole.len());
        by_length
            .then_with(|| one.whole.cmp(other.whole))
            .then_with(|| one.part.cmp(other.part))
    };
    Some(match (one.is_negative, other.is_negative) {
        (false, true) => Ordering::Greater,
        (true, false) => Ordering::Less,
        (false, false) => by_size(),
        (true, true) => by_size().reverse(),
    })
}

/// A number in its digits, without zeros that say nothing.
struct Decimal<'a> {
    is_negative: bool,
    whole: &'a str,
    part: &'a str,
}

impl<'a> Decimal<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (sign, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        if !is_number(whole) || !is_number(part) {
            return None;
        }
        let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
        let is_zero = whole.is_empty() && part.is_empty();
        Some(Self {
            is_negative: sign && !is_zero,
            whole,
            part,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throng_types::cases;

    #[track_caller]
    fn filter(json: &str) -> Option<TagFilter> {
        TagFilter::new(&serde_json::from_str(json).expect("a node"))
    }

    #[test]
    fn tags_pass_or_do_not() {
        const TAGS: &str = r#"{"team":"eng","price":"10.50","n":"-3","empty":""}"#;
        for (node, expected) in cases(include_str!("filter/cases.txt")) {
            let found = match filter(node) {
                None => "no filter",
                Some(filter) if filter.passes(Some(TAGS)) => "passes",
                Some(_) => "is held back",
            };
            assert_eq!(found, expected, "{node}");
        }
        let of_nothing = filter(r#"{"key":"team","cmp":"ex"}"#).unwrap();
        assert!(!of_nothing.passes(None));
    }

    #[test]
    fn filters_have_bounds() {
        let leaf = r#"{"key":"x","cmp":"ex"}"#;
        let wide = |count| {
            format!(
                "{{\"op\":\"or\",\"nodes\":[{}]}}",
                vec![leaf; count].join(",")
            )
        };
        assert!(filter(&wide(NODES_MAX - 1)).is_some());
        assert_eq!(filter(&wide(NODES_MAX)), None);
        let deep = |depth| {
            let open = "{\"op\":\"not\",\"nodes\":[".repeat(depth);
            format!("{open}{leaf}{}", "]}".repeat(depth))
        };
        assert!(filter(&deep(DEPTH_MAX - 1)).is_some());
        assert_eq!(filter(&deep(DEPTH_MAX)), None);
    }
}

#[cfg(test)]
mod moving_tests {
    use throng_types::{Load as _, check_saved};

    use super::*;
    use crate::FilterNode;

    fn filter(json: &str) -> TagFilter {
        let node: FilterNode<'_> = serde_json::from_str(json).expect("a node");
        TagFilter::new(&node).expect("a valid filter")
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
            check_saved(&filter);
            assert_eq!(
                TagFilter::load_whole(&filter.saved()),
                Some(filter),
                "{json}"
            );
        }
    }

    #[test]
    fn bytes_of_no_filter_are_refused() {
        // Deeper than any filter is, and of a kind that there is not.
        for bytes in [vec![2; 100_000], vec![4], vec![3, 0, 0, 0, 0, 10]] {
            assert_eq!(TagFilter::load_whole(&bytes), None);
        }
        let wide = Node::Any(vec![Node::Not(Box::new(Node::Any(Vec::new()))); NODES_MAX]);
        assert_eq!(TagFilter::load_whole(&TagFilter(wide).saved()), None);
    }
}
