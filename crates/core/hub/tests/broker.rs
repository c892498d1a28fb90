//! Plays the dialogues in `broker.txt`: requests of a hub to its broker, and its handling of
//! replies. The broker is the test's own.
//!
//! Steps of the connection in slot `N`, whose commands have tokens that count up from 1: `N
//! subscribes CHANNEL [since OFFSET]`; `N unsubscribes CHANNEL`, or `N has no CHANNEL`; `N goes`;
//! `N publishes CHANNEL`; `N publishes from TOKEN CHANNEL ..` in one command, and `N publishes for
//! SPAN CHANNEL ..` what is traced; `N asks for history` of the channel `a`, or `N asks for history
//! as a subscriber`; `N is in CHANNEL ..`, which are all; `N is not in CHANNEL`.
//!
//! The broker: `asks ITEM, ..` is what it was asked for since the last time, `#K` for the K-th
//! request of the story and `leave CHANNEL`; `reply #K at OFFSET`, `published`, `history` or a
//! refusal; `delivers CHANNEL OFFSET [KIB]`, where the offset may be a range `1-600`; `delivers
//! tagged CHANNEL OFFSET`; `breaks CHANNEL`. `holds`: from here on the hub takes what comes only at
//! `polls more` or `polls nothing`, which is whether more may be left.
//!
//! The hub: `answers TOKEN TEXT | ..`; `turn VISITS more` or `done`; `turns VISITS` until all is
//! done; `delivered SLOT:OFFSETS ..` since the last time, with a `+` behind what gathers; `lost
//! SLOT ..` have to subscribe to `a` again; `spans CHANNEL for SPAN true, ..` were taken by the
//! broker, or were not; `carried OFFSET ..` are with everybody; `encoded FRAMES` since the last
//! time; a `gateway publishes CHANNEL for SPAN`, which is refused in the channel `full`; the hub
//! `rests true` or `false`; `channels CHANNEL:SUBSCRIBERS ..` are all it has, `members CHANNEL
//! COUNT`, and `subscriptions COUNT` with those that wait; `wants mail`; `renew`s its options, with
//! a namespace `new:` and three subscriptions for each connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Inlet, Sender, channel};

use throng_broker::{
    Broker, ChannelOptions, Draft, HistoryPage, HistoryQuery, LiveOptions, MemoryOptions, Moving,
    NamespaceOptions, Outcome, Overflow, Published, Receiver, Recovery, Refusal, Remote, Reply,
    Request, Subscribed, Ticket,
};
use throng_dialogue::{AssertingStage, check_list, number, play_asserting};
use throng_hub::{Answer, Command, FormKind, Format, Hub, HubOptions, ReplyTo};
use throng_solo::{Heard, conn, draft, fan_out, name, position, subscribe};
use throng_types::{ChannelName, Now, Publication, ShardId, SpanContext};

const NOW: Now = Now::new(0, 7);

#[test]
fn a_hub_and_its_broker_have_their_dialogues() {
    play_asserting("broker.txt", include_str!("broker.txt"), Scene::new);
}

/// Connections from here on encode for themselves.
const PERSONAL_FROM: u32 = 50;

/// Message of the broker to the hub.
enum Said {
    Reply(Reply),
    Delivery(Arc<Publication>),
    Broken(ChannelName),
}

/// Passes the hub's requests on to the test, and what the test says to the hub, one at a time.
struct Script {
    asked: Sender<Request>,
    said: Inlet<Said>,
    renewed: Sender<usize>,
}

impl Remote for Script {
    fn request(&mut self, request: Request) -> Option<Reply> {
        self.asked.send(request).expect("the test listens");
        None
    }

    fn publish(&mut self, ticket: Ticket, draft: Draft) -> Result<(), (Refusal, Draft)> {
        if draft.channel.as_str() == "full" {
            return Err((Refusal::Busy, draft));
        }
        let asked = self.asked.send(Request::Publish { ticket, draft });
        asked.expect("the test listens");
        Ok(())
    }

    fn poll(&mut self, hub: &mut dyn Receiver) -> bool {
        let Ok(said) = self.said.try_recv() else {
            return false;
        };
        match said {
            Said::Reply(reply) => hub.reply(reply),
            Said::Delivery(publication) => hub.deliver(publication),
            Said::Broken(channel) => hub.broken(&channel),
        }
        true
    }

