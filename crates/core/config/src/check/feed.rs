//! Checks of feeds.

use std::collections::BTreeSet;

use super::{Checks, NAMESPACE_BYTES_MAX, is_name};
use crate::kind::Named as _;
use crate::layout::element;
use crate::options::{Feed, FeedKind};

/// Maximum length of Kafka's topic names.
const TOPIC_BYTES_MAX: usize = 249;
/// Maximum length of NATS's names.
const NATS_NAME_BYTES_MAX: usize = 255;
/// A line of NATS has at most 4,096 bytes.
const SUBJECT_BYTES_MAX: usize = 1024;

impl Checks<'_> {
    pub(super) fn feeds(&mut self) {
        let feeds = &self.config.feeds;
        for (index, feed) in feeds.iter().enumerate() {
            let path = element("feed", index);
            let at = |key: &str| format!("{path}.{key}");
            let name = feed.name.as_str();
            if self.failed_under(&at("name")) {
                // The value itself has a problem already.
            } else if name.is_empty() {
                let message = format!("{path} has no name: add name = \"orders\", or another");
                self.problem(&path, message);
            } else if !is_name(name, NAMESPACE_BYTES_MAX) {
                let text = "a name has 1 to 64 ASCII letters, digits, \"-\", \"_\" and \".\"";
                self.wrong(&at("name"), text);
            } else if feeds.iter().take(index).any(|other| other.name == name) {
                self.wrong(&at("name"), format!("another feed is named {name:?} too"));
            }
            let kind = feed.kind.word();
            let schemes = feed.kind.schemes();
            match &feed.url {
                None if !self.failed_under(&at("url")) => {
                    let example = schemes[0];
                    let message = format!("{path} has no url: add url = \"{example}...\"");
                    self.problem(&path, message);
                }
                Some(url) if !schemes.iter().any(|it| url.expose().starts_with(it)) => {
                    let begin = schemes.join(" or ");
                    let text = format!("with kind = \"{kind}\" it is {begin}...");
                    self.wrong(&at("url"), text);
                }
                _ => {}
            }
            let has_stream = matches!(feed.kind, FeedKind::Redis | FeedKind::Nats);
            if has_stream && feed.stream.is_none() && !self.failed_under(&at("stream")) {
                let message = format!("{path} has no stream: add stream = \"events\"");
                self.problem(&path, message);
            }
            if feed.kind == FeedKind::Nats {
                self.subjects(&path, feed);
            } else if feed.credentials.is_some() {
                let path = at("credentials");
                self.warn(format!("{path} is not used: the kind is not \"nats\""));
            }
            if feed.kind == FeedKind::Kafka {
                self.topics(&path, feed);
            }
        }
    }

    fn topics(&mut self, path: &str, feed: &Feed) {
        let at = format!("{path}.topics");
        if feed.topics.is_empty() && !self.failed_under(&at) {
            let message = format!("{path} has no topics: add topics = [\"orders\"]");
            self.problem(path, message);
        }
        for topic in &feed.topics {
            if !is_name(topic, TOPIC_BYTES_MAX) {
                let text = format!(
                    "{topic:?} is no topic: one has 1 to 249 ASCII letters, digits, \"-\", \"_\" \
                     and \".\""
                );
                self.wrong(&at, text);
            }
        }
        let all: BTreeSet<&String> = feed.topics.iter().collect();
        if all.len() < feed.topics.len() {
            self.wrong(&at, "a topic appears twice");
        }
    }

    /// Checks the names and subjects of NATS.
    fn subjects(&mut self, path: &str, feed: &Feed) {
        let is_good = |c: char| !c.is_control() && !c.is_whitespace() && !"*>/\\.".contains(c);
        let is_name = |name: &str| {
            (1..=NATS_NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_good)
        };
        for (key, name) in [
            ("stream", feed.stream.as_deref()),
            ("group", Some(&*feed.group)),
        ] {
            let Some(name) = name.filter(|name| !is_name(name)) else {
                continue;
            };
            let text = format!(
                "{name:?} is no name of NATS: one has 1 to 255 bytes without blanks, \".\", \
                 \"*\", \">\", \"/\" and \"\\\""
            );
            self.wrong(&format!("{path}.{key}"), text);
        }
        let Some(subject) = feed.subject.as_deref() else {
            return;
        };
        let mut words = subject.split('.').peekable();
        let mut is_subject = subject.len() <= SUBJECT_BYTES_MAX;
        while let Some(word) = words.next() {
            let is_last = words.peek().is_none();
            let is_strange = |c: char| c.is_whitespace() || c.is_control();
            let is_word = !word.is_empty() && !word.contains(is_strange);
            is_subject &= is_word && (word != ">" || is_last);
        }
        if !is_subject {
            let text = format!("{subject:?} is no subject, as \"orders.>\" is one");
            self.wrong(&format!("{path}.subject"), text);
        }
    }
}
