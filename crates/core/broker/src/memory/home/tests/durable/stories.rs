//! Stories of a home and of those that go on after it; `stories.txt` says what their steps mean.

use std::collections::BTreeMap;

use super::acknowledged::{Hub, ask, part};
use throng_dialogue::{AssertingStage, number, play_asserting};

use super::*;
use crate::{Begins, Broker, Request, Ticket};

/// A home, its store, and all that was ever seen of its channels.
struct Story {
    log: Log,
    home: Home,
    tape: Tape,
    now: Now,
    is_closed: bool,
    /// A copy of the log from before.
    backup: Option<Log>,
    /// Stands before a home whose publications wait for the store.
    part: Option<(Broker, Hub)>,
    /// Positions by channel and text; none if it was given none.
    seen: BTreeMap<(String, String), Option<Position>>,
}

/// Texts as a story tells them, large ones without what fills them.
fn told(texts: &[String]) -> String {
    match texts {
        [] => "nothing".to_owned(),
        texts => { texts.iter().map(|it| it.trim_end()) }
            .collect::<Vec<_>>()
            .join(" "),
    }
}

impl Story {
    fn new() -> Self {
        let mut log = Log::default();
        let (home, tape) = log.next(at(0));
        Self {
            log,
            home,
            tape,
            now: at(0),
            is_closed: false,
            backup: None,
            part: None,
            seen: BTreeMap::new(),
        }
    }

    /// A step of a part whose answers wait.
    fn part_step(&mut self, words: &[&str]) -> String {
        let (part, hub) = self.part.as_mut().expect("a step that nobody knows");
        let mut state = self.tape.state();
        match *words {
            ["written", count] => state.reached.written = number(count),
            ["synced", count] => state.reached.synced = number(count),
            ["failed", count] => state.reached.failed = number(count),
            ["mends"] => state.refuses = false,
            ["full"] => state.is_full = true,
            ["empty"] => state.is_full = false,
            ["hurried"] => return format!("{:?}", state.hurried.expect("a level")),
            ["deliveries"] => return hub.deliveries.to_string(),
            ["copies", room] => {
                (state.round, state.room) = (1, number(room));
                drop(state);
                part.write_down(at(1));
            }
            ["hears", channel] => {
                drop(state);
                let subscribe = Request::Subscribe {
                    ticket: Ticket(0),
                    channel: name(channel),
                    since: None,
                    presence: None,
                };
                part.request(subscribe, at(0), hub);
            }
            ["ask", ticket, channel, text, ref more @ ..] => {
                drop(state);
                let mut draft = draft(channel, text);
                draft.skip_history = more == ["passing"];
                draft.idempotency_key = (more == ["keyed"]).then(|| "k".into());
                ask(part, number(ticket), draft, hub);
            }
            [way @ ("poll" | "answers")] => {
                drop(state);
                if way == "poll" {
                    part.poll(hub);
                }
                let answers = hub
                    .answers()
                    .into_iter()
                    .map(|(ticket, answer)| match answer {
                        Ok(Some(offset)) => format!("{ticket}@{offset}"),
                        Ok(None) => format!("{ticket}@-"),
                        Err(refusal) => format!("{ticket}!{refusal:?}"),
                    });
                return told(&answers.collect::<Vec<_>>());
            }
            _ => panic!("a step that nobody knows"),
        }
        String::new()
    }

    /// Publishes; gives whether that was new, and where it stands: where nothing else ever stood.
    fn publish(&mut self, draft: Draft, text: &str) -> (&'static str, Option<Position>) {
        let channel = draft.channel.to_string();
        let accepted = self.home.publish(draft, self.now);
        let position = accepted.position;
        if accepted.publication.is_none() {
            return ("known", position);
        }
        let mut others = self.seen.iter().filter(|((other, _), _)| *other == channel);
        let stood = position.is_some() && others.any(|(_, it)| *it == position);
        assert!(!stood, "two publications at one position");
        self.sees(&channel, text, position);
        ("new", position)
    }

