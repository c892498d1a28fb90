//! `cargo xtask score`: the shape of the code as a table, to compare with earlier days and other
//! projects.
//!
//! It judges nothing; `tidy` does. Test code counts as code for sizes, not for `unwrap`.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::source::{self, Source, Token};
use crate::tree::{Tree, is_test_file};

/// Counts of one file.
struct Shape {
    path: String,
    lines: usize,
    code_lines: usize,
    comment_lines: usize,
    longest: (usize, String),
    unsafes: usize,
    unwraps: usize,
    tests: usize,
}

impl Shape {
    fn of(path: &str, text: &str, source: &Source) -> Self {
        let mut shape = Self {
            path: path.to_owned(),
            lines: text.lines().count(),
            code_lines: 0,
            comment_lines: 0,
            longest: (0, String::new()),
            unsafes: 0,
            unwraps: 0,
            tests: 0,
        };
        let code: BTreeSet<usize> = source
            .tokens
            .iter()
            .flat_map(|token| token.line..=token.end_line)
            .collect();
        let written = |line: &&str| !line.trim().is_empty();
        shape.code_lines = code.len();
        shape.comment_lines = text
            .lines()
            .filter(written)
            .count()
            .saturating_sub(code.len());
        for function in source::functions(&source.tokens) {
            if function.lines > shape.longest.0 {
                shape.longest = (function.lines, function.name);
            }
        }
        let calls = |tokens: &[&Token], names: &[&str]| {
            let called = |at: &[&Token]| at[0].is(".") && names.iter().any(|name| at[1].is(name));
            tokens.windows(2).filter(|at| called(at)).count()
        };
        shape.unsafes = source
            .tokens
            .iter()
            .filter(|token| token.is("unsafe"))
            .count();
        if !is_test_file(path) {
            shape.unwraps = calls(&source.live().collect::<Vec<_>>(), &["unwrap", "expect"]);
        }
        let is_test = |at: &[Token]| at[0].is("[") && at[1].is("test") && at[2].is("]");
        shape.tests = source.tokens.windows(3).filter(|at| is_test(at)).count();
        shape
    }
}

/// Prints one row for each crate and one for all.
pub(crate) fn print() -> Result<()> {
    let tree = Tree::read()?;
    println!(
        "{:<22} {:>5} {:>6} {:>8} {:>6} {:>5} {:>7}  {:<38} {:>6} {:>6} {:>5}",
        "",
        "files",
        "lines",
        "comments",
        "median",
        "p90",
        "largest",
        "longest function",
        "unsafe",
        "unwrap",
        "tests"
    );
    let mut all = Vec::new();
    for package in &tree.packages {
        let shapes: Vec<Shape> = tree
            .rust()
            .filter(|(path, _)| package.owns(path))
            .map(|(path, source)| Shape::of(path, tree.text(path).unwrap_or_default(), source))
            .collect();
        println!("{}", row(package.room(), &shapes));
        all.extend(shapes);
    }
    println!("{}", row("all", &all));
    if let Some(largest) = all.iter().max_by_key(|shape| shape.lines) {
        println!("\nlargest file: {} ({} lines)", largest.path, largest.lines);
    }
    Ok(())
}

fn row(name: &str, shapes: &[Shape]) -> String {
    let mut sizes: Vec<usize> = shapes.iter().map(|shape| shape.lines).collect();
    sizes.sort_unstable();
    let sum = |count: fn(&Shape) -> usize| shapes.iter().map(count).sum::<usize>();
    let comments = sum(|shape| shape.comment_lines);
    let share = percent(comments, comments + sum(|shape| shape.code_lines));
    let longest = shapes
        .iter()
        .map(|shape| &shape.longest)
        .max_by_key(|(lines, _)| *lines)
        .map_or_else(String::new, |(lines, name)| format!("{lines} {name}"));
    format!(
        "{name:<22} {:>5} {:>6} {:>7}% {:>6} {:>5} {:>7}  {longest:<38} {:>6} {:>6} {:>5}",
        shapes.len(),
        sum(|shape| shape.lines),
        share,
        quantile(&sizes, 50),
        quantile(&sizes, 90),
        quantile(&sizes, 100),
        sum(|shape| shape.unsafes),
        sum(|shape| shape.unwraps),
        sum(|shape| shape.tests),
    )
}

fn percent(part: usize, whole: usize) -> usize {
    (part * 100 + whole / 2).checked_div(whole).unwrap_or(0)
}

/// The smallest entry that `percent` of all entries do not exceed; the entries are sorted.
fn quantile(sorted: &[usize], percent: usize) -> usize {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_entries() {
        let sorted: Vec<usize> = (1..=10).collect();
        assert_eq!(quantile(&sorted, 50), 5);
        assert_eq!(quantile(&sorted, 90), 9);
        assert_eq!(quantile(&sorted, 100), 10);
        assert_eq!(quantile(&[7], 50), 7);
        assert_eq!(quantile(&[], 90), 0);
    }

    #[test]
    fn lines_are_sorted_into_code_and_comments() {
        let text = "//! Job.\n\nfn f() {\n    // Why.\n    g(\"a\n// text\n\").unwrap();\n}\n\
                    #[cfg(test)]\nmod tests {\n    #[test]\n    fn t() { f().unwrap(); }\n}\n";
        let shape = Shape::of("a.rs", text, &Source::parse(text).unwrap());
        assert_eq!(
            (shape.lines, shape.code_lines, shape.comment_lines),
            (13, 10, 2)
        );
        assert_eq!((shape.unwraps, shape.tests), (1, 1));
        assert_eq!(shape.longest, (6, "f".to_owned()));
    }

    #[test]
    fn shares_are_rounded() {
        assert_eq!(percent(1, 6), 17);
        assert_eq!(percent(0, 0), 0);
    }
}
