//! Channels of a run, their subscribers, and their numbers in measured messages.
//!
//! Owns: the numbering. Subscribers and publishers, on every machine, compute the same numbers from
//! the same scenario, so a measured message names its channel by number and everybody knows how
//! many deliveries it is due.
//!
//! A channel template with one `{n…}` hole costs four bytes a channel and no names; templates with
//! random or several holes keep a name each.

use std::collections::HashMap;

use throng_types::Rng;

use crate::Scenario;
use crate::template::{HoleScope, Template, TemplateError, Values};

#[derive(Clone, Debug)]
pub struct ChannelPlan {
    slots: Vec<Slot>,
    // Numbers of the channels that have a subscriber, when not all have; otherwise empty.
    subscribed: Vec<u32>,
    count: u32,
}

/// Channel template of the scenario: each connection subscribes to one channel of it.
#[derive(Clone, Debug)]
struct Slot {
    // Number of its first channel.
    first: u32,
    subscribers: Vec<u32>,
    names: Names,
}

#[derive(Clone, Debug)]
enum Names {
    // Numbers in the template's only hole, less the least one.
    Numbered {
        template: Template,
        least: u64,
    },
    // Names as they came, and the channel of each connection.
    Listed {
        names: Vec<Box<str>>,
        of_connection: Vec<u32>,
    },
}

impl ChannelPlan {
    pub fn new(scenario: &Scenario) -> Result<Self, TemplateError> {
        let mut slots: Vec<Slot> = Vec::with_capacity(scenario.channels.len());
        let mut count = 0_u32;
        for text in &scenario.channels {
            let template = Template::compile(text, HoleScope::Channel, scenario.data.as_ref())?;
            let mut slot = numbered(&template, scenario.clients)
                .unwrap_or_else(|| listed(&template, scenario));
            slot.first = count;
            count = count.saturating_add(slot.subscribers.len() as u32);
            slots.push(slot);
        }
        let all = (0..).zip(slots.iter().flat_map(|slot| &slot.subscribers));
        let mut subscribed: Vec<u32> = all.filter(|(_, n)| **n > 0).map(|(k, _)| k).collect();
        if subscribed.len() == count as usize {
            subscribed = Vec::new();
        }
        Ok(Self {
            slots,
            subscribed,
            count,
        })
    }