    fn renew(&mut self, options: &LiveOptions) {
        self.renewed
            .send(options.streams_max)
            .expect("the test listens");
    }

    fn hand_over(&mut self, _: Moving) {}

    fn stop_at(&mut self, _: Option<u64>) {}

    fn has_stopped(&self) -> bool {
        true
    }
}

/// A hub with a broker that the test controls.
struct Scene {
    hub: Hub,
    asked: Inlet<Request>,
    says: Sender<Said>,
    renewed: Inlet<usize>,
    heard: Heard,
    next_token: u32,
    tickets: Vec<Ticket>,
    /// The hub takes what comes only when it is told to.
    holds: bool,
}

impl Scene {
    fn new() -> Self {
        let channel_options = ChannelOptions {
            overflow: Overflow::DropOldest,
            ..ChannelOptions::default()
        };
        let namespaces = Arc::new(NamespaceOptions::new(channel_options, Vec::new()));
        let options = HubOptions {
            subscriptions_max: 2,
            hash_seed: 1,
            namespaces: namespaces.clone(),
            hooks: None,
        };
        let ((asks, asked), (says, said), (renews, renewed)) = (channel(), channel(), channel());
        let script = Script {
            asked: asks,
            said,
            renewed: renews,
        };
        let memory = MemoryOptions::for_tests(1, namespaces);
        let broker = Broker::new(ShardId(0), 1, memory).with_remote(Box::new(script));
        Self {
            hub: Hub::new(options, broker),
            asked,
            says,
            renewed,
            heard: Heard::default(),
            next_token: 0,
            tickets: Vec::new(),
            holds: false,
        }
    }

    fn handle(&mut self, command: Command) {
        self.hub.handle(command, NOW, &mut self.heard);
    }

    fn reply_to(&mut self, index: u32) -> ReplyTo {
        self.next_token += 1;
        ReplyTo::new(conn(index), self.next_token)
    }

    fn client(&mut self, index: u32, step: &str) {
        let words: Vec<&str> = step.split(' ').collect();
        match *words {
            ["subscribes", channel, ref since @ ..] => {
                let kind = match index {
                    PERSONAL_FROM.. => FormKind::Personal,
                    _ => FormKind::Shared,
                };
                let since = since.last().map(|offset| position(number(offset)));
                let ReplyTo { conn, token } = self.reply_to(index);
                let format = Format::new(3, kind);
                self.handle(subscribe((conn, token), channel, format, since));
            }
            ["unsubscribes", channel] => {
                assert!(self.hub.unsubscribe(conn(index), &name(channel), NOW));
            }
            ["has", "no", channel] => {
                assert!(!self.hub.unsubscribe(conn(index), &name(channel), NOW));
            }
            ["goes"] => self.hub.gone(conn(index), NOW),
            ["publishes", "from", token, ref channels @ ..] => {
                let reply_to = ReplyTo::new(conn(index), number(token));
                let drafts = channels.iter().map(|channel| draft(channel, "x")).collect();
                self.handle(Command::PublishAll { reply_to, drafts });
            }
            ["publishes", channel] => {
                let (reply_to, draft) = (self.reply_to(index), draft(channel, "x"));
                self.handle(Command::Publish { reply_to, draft });
            }
            ["publishes", "for", span, ref channels @ ..] => {
                let reply_to = self.reply_to(index);
                let drafts = channels.iter().map(|channel| traced(channel, span));
                let drafts = drafts.collect();
                self.handle(Command::PublishAll { reply_to, drafts });
            }
            ["asks", "for", "history", ref as_subscriber @ ..] => {
                let command = Command::History {
                    reply_to: self.reply_to(index),
                    channel: name("a"),
                    query: HistoryQuery {
                        limit: None,
                        since: None,
                        reverse: false,
                    },
                    only_subscribed: !as_subscriber.is_empty(),
                };
                self.handle(command);
            }
            ["is", "in", ref channels @ ..] => {
                let all = self.hub.channels_of(conn(index)).map(ChannelName::as_str);
                assert_eq!(all.collect::<Vec<_>>(), channels);
                assert_eq!(self.hub.subscription_count(conn(index)), channels.len());
                for channel in channels {
                    assert!(self.hub.is_subscribed(conn(index), &name(channel)));
                }
            }
            ["is", "not", "in", channel] => {
                assert!(!self.hub.is_subscribed(conn(index), &name(channel)));
            }
            _ => panic!("no step of a connection"),
        }
    }

