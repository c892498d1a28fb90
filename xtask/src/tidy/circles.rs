//! Circles: modules of one crate that use each other, directly or through others.
//!
//! An edge goes from the module that names an item to the module that defines it: `use` and paths
//! in code are followed through re-exports, so a facade such as `lib.rs` is on no edge. Code for
//! tests does not count. `mod child;` and `pub use child::Item` say where an item is and use
//! nothing. What stands in the same file is one module here, but for inline modules.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::finding::Finding;
use crate::paths::{PathAt, paths};
use crate::source::{Kind, Token};
use crate::tree::Tree;

/// Words before the name of an item.
const ITEMS: &[&str] = &[
    "struct",
    "enum",
    "union",
    "trait",
    "type",
    "const",
    "static",
    "fn",
    "mod",
    "macro_rules",
];
/// Most re-exports that are followed; they may form a circle too.
const FOLLOWED_MAX: usize = 16;

/// The circles of every crate.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        for root in ["lib.rs", "main.rs"] {
            let mut modules = Modules::default();
            let folder = format!("{}/src", package.folder);
            let root = format!("{folder}/{root}");
            modules.load(tree, &root, &folder, "");
            let circles = circles(&modules.edges()).into_iter();
            findings.extend(circles.map(|shown| Finding::new(root.clone(), shown)));
        }
    }
    findings
}

/// One module of a crate.
#[derive(Default)]
struct Module {
    /// Paths of more than one segment.
    paths: Vec<PathAt>,
    /// Paths imported by `use`, by name. `globs` has the modules imported whole.
    brings: BTreeMap<String, String>,
    globs: Vec<String>,
    /// The names of its items, and some more that do no harm.
    items: BTreeSet<String>,
}

/// The modules of one crate by path, the root as an empty text.
#[derive(Default)]
struct Modules(BTreeMap<String, Module>);

/// From a module to those it uses, each with the name of one item.
type Edges = BTreeMap<String, BTreeMap<String, String>>;

impl Modules {
    /// Reads a file and those of its child modules; `folder` is where they are.
    fn load(&mut self, tree: &Tree, path: &str, folder: &str, name: &str) {
        let source = tree
            .rust()
            .find(|(other, _)| *other == path)
            .map(|(_, source)| source);
        let Some(source) = source else { return };
        let live: Vec<&Token> = source.live().collect();
        let mut children = Vec::new();
        self.0.entry(name.to_owned()).or_default();
        for (at, token) in live.iter().enumerate() {
            let next = |n: usize| live.get(at + n).filter(|token| token.kind == Kind::Name);
            if ITEMS.iter().any(|word| token.is(word))
                && let Some(item) = next(1).or_else(|| next(2))
            {
                let module = self.0.entry(name.to_owned()).or_default();
                module.items.insert(item.text.clone());
                if token.is("mod") && live.get(at + 2).is_some_and(|token| token.is(";")) {
                    children.push(item.text.clone());
                }
            }
        }
        for found in paths(live.into_iter()) {
            let module = self.0.entry(join(name, &found.module)).or_default();
            match (&found.brings, found.path.strip_suffix("::*")) {
                (Some(_), Some(all)) => module.globs.push(all.to_owned()),
                (Some(name), None) => {
                    module.brings.insert(name.clone(), found.path.clone());
                }
                _ => {}
            }
            if found.path.contains("::") {
                module.paths.push(found);
            }
        }
        for child in children {
            let inner = format!("{folder}/{child}");
            for file in [format!("{inner}.rs"), format!("{inner}/mod.rs")] {
                self.load(tree, &file, &inner, &join(name, &child));
            }
        }
    }

    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (name, module) in &self.0 {
            for found in &module.paths {
                let Some((to, item)) = self.target(name, &found.path, 0) else {
                    continue;
                };
                let hands_on = found.hands_on && is_below(&to, name);
                if to != *name && !hands_on && !item.is_empty() {
                    edges
                        .entry(name.clone())
                        .or_default()
                        .entry(to)
                        .or_insert(item);
                }
            }
        }
        edges
    }

    /// The module that defines what a path in `from` names, and the item; none if it is not ours.
    fn target(&self, from: &str, path: &str, followed: usize) -> Option<(String, String)> {
        let mut segments: Vec<&str> = path.split("::").collect();
        let mut base = from;
        match segments[0] {
            "crate" => base = "",
            "self" => {}
            "super" => {
                while segments.get(1) == Some(&"super") {
                    base = parent(base);
                    segments.remove(0);
                }
                base = parent(base);
            }
            first if self.0.contains_key(&join(from, first)) => {
                if segments.len() == 1 && followed == 0 {
                    return None;
                }
                segments.insert(0, "self");
            }
            first => {
                let used = self.0.get(from)?.brings.get(first)?;
                if segments.len() == 1 || used == path || followed > FOLLOWED_MAX {
                    return None;
                }
                let whole = [&[used.as_str()], &segments[1..]].concat().join("::");
                return self.target(from, &whole, followed + 1);
            }
        }
        self.resolve(base, &segments[1..], followed)
    }

    fn resolve(&self, base: &str, path: &[&str], followed: usize) -> Option<(String, String)> {
        let module = self.0.get(base)?;
        let Some((first, rest)) = path.split_first() else {
            return Some((base.to_owned(), String::new()));
        };
        if self.0.contains_key(&join(base, first)) {
            return self.resolve(&join(base, first), rest, followed);
        }
        let here = Some((base.to_owned(), (*first).to_owned()));
        if module.items.contains(*first) || followed > FOLLOWED_MAX {
            return here;
        }
        if let Some(used) = module.brings.get(*first) {
            let whole = [&[used.as_str()], rest].concat().join("::");
            return self.target(base, &whole, followed + 1);
        }
        for all in &module.globs {
            if let Some((module, item)) = self.target(base, all, followed + 1)
                && item.is_empty()
                && let Some((found, item)) = self.resolve(&module, path, followed + 1)
                && self
                    .0
                    .get(&found)
                    .is_some_and(|module| module.items.contains(&item))
            {
                return Some((found, item));
            }
        }
        here
    }
}