    fn sees(&mut self, channel: &str, text: &str, position: Option<Position>) {
        self.seen
            .insert((channel.to_owned(), text.to_owned()), position);
    }

    /// The position that a text stands for, or one so many behind or before it.
    fn position(&self, channel: &str, text: &str) -> Position {
        let at = |text: &str| {
            let known = self.seen.get(&(channel.to_owned(), text.to_owned()))?;
            Some(known.expect("a position"))
        };
        let beside = |sign: char| {
            let (text, count) = text.rsplit_once(sign)?;
            let (position, count) = (at(text)?, number::<u64>(count));
            let offset = match sign {
                '+' => position.offset + count,
                _ => position.offset - count,
            };
            Some(Position { offset, ..position })
        };
        let known = at(text).or_else(|| beside('+')).or_else(|| beside('-'));
        known.expect("a text that was seen")
    }

    /// The process dies, so many of its records are on the disk, and another one goes on.
    fn next_life(&mut self, records: usize) {
        self.log.end(&self.tape, records);
        assert_eq!(self.log.replay(self.now).is_closed(), self.is_closed);
        (self.home, self.tape) = self.log.next(self.now);
        self.is_closed = false;
    }

    /// The copy from before goes on, in another life with the nonce that it draws.
    fn restore(&mut self) {
        let mut backup = self.backup.take().expect("a copy");
        let (first, _) = &backup.0[0];
        let head = Head {
            begins: Begins::NextEpochs,
            lineage: first.lineage.next(77),
            ..first.clone()
        };
        backup.0.push((head, Vec::new()));
        (self.home, self.tape) = backup.next(self.now);
        self.log = backup;
    }

    /// Writes a copy, one record in each step; another process goes on with that alone.
    fn copy(&mut self) {
        self.tape.state().records.clear();
        self.tape.state().round = 1;
        assert!(!self.home.copy(self.now), "it waits for room");
        for step in 0.. {
            assert!(step < 10_000, "the copy has no end");
            let before = self.tape.state().records.len();
            self.tape.state().room = 1;
            let goes_on = self.home.copy(self.now);
            let (is_done, has_written) = {
                let state = self.tape.state();
                (state.copied > 0, state.records.len() > before)
            };
            assert_eq!(goes_on, has_written && !is_done, "step {step}");
            if is_done {
                break;
            }
        }
        self.next_life(usize::MAX);
    }
}

