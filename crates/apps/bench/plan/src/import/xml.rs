//! Parser of XML into a tree of elements that know their line.
//!
//! No external entity is ever loaded and no entity of a DTD is expanded. Depth and number of
//! elements are bounded.

use std::str::FromStr;

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use crate::Problem;

const DEPTH_MAX: usize = 64;
const ELEMENTS_MAX: usize = 100_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<Self>,
    // Text directly within, without leading and trailing white space.
    pub(super) text: String,
}

impl Element {
    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem {
            line: Some(self.line),
            message: message.into(),
        }
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        Some(attributes.find(|(key, _)| key == name)?.1.as_str())
    }

    pub(super) fn required(&self, name: &str) -> Result<&str, Problem> {
        self.attribute(name)
            .ok_or_else(|| self.problem(format!("<{}> needs the attribute `{name}`", self.name)))
    }

    /// Attribute as a number; none if it is not there.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.attribute(name) else {
            return Ok(None);
        };
        let wrong = || {
            format!(
                "`{name}=\"{text}\"` of <{}> is not a number that fits",
                self.name
            )
        };
        text.trim()
            .parse()
            .map(Some)
            .map_err(|_| self.problem(wrong()))
    }

    pub(super) fn required_number<T: FromStr>(&self, name: &str) -> Result<T, Problem> {
        self.required(name)?;
        self.number(name)?.ok_or_else(|| self.unsupported())
    }

    pub(super) fn unsupported(&self) -> Problem {
        self.problem(format!("<{}> is not supported", self.name))
    }

    /// Refuses an attribute that is not `known`: names with blanks between, or a star.
    pub(super) fn only_attributes(&self, known: &str) -> Result<(), Problem> {
        let mut names = self.attributes.iter().map(|(name, _)| name);
        match names.find(|name| !is_known(name, known)) {
            None => Ok(()),
            Some(name) => Err(self.problem(format!(
                "the attribute `{name}` of <{}> is not supported; supported are {}",
                self.name,
                known.replace(' ', ", ")
            ))),
        }
    }

    /// Refuses an element in this one that is not `known`: names with blanks between, or a star.
    pub(super) fn only_elements(&self, known: &str) -> Result<(), Problem> {
        let mut children = self.children.iter();
        match children.find(|child| !is_known(&child.name, known)) {
            None => Ok(()),
            Some(odd) => Err(odd.unsupported()),
        }
    }
}

fn is_known(name: &str, known: &str) -> bool {
    known == "*" || known.split(' ').any(|known| known == name)
}

