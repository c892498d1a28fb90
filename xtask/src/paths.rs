//! The paths that a file names, with the groups of `use` spelled out.
//!
//! `use std::{env, net::TcpStream};` gives `std::env` and `std::net::TcpStream`; a path in an
//! expression is given as it stands, keywords included.

use crate::source::{Kind, Token};

/// A path and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathAt {
    /// Segments joined by `::`, without generic arguments.
    pub(crate) path: String,
    /// Line number, counted from 1.
    pub(crate) line: usize,
    /// The modules of the file that it stands in, joined by `::`.
    pub(crate) module: String,
    /// For a `use`, the name that it brings.
    pub(crate) brings: Option<String>,
    /// Whether it is a `use` with a visibility, which hands the name on.
    pub(crate) hands_on: bool,
}

/// Every path, also those of one segment.
pub(crate) fn paths<'a>(tokens: impl Iterator<Item = &'a Token>) -> Vec<PathAt> {
    let mut walk = Walk {
        tokens: tokens.collect(),
        at: 0,
        modules: Vec::new(),
        depth: 0,
        found: Vec::new(),
    };
    while walk.at < walk.tokens.len() {
        walk.step();
    }
    walk.found
}

struct Walk<'a> {
    tokens: Vec<&'a Token>,
    at: usize,
    /// The modules around, each with the depth of its braces.
    modules: Vec<(String, usize)>,
    depth: usize,
    found: Vec<PathAt>,
}

impl Walk<'_> {
    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(text))
    }

    fn name(&self, at: usize) -> Option<&str> {
        let token = self.tokens.get(at)?;
        (token.kind == Kind::Name).then_some(token.text.as_str())
    }

    fn step(&mut self) {
        if self.is(self.at, "use") {
            let before = self.at.wrapping_sub(1);
            let hands_on = self.is(before, "pub") || self.is(before, ")");
            self.at += 1;
            self.use_tree("", hands_on);
            return;
        }
        if self.name(self.at).is_some() {
            if self.is(self.at, "mod") && self.is(self.at + 2, "{") {
                let name = self.name(self.at + 1).unwrap_or_default().to_owned();
                self.modules.push((name, self.depth));
            }
            self.path();
            return;
        }
        if self.is(self.at, "{") {
            self.depth += 1;
        } else if self.is(self.at, "}") {
            self.depth = self.depth.saturating_sub(1);
            self.modules.pop_if(|(_, depth)| *depth == self.depth);
        }
        self.at += 1;
    }

    fn push(&mut self, path: String, at: usize, brings: Option<String>, hands_on: bool) {
        let modules: Vec<&str> = self.modules.iter().map(|(name, _)| name.as_str()).collect();
        self.found.push(PathAt {
            path,
            line: self.tokens.get(at).map_or(0, |token| token.line),
            module: modules.join("::"),
            brings,
            hands_on,
        });
    }

    /// A path in an expression or a type.
    fn path(&mut self) {
        let start = self.at;
        let mut path = String::new();
        while let Some(name) = self.name(self.at) {
            path.push_str(name);
            self.at += 1;
            if !self.is(self.at, "::") || self.name(self.at + 1).is_none() {
                break;
            }
            path.push_str("::");
            self.at += 1;
        }
        self.push(path, start, None, false);
    }

    /// One branch of a `use`, up to its `,`, `}` or `;`.
    fn use_tree(&mut self, prefix: &str, hands_on: bool) {
        let start = self.at;
        let mut path = prefix.to_owned();
        let mut brings = None;
        while self.at < self.tokens.len() {
            if self.is(self.at, "as") {
                brings = self.name(self.at + 1).map(str::to_owned);
                self.at += 2;
                continue;
            }
            if self.is(self.at, "{") {
                self.at += 1;
                while self.at < self.tokens.len() && !self.is(self.at, "}") {
                    let before = self.at;
                    self.use_tree(&path, hands_on);
                    self.at += usize::from(self.at == before || self.is(self.at, ","));
                }
                self.at += 1;
                return;
            }
            match self.name(self.at) {
                Some(name) => path.push_str(name),
                None if self.is(self.at, "*") => path.push('*'),
                None if self.is(self.at, "::") && path.is_empty() => {}
                None if self.is(self.at, "::") => path.push_str("::"),
                None => break,
            }
            self.at += 1;
        }
        if let Some(module) = path.strip_suffix("::self") {
            path.truncate(module.len());
        }
        let last = path.rsplit("::").next().map(str::to_owned);
        self.push(path, start, brings.or(last), hands_on);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn found(code: &str) -> Vec<PathAt> {
        paths(Source::parse(code).unwrap().tokens.iter())
    }

    #[track_caller]
    fn check(code: &str, expect: &[&str]) {
        let found: Vec<_> = found(code).into_iter().map(|found| found.path).collect();
        assert_eq!(found, expect, "{code}");
    }

    #[test]
    fn use_groups_are_spelled_out() {
        check("use std::fmt;", &["std::fmt"]);
        check(
            "use std::{env, net::{self, TcpStream as T, IpAddr,}, time::*};",
            &[
                "std::env",
                "std::net",
                "std::net::TcpStream",
                "std::net::IpAddr",
                "std::time::*",
            ],
        );
        check("use ::rand::random;", &["rand::random"]);
    }

    #[test]
    fn paths_in_code_are_joined() {
        check(
            "let a = std::time::Instant::now();",
            &["let", "a", "std::time::Instant::now"],
        );
        check("Vec::<u8>::new()", &["Vec", "u8", "new"]);
    }

    #[test]
    fn broken_code_ends() {
        for code in [
            "use",
            "use a::{}",
            "use a::{()}",
            "use a::{b;}",
            "::",
            "a::",
        ] {
            found(code);
        }
    }

    #[test]
    fn lines_names_and_modules_are_told() {
        let found = found("pub use a::{\n  b as x,\n  c,\n};\nmod m { mod n {} use d; } use e;");
        let told: Vec<_> = found
            .iter()
            .filter_map(|f| Some((f.line, f.brings.as_deref()?, f.module.as_str(), f.hands_on)))
            .collect();
        assert_eq!(
            told,
            [
                (2, "x", "", true),
                (3, "c", "", true),
                (5, "d", "m", false),
                (5, "e", "", false)
            ]
        );
    }
}