fn join(module: &str, child: &str) -> String {
    match (module, child) {
        ("", one) | (one, "") => one.to_owned(),
        (module, child) => format!("{module}::{child}"),
    }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn is_below(module: &str, parent: &str) -> bool {
    parent.is_empty()
        || module
            .strip_prefix(parent)
            .is_some_and(|rest| rest.starts_with("::"))
}

/// The shortest way round for each set of modules that can all be reached from each other.
fn circles(edges: &Edges) -> Vec<String> {
    let mut found = Vec::new();
    let mut done: BTreeSet<String> = BTreeSet::new();
    for start in edges.keys() {
        if done.contains(start) {
            continue;
        }
        let back: Vec<String> = reach(edges, start)
            .into_keys()
            .filter(|to| reach(edges, to).contains_key(start))
            .collect();
        let rounds = back.iter().map(|module| round(edges, module));
        if let Some(shown) = rounds.min_by_key(|shown| shown.matches("->").count()) {
            let others = if back.len() > 2 {
                format!(" (of {} modules)", back.len())
            } else {
                String::new()
            };
            found.push(format!("circle: {shown}{others}"));
        }
        done.extend(back);
    }
    found
}

/// The modules that `start` uses in any number of steps, each with the one before it on the
/// shortest way.
fn reach<'a>(edges: &'a Edges, start: &str) -> BTreeMap<String, &'a str> {
    let mut before = BTreeMap::new();
    let mut next = VecDeque::from([start.to_owned()]);
    while let Some(module) = next.pop_front() {
        let Some((module, uses)) = edges.get_key_value(&module) else {
            continue;
        };
        for to in uses.keys() {
            if !before.contains_key(to) {
                before.insert(to.clone(), module.as_str());
                next.push_back(to.clone());
            }
        }
    }
    before
}

/// The shortest way from a module back to itself: `a -> b (Item) -> a (Item)`.
fn round(edges: &Edges, module: &str) -> String {
    let before = reach(edges, module);
    let mut shown = String::new();
    let mut to = module;
    loop {
        let from = before[to];
        shown.insert_str(0, &format!(" -> {} ({})", shown_name(to), edges[from][to]));
        to = from;
        if to == module {
            return format!("{}{shown}", shown_name(module));
        }
    }
}

fn shown_name(module: &str) -> &str {
    if module.is_empty() { "crate" } else { module }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    /// Each file as its path below `src/` and its text.
    #[track_caller]
    fn check(files: &[(&str, &str)], expect: &[&str]) {
        let mut tree = Tree::default();
        for (path, text) in files {
            let file = File::new(&format!("a/src/{path}"), text.as_bytes().to_vec());
            tree.files.push(file.unwrap());
        }
        let mut modules = Modules::default();
        modules.load(&tree, "a/src/lib.rs", "a/src", "");
        let found = circles(&modules.edges());
        assert_eq!(found, expect, "{files:?}");
    }

    #[test]
    fn siblings_that_use_each_other_are_found_through_the_facade() {
        let lib = ("lib.rs", "mod a; mod b; pub use a::A; pub use b::*;");
        let a = ("a.rs", "pub struct A; fn f() { vec![crate::B::new()] }");
        check(
            &[lib, a, ("b.rs", "use super::A; pub struct B(A);")],
            &["circle: a -> b (B) -> a (A)"],
        );
        check(&[lib, a, ("b.rs", "pub struct B;")], &[]);
        let tests = "pub struct B; #[cfg(test)] mod tests { use crate::A; }";
        check(&[lib, a, ("b.rs", tests)], &[]);
    }

    #[test]
    fn a_parent_and_its_child_are_two_modules() {
        let lib = ("lib.rs", "mod a;");
        let a = "mod b; pub struct A; impl A { fn f() { b::g() } }";
        let b = ("a/b.rs", "use super::A; pub fn g() {}");
        check(&[lib, ("a.rs", a), b], &["circle: a -> a::b (g) -> a (A)"]);
        check(
            &[lib, ("a.rs", "mod b; pub use b::g; pub struct A;"), b],
            &[],
        );
    }

    #[test]
    fn the_shortest_way_round_is_shown() {
        check(
            &[
                ("lib.rs", "mod a; mod b; mod c;"),
                ("a.rs", "use crate::b::{self, B as X}; pub struct A;"),
                ("b.rs", "use crate::c; pub struct B(c::C);"),
                (
                    "c/mod.rs",
                    "use super::a::A as Y; pub enum C { D } use std::fmt;",
                ),
            ],
            &["circle: a -> b (B) -> c (C) -> a (A) (of 3 modules)"],
        );
    }
}