/// Reads a whole document and returns its root.
pub(super) fn parse(text: &str) -> Result<Element, Problem> {
    let mut reader = Reader::from_str(text);
    let mut stack: Vec<Element> = Vec::new();
    let mut root: Option<Element> = None;
    let mut elements = 0;
    loop {
        let at = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
        let event = reader.read_event().map_err(|error| {
            let at = usize::try_from(reader.error_position()).unwrap_or(at);
            problem(text, at, format!("not well-formed XML: {error}"))
        })?;
        let is_empty = matches!(event, Event::Empty(_));
        match event {
            Event::Start(start) | Event::Empty(start) => {
                elements += 1;
                let is_deep = stack.len() >= DEPTH_MAX && !is_empty;
                if is_deep || elements > ELEMENTS_MAX {
                    return Err(problem(text, at, "too many elements".into()));
                }
                let element = open(&start, text, at)?;
                if is_empty {
                    close(element, &mut stack, &mut root, text)?;
                } else {
                    stack.push(element);
                }
            }
            Event::End(_) => {
                if let Some(element) = stack.pop() {
                    close(element, &mut stack, &mut root, text)?;
                }
            }
            Event::Text(raw) => append(&mut stack, &raw, text, at)?,
            Event::CData(raw) => append(&mut stack, &raw, text, at)?,
            Event::GeneralRef(name) => {
                let resolved = match name.resolve_char_ref() {
                    Ok(Some(letter)) => Some(letter.to_string()),
                    _ => resolve_xml_entity(&name).map(str::to_owned),
                };
                let Some(resolved) = resolved else {
                    let why = "only the five entities of XML itself and character references are \
                               known";
                    return Err(problem(text, at, why.into()));
                };
                if let Some(element) = stack.last_mut() {
                    element.text.push_str(&resolved);
                }
            }
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
    if let Some(open) = stack.last() {
        return Err(open.problem(format!(
            "<{}> is never closed; was the file copied from a web page that lost its tags?",
            open.name
        )));
    }
    root.ok_or_else(|| problem(text, 0, "there is no element in it".into()))
}

fn problem(text: &str, at: usize, message: String) -> Problem {
    let curly = text.contains(['\u{201c}', '\u{201d}', '\u{2033}']);
    let hint = if curly && message.starts_with("not well-formed") {
        "; the file has typographic quotes, as web pages make of \" — replace them"
    } else {
        ""
    };
    Problem {
        line: Some(crate::line_of(text, at)),
        message: format!("{message}{hint}"),
    }
}

fn open(start: &BytesStart<'_>, text: &str, at: usize) -> Result<Element, Problem> {
    let mut element = Element {
        name: start.name().as_ref().to_owned(),
        line: crate::line_of(text, at),
        ..Element::default()
    };
    for attribute in start.attributes() {
        let attribute = attribute
            .map_err(|error| problem(text, at, format!("not well-formed XML: {error}")))?;
        let value = attribute
            .normalized_value(XmlVersion::Implicit1_0)
            .map_err(|error| problem(text, at, format!("not well-formed XML: {error}")))?;
        element
            .attributes
            .push((attribute.key.as_ref().to_owned(), value.into_owned()));
    }
    Ok(element)
}

fn close(
    mut element: Element,
    stack: &mut [Element],
    root: &mut Option<Element>,
    text: &str,
) -> Result<(), Problem> {
    element.text = element.text.trim().to_owned();
    match stack.last_mut() {
        Some(parent) => parent.children.push(element),
        None if root.is_some() => {
            let why = "there is more than one root element";
            return Err(problem(text, text.len(), why.into()));
        }
        None => *root = Some(element),
    }
    Ok(())
}

fn append(stack: &mut [Element], piece: &str, text: &str, at: usize) -> Result<(), Problem> {
    match stack.last_mut() {
        Some(element) => element.text.push_str(piece),
        None if piece.trim_matches('\u{feff}').trim().is_empty() => {}
        None => return Err(problem(text, at, "text outside of the root element".into())),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_know_their_line_and_content() {
        let root = parse(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE a SYSTEM \"a.dtd\" []>\n<a x='1 \
                          &amp; 2'>\n <b/>\n <c>t &lt;&#65; <![CDATA[<z>]]></c>\n</a>\n",
        )
        .unwrap();
        assert_eq!((root.name.as_str(), root.line), ("a", 3));
        assert_eq!(root.attribute("x"), Some("1 & 2"));
        assert_eq!(
            (root.children[0].name.as_str(), root.children[0].line),
            ("b", 4)
        );
        assert_eq!(root.children[1].text, "t <A <z>");
    }

    #[test]
    fn broken_documents_are_refused_with_their_line() {
        for (text, line, part) in [
            ("", 1, "no element"),
            ("<a>\n<b>\n</a>", 3, "not well-formed"),
            ("<a>\n<b>", 2, "never closed"),
            ("<a/>\n<b/>", 2, "more than one root"),
            ("x<a/>", 1, "outside of the root"),
            ("<a>\n&x;</a>", 2, "only the five entities"),
            ("<a x=\u{201c}1\u{201d}/>", 1, "typographic quotes"),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.message.contains(part), "{text}: {problem}");
            assert_eq!(problem.line, Some(line), "{text}: {problem}");
        }
        let deep = "<a>".repeat(1000);
        assert!(parse(&deep).unwrap_err().message.contains("too many"));
    }
}
