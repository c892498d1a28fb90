//! The paths that a file names, with the groups of `use` spelled out.
//!
//! `use std::{env, net::TcpStream};` gives `std::env` and `std::net::TcpStream`; a path in an
//! expression is given as it stands. Works on masked code (see `source`).

use crate::source::{is_name, name_end};

/// A path and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathAt {
    /// Segments joined by `::`, without generic arguments.
    pub(crate) path: String,
    /// Counted from 1.
    pub(crate) line: usize,
}

/// Every path in masked code, also those of one segment.
pub(crate) fn paths(code: &str) -> Vec<PathAt> {
    let mut walk = Walk {
        tokens: tokens(code),
        at: 0,
        found: Vec::new(),
    };
    while let Some(token) = walk.peek() {
        match token {
            Token::Name("use") => {
                walk.at += 1;
                walk.use_tree("");
            }
            Token::Name(_) => walk.path(),
            _ => walk.at += 1,
        }
    }
    walk.found
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    Sep,
    Mark(u8),
}

fn tokens(code: &str) -> Vec<(Token<'_>, usize)> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let byte = bytes[at];
        if is_name(byte) {
            let end = name_end(bytes, at);
            found.push((Token::Name(&code[at..end]), line));
            at = end;
        } else if bytes[at..].starts_with(b"::") {
            found.push((Token::Sep, line));
            at += 2;
        } else {
            if byte == b'\n' {
                line += 1;
            }
            if !byte.is_ascii_whitespace() {
                found.push((Token::Mark(byte), line));
            }
            at += 1;
        }
    }
    found
}

struct Walk<'a> {
    tokens: Vec<(Token<'a>, usize)>,
    at: usize,
    found: Vec<PathAt>,
}

impl<'a> Walk<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|(token, _)| *token)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |(_, line)| *line)
    }

    fn push(&mut self, path: String, line: usize) {
        self.found.push(PathAt { path, line });
    }

    /// A path in an expression or a type.
    fn path(&mut self) {
        let line = self.line();
        let mut path = String::new();
        while let Some(Token::Name(name)) = self.peek() {
            path.push_str(name);
            self.at += 1;
            let next = self.tokens.get(self.at + 1).map(|(token, _)| *token);
            if self.peek() != Some(Token::Sep) || !matches!(next, Some(Token::Name(_))) {
                break;
            }
            path.push_str("::");
            self.at += 1;
        }
        self.push(path, line);
    }

    /// One branch of a `use`, up to its `,`, `}` or `;`.
    fn use_tree(&mut self, prefix: &str) {
        let line = self.line();
        let mut path = prefix.to_owned();
        while let Some(token) = self.peek() {
            match token {
                Token::Name("as") => self.at += 2,
                Token::Name(name) => {
                    path.push_str(name);
                    self.at += 1;
                }
                Token::Sep => {
                    if !path.is_empty() {
                        path.push_str("::");
                    }
                    self.at += 1;
                }
                Token::Mark(b'*') => {
                    path.push('*');
                    self.at += 1;
                }
                Token::Mark(b'{') => {
                    self.at += 1;
                    self.use_group(&path);
                    return;
                }
                Token::Mark(_) => break,
            }
        }
        self.push(path, line);
    }

    fn use_group(&mut self, prefix: &str) {
        while let Some(token) = self.peek() {
            match token {
                Token::Mark(b'}') => {
                    self.at += 1;
                    return;
                }
                Token::Mark(b',') => self.at += 1,
                Token::Mark(b';') => return,
                _ => {
                    let before = self.at;
                    self.use_tree(prefix);
                    // A mark that no `use` contains: give up rather than stand still.
                    if self.at == before {
                        self.at += 1;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, expect: &[&str]) {
        let found: Vec<_> = paths(code).into_iter().map(|found| found.path).collect();
        assert_eq!(found, expect, "{code}");
    }

    #[test]
    fn use_groups_are_spelled_out() {
        check("use std::fmt;", &["std::fmt"]);
        check(
            "use std::{env, net::{TcpStream as T, IpAddr}, time::*};",
            &[
                "std::env",
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
        for code in ["use", "use a::{", "use a::{(", "use a::{b;", "::", "a::"] {
            paths(code);
        }
    }

    #[test]
    fn lines_are_counted_from_one() {
        let found = paths("use a::{\n  b,\n  c,\n};");
        assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [2, 3]);
    }
}