    /// Takes what the broker was asked for.
    fn asked(&mut self) -> Vec<String> {
        let asked: Vec<Request> = self.asked.try_iter().collect();
        let asked = asked.into_iter().map(|request| {
            let Some(reply) = request.refused(Refusal::Busy) else {
                return format!("leave {}", request.channel());
            };
            self.tickets.push(reply.ticket);
            format!("#{}", self.tickets.len())
        });
        asked.collect()
    }

    fn says(&mut self, said: Said) {
        self.says.send(said).expect("a broker");
        while !self.holds && self.hub.poll(NOW, &mut self.heard) {}
    }

    fn reply(&mut self, ticket: &str, outcome: &[&str]) {
        let ticket = self.tickets[number::<usize>(&ticket[1..]) - 1];
        let subscribed = |offset| Subscribed {
            position: Some(position(offset)),
            recovery: Recovery::NotAsked,
        };
        let published = Published {
            position: None,
            shards: Some(3),
        };
        let outcome = match *outcome {
            ["at", offset] => Outcome::Subscribed(Ok(subscribed(number(offset)))),
            ["published"] => Outcome::Published(Ok(published)),
            ["not", "published"] => Outcome::Published(Err(Refusal::Busy)),
            ["history"] => Outcome::History(Ok(HistoryPage::default())),
            ["Busy"] => Outcome::Subscribed(Err(Refusal::Busy)),
            _ => panic!("no outcome"),
        };
        self.says(Said::Reply(Reply { ticket, outcome }));
    }

    fn deliver(&mut self, channel: &str, offsets: &str, bytes: usize, tags: Option<&str>) {
        let (first, last) = offsets.split_once('-').unwrap_or((offsets, offsets));
        for offset in number(first)..=number(last) {
            let mut publication = throng_solo::publication(channel, offset, &"x".repeat(bytes));
            Arc::make_mut(&mut publication).tags = tags.map(Into::into);
            self.says(Said::Delivery(publication));
        }
    }

    /// Takes the answers, with the tokens of the commands.
    fn answers(&mut self) -> Vec<String> {
        let answers = self.heard.answers.drain(..);
        let answers = answers.map(|(to, answer)| format!("{} {}", to.token, told(answer)));
        answers.collect()
    }

    /// Takes the deliveries: the slot, the offsets, and whether they gather.
    fn deliveries(&mut self) -> Vec<String> {
        let all = self.heard.deliveries.drain(..).map(|it| {
            assert_eq!(it.frames.is_none(), it.index >= PERSONAL_FROM);
            let data = |it: &Arc<Publication>| String::from_utf8_lossy(&it.payload.bytes).into();
            let data: Vec<String> = it.publications.iter().map(data).collect();
            assert!(it.frames.is_none_or(|frames| frames == data));
            let offset = |it: &Arc<Publication>| it.position.map_or(0, |position| position.offset);
            let offsets: Vec<u64> = it.publications.iter().map(offset).collect();
            let gathers = if it.gather { "+" } else { "" };
            let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
            assert!((first..=last).eq(offsets), "none is left out");
            let range = match first == last {
                true => format!("{first}"),
                false => format!("{first}-{last}"),
            };
            format!("{}:{range}{gathers}", it.index)
        });
        all.collect()
    }

    /// Takes the slots of the connections that have to subscribe to `a` again.
    fn lost(&mut self) -> Vec<u32> {
        let lost = self.heard.lost.drain(..).map(|(conn, channel)| {
            assert_eq!(channel, name("a"));
            conn.index()
        });
        let mut lost: Vec<u32> = lost.collect();
        lost.sort_unstable();
        lost
    }
}