    pub fn len(&self) -> u32 {
        if self.subscribed.is_empty() {
            self.count
        } else {
            self.subscribed.len() as u32
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of the k-th channel that has a subscriber.
    pub fn nth(&self, k: u32) -> Option<u32> {
        if self.subscribed.is_empty() {
            (k < self.count).then_some(k)
        } else {
            self.subscribed.get(k as usize).copied()
        }
    }

    /// Numbers of the channels that a connection subscribes to, in the order of the scenario's
    /// templates.
    pub fn of_connection(&self, connection: u64) -> impl Iterator<Item = u32> {
        self.slots.iter().filter_map(move |slot| {
            let within = match &slot.names {
                Names::Numbered { template, least } => {
                    template.number_of(connection)?.checked_sub(*least)? as u32
                }
                Names::Listed { of_connection, .. } => {
                    *of_connection.get(usize::try_from(connection).ok()?)?
                }
            };
            Some(slot.first + within)
        })
    }

    /// Number of subscribers to a channel: the deliveries that one publication is due.
    pub fn subscribers(&self, number: u32) -> u32 {
        self.slot(number)
            .and_then(|(slot, within)| slot.subscribers.get(within).copied())
            .unwrap_or(0)
    }

    /// Appends a channel's name; nothing for a number that no channel has.
    pub fn write_name(&self, number: u32, out: &mut Vec<u8>) {
        let Some((slot, within)) = self.slot(number) else {
            return;
        };
        match &slot.names {
            Names::Numbered { template, least } => {
                template.render_number(least + within as u64, out)
            }
            Names::Listed { names, .. } => {
                out.extend_from_slice(names.get(within).map_or("", |name| name).as_bytes());
            }
        }
    }

    fn slot(&self, number: u32) -> Option<(&Slot, usize)> {
        let at = self.slots.partition_point(|slot| slot.first <= number);
        let slot = self.slots.get(at.checked_sub(1)?)?;
        let within = (number - slot.first) as usize;
        (within < slot.subscribers.len()).then_some((slot, within))
    }
}

/// Makes the cheap form, if the template has it and its numbers lie close enough together.
fn numbered(template: &Template, clients: u64) -> Option<Slot> {
    let numbers = || (0..clients).map_while(|n| template.number_of(n));
    let (least, most) = (numbers().min()?, numbers().max()?);
    let width = (most - least).checked_add(1)?;
    if width > clients.saturating_mul(8) || width > u64::from(u32::MAX) {
        return None;
    }
    let mut subscribers = vec![0_u32; width as usize];
    for number in numbers() {
        if let Some(count) = subscribers.get_mut((number - least) as usize) {
            *count += 1;
        }
    }
    Some(Slot {
        first: 0,
        subscribers,
        names: Names::Numbered {
            template: template.clone(),
            least,
        },
    })
}

fn listed(template: &Template, scenario: &Scenario) -> Slot {
    let mut by_name: HashMap<Box<str>, u32> = HashMap::new();
    let mut names: Vec<Box<str>> = Vec::new();
    let mut subscribers: Vec<u32> = Vec::new();
    let mut of_connection = Vec::new();
    for n in 0..scenario.clients {
        let values = Values {
            n,
            ..Values::default()
        };
        let mut rng = Rng::for_member(scenario.seed, n);
        let name: Box<str> = template.render_to_string(&values, &mut rng).into();
        let next = names.len() as u32;
        let number = *by_name.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            subscribers.push(0);
            next
        });
        if let Some(count) = subscribers.get_mut(number as usize) {
            *count += 1;
        }
        of_connection.push(number);
    }
    Slot {
        first: 0,
        subscribers,
        names: Names::Listed {
            names,
            of_connection,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, prop_assert_eq, prop_oneof, proptest};

    use super::*;
    use crate::{ClientTransport, Dialect, Target, Workload};

    fn scenario(clients: u64, templates: &[&str]) -> Scenario {
        let target = Target::parse("ws://h:1/").unwrap();
        let mut scenario = Scenario::new(
            Workload::Hold,
            vec![target],
            ClientTransport::websocket(Dialect::Plain),
        );
        scenario.set_clients(clients, 100.0);
        scenario.channels = templates.iter().map(|&text| text.to_owned()).collect();
        scenario
    }

    fn name(channels: &ChannelPlan, number: u32) -> String {
        let mut out = Vec::new();
        channels.write_name(number, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn groups_are_numbered_and_counted() {
        let channels =
            ChannelPlan::new(&scenario(2500, &["group-{n%1000}", "news", "user-{n}"])).unwrap();
        assert_eq!(channels.len(), 1000 + 1 + 2500);
        assert_eq!(
            channels.of_connection(1001).collect::<Vec<_>>(),
            [1, 1000, 1001 + 1001]
        );
        assert_eq!((channels.subscribers(1), channels.subscribers(600)), (3, 2));
        assert_eq!(
            (channels.subscribers(1000), channels.subscribers(1001)),
            (2500, 1)
        );
        assert_eq!(name(&channels, 7), "group-7");
        assert_eq!(name(&channels, 1000), "news");
        assert_eq!(name(&channels, 3500), "user-2499");
        assert_eq!(
            (name(&channels, 3501), channels.subscribers(3501)),
            (String::new(), 0)
        );
    }

    #[test]
    fn channels_without_a_subscriber_are_passed_over() {
        let channels = ChannelPlan::new(&scenario(5, &["c-{n*2+10}"])).unwrap();
        assert_eq!(channels.len(), 5);
        let names: Vec<_> = (0..5)
            .map(|k| name(&channels, channels.nth(k).unwrap()))
            .collect();
        assert_eq!(names, ["c-10", "c-12", "c-14", "c-16", "c-18"]);
        assert_eq!(channels.nth(5), None);
        assert!(ChannelPlan::new(&scenario(5, &[])).unwrap().is_empty());
    }

    #[test]
    fn random_and_sparse_names_are_listed() {
        for template in ["r-{rand:0-9}", "s-{n*1000}", "{n%3}-{n%2}"] {
            let channels = ChannelPlan::new(&scenario(60, &[template])).unwrap();
            let due: u32 = (0..channels.len()).map(|k| channels.subscribers(k)).sum();
            assert_eq!(due, 60, "{template}");
        }
    }

    proptest! {
        #[test]
        fn everybody_finds_the_name_that_the_template_renders(
            clients in 1_u64..200,
            template in prop_oneof![
                Just("a-{n}"), Just("a-{n%7}"), Just("a-{n/3}"), Just("a-{n/3%5+2}"), Just("a"),
                Just("{n}{n%2}")
            ],
        ) {
            let channels = ChannelPlan::new(&scenario(clients, &[template])).unwrap();
            let compiled = Template::compile(template, HoleScope::Channel, None).unwrap();
            let mut due = vec![0_u32; channels.len() as usize];
            for n in 0..clients {
                let number = channels.of_connection(n).next().unwrap();
                let values = Values { n, ..Values::default() };
                let rendered = compiled.render_to_string(&values, &mut Rng::new(0));
                prop_assert_eq!(name(&channels, number), rendered);
                due[number as usize] += 1;
            }
            for (number, count) in (0..).zip(due) {
                prop_assert_eq!(channels.subscribers(number), count);
            }
        }
    }
}