impl AssertingStage for Story {
    fn step(&mut self, step: &str) {
        let (act, expected) = step.split_once(" = ").unzip();
        let (now, home) = (self.now, &mut self.home);
        let words: Vec<&str> = act.unwrap_or(step).split(' ').collect();
        let mut found = String::new();
        match words[..] {
            ["at", ms] => self.now = at(number(ms)),
            ["at", mono, "unix", unix] => {
                self.now.mono = Millis(number(mono));
                self.now.unix_ms = at(number(unix)).unix_ms;
            }
            ["memory"] => *home = super::home(5, 1000, 1 << 20),
            ["memory", count, "bytes"] => *home = super::home(5, 1000, number::<usize>(count)),
            ["memory", count, "tiny"] => {
                *home = super::home(5, 1000, number::<usize>(count) * TINY_BYTES);
            }
            ["publish", channel, ref texts @ ..] => {
                for text in texts {
                    let (_, position) = self.publish(draft(channel, text), text);
                    found = position.map_or_else(|| "none".to_owned(), |it| it.offset.to_string());
                }
            }
            ["replies", count, bytes] => {
                let mut options = options(10, 1000, 1 << 20);
                options.live.reply.publications_max = number::<usize>(count);
                let each = size_of::<Publication>() + number::<usize>(bytes);
                options.live.reply.bytes_max = 3 * each;
                *home = Home::new(options);
            }
            ["large", channel, text, bytes] => {
                let data = format!("{text:<bytes$}", bytes = number::<usize>(bytes));
                self.publish(draft(channel, &data), text);
            }
            ["key", channel, key] => {
                let first = self
                    .seen
                    .get(&(channel.to_owned(), key.to_owned()))
                    .copied();
                let (outcome, position) = self.publish(keyed(channel, key), key);
                if let Some(first) = first.filter(|_| outcome == "known") {
                    assert_eq!(place(first), place(position), "{key}");
                    // Every process has epochs of its own.
                    let is_same = self.log.1 == 1 || first.is_none();
                    assert_eq!(first == position, is_same, "{key}");
                }
                outcome.clone_into(&mut found);
            }
            ["version", version, channel, text] => {
                let draft = versioned(number(version), channel, text);
                self.publish(draft, text).0.clone_into(&mut found);
            }
            ["subscribe", channel, text] => {
                let stands = home.subscribe(SHARD, &name(channel), None, now).position;
                self.sees(channel, text, stands);
            }
            ["recover", channel, text] => {
                let since = self.position(channel, text);
                let texts = recover(&mut self.home, channel, since, now);
                found = texts.map_or_else(|| "lost".to_owned(), |texts| told(&texts));
            }
            [way @ ("page" | "back"), channel, text] => {
                let query = HistoryQuery {
                    since: Some(self.position(channel, text)),
                    reverse: way == "back",
                    ..HistoryQuery::default()
                };
                found = match self.home.history(&name(channel), query, now) {
                    Ok(page) => told(&texts(&page.publications)),
                    Err(refusal) => format!("{refusal:?}"),
                };
            }
            [way @ ("first" | "last"), channel, count] => {
                let query = HistoryQuery {
                    limit: Some(number(count)),
                    reverse: way == "last",
                    ..HistoryQuery::default()
                };
                let page = home.history(&name(channel), query, now).expect("a page");
                found = told(&texts(&page.publications));
            }
            ["forget", channel] => assert!(home.forget_history(&name(channel), now).is_ok()),
            ["tick"] => _ = home.tick(now, 100),
            ["renew", size] => home.renew(live(number(size)), now.mono),
            ["streams"] => found = home.stats().streams.to_string(),
            ["kept"] => found = home.stats().history_publications.to_string(),
            ["keeping"] => {
                let kept = home.streams.iter().filter(|(_, stream)| stream.kept() > 0);
                let mut names: Vec<_> = kept.map(|(channel, _)| channel.to_string()).collect();
                names.sort();
                found = told(&names);
            }
            ["older", channel] => {
                let key = home.streams.key(&name(channel)).expect("a stream");
                found = home.ancestry.tops(key, 0).len().to_string();
            }
            ["ails"] => self.tape.state().refuses = true,
            ["refuses"] => found = home.refuses().to_string(),
            ["records"] => found = self.tape.state().records.len().to_string(),
            ["interest", channel] => found = home.interest(&name(channel)).to_string(),
            ["close"] => {
                self.is_closed = true;
                self.tape.state().records.push(LogEntry::closed());
            }
            ["tear", record] => {
                self.tape
                    .state()
                    .records
                    .remove(number::<usize>(record) - 1);
            }
            ["life", "all"] => self.next_life(usize::MAX),
            ["life", records] => self.next_life(number(records)),
            ["backup"] => {
                self.log.end(&self.tape, usize::MAX);
                self.backup = Some(Log(self.log.0.clone(), self.log.1 + 1));
                self.next_life(0);
            }
            ["restore"] => self.restore(),
            ["copy"] => self.copy(),
            ["waits", level] => {
                let levels = [Acknowledge::Written, Acknowledge::Synced];
                let level = levels.into_iter().find(|it| format!("{it:?}") == level);
                let (part, tape) = part(level.expect("a level"), 1, 0);
                (self.part, self.tape) = (Some((part, Hub::default())), tape);
            }
            _ => found = self.part_step(&words),
        }
        assert_eq!(found, expected.unwrap_or(&found));
        self.home.check();
    }
}

#[test]
fn stories_hold() {
    play_asserting("stories.txt", include_str!("stories.txt"), Story::new);
}