impl AssertingStage for Scene {
    fn step(&mut self, step: &str) {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        if let Ok(index) = verb.parse() {
            return self.client(index, rest);
        }
        let words: Vec<&str> = rest.split(' ').collect();
        match (verb, &*words) {
            ("asks", _) => check_list(&self.asked(), rest, ", "),
            ("reply", [ticket, outcome @ ..]) => self.reply(ticket, outcome),
            ("delivers", ["tagged", channel, offset]) => {
                self.deliver(channel, offset, 1, Some("{}"))
            }
            ("delivers", [channel, offsets]) => self.deliver(channel, offsets, 1, None),
            ("delivers", [channel, offsets, kib]) => {
                self.deliver(channel, offsets, number::<usize>(kib) << 10, None);
            }
            ("breaks", [channel]) => self.says(Said::Broken(name(channel))),
            ("holds", _) => self.holds = true,
            ("polls", [more]) => {
                assert_eq!(self.hub.poll(NOW, &mut self.heard), *more == "more");
            }
            ("answers", _) => check_list(&self.answers(), rest, " | "),
            ("turn", [visits, more]) => {
                let is_left = self.hub.fan_out(number(visits), NOW, &mut self.heard);
                assert_eq!(is_left, *more == "more");
            }
            ("turns", [visits]) => fan_out(&mut self.hub, number(visits), NOW, &mut self.heard),
            ("delivered", _) => check_list(&self.deliveries(), rest, " "),
            ("spans", _) => {
                let replies = self.heard.broker_replies.drain(..);
                let spans = replies.map(|(by, since, channel, taken)| {
                    assert_eq!(since, NOW.unix_ms);
                    format!("{channel} for {} {taken}", by.span_id)
                });
                check_list(&spans.collect::<Vec<_>>(), rest, ", ");
            }
            ("lost", _) => check_list(&self.lost(), rest, " "),
            ("carried", _) => {
                let carried = self.heard.carried.drain(..);
                let carried = carried.filter_map(|(it, _)| Some(it.position?.offset));
                check_list(&carried.collect::<Vec<_>>(), rest, " ");
            }
            ("encoded", _) => check_list(&[std::mem::take(&mut self.heard.encoded)], rest, " "),
            ("channels", _) => {
                let all: BTreeMap<_, _> = self.hub.channels().collect();
                assert_eq!(self.hub.stats().channels, all.len());
                assert!(all.keys().all(|channel| self.hub.has_channel(channel)));
                let all = all.iter().map(|(name, count)| format!("{name}:{count}"));
                check_list(&all.collect::<Vec<_>>(), rest, " ");
            }
            ("subscriptions", _) => check_list(&[self.hub.stats().subscriptions], rest, " "),
            ("members", [channel, count]) => {
                check_list(&[self.hub.member_count(&name(channel))], count, " ");
            }
            ("gateway", ["publishes", channel, "for", span]) => {
                let published = self.hub.publish_here(traced(channel, span), NOW);
                assert_eq!(published.is_ok(), *channel != "full");
            }
            ("rests", [is_at_rest]) => {
                assert_eq!(self.hub.is_at_rest(), *is_at_rest == "true");
            }
            ("wants", ["mail"]) => assert!(self.hub.wants_mail()),
            ("renew", _) => {
                let named = vec![("new".into(), ChannelOptions::default())];
                let namespaces = NamespaceOptions::new(ChannelOptions::default(), named);
                let options = MemoryOptions::for_tests(1, Arc::new(namespaces)).live;
                self.hub.renew(3, &options, NOW);
                assert_eq!(self.renewed.try_iter().collect::<Vec<_>>(), [100]);
            }
            _ => panic!("no step"),
        }
    }
}

fn traced(channel: &str, span: &str) -> Draft {
    let trace = SpanContext {
        trace_id: 1,
        span_id: number(span),
    };
    Draft {
        trace: Some(Box::new(trace)),
        ..draft(channel, "x")
    }
}

fn told(answer: Answer) -> String {
    match answer {
        Answer::Subscribed { channel, result } => match result {
            Ok(result) => format!("{channel} at {:?}", result.position.map(|it| it.offset)),
            Err(refusal) => format!("{channel} {refusal:?}"),
        },
        Answer::Unsubscribed { channel, result } => format!("{channel} left {result:?}"),
        Answer::Published { result } => format!("published {result:?}"),
        Answer::History { result } => format!("history {:?}", result.map(|it| it.position)),
        Answer::NotSubscribed { what, channel } => format!("{what} of {channel} is refused"),
        Answer::Present { result } => format!("present {:?}", result.map(|it| it.clients)),
    }
}
