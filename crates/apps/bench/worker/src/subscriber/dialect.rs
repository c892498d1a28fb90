//! What a WebSocket's messages mean, by dialect: acknowledgements, pings, positions; and measured
//! messages in all.

use throng_client::centrifugo::{self, Position};
use throng_engine::Effects;
use throng_types::ConnId;
use throng_ws::Opcode;

use crate::core::Core;
use crate::session::{Stage, Subscriber};
use throng_bench_measure::ConnectFailure;
use throng_bench_plan::{Dialect, Transport};

impl Core<'_> {
    pub(super) fn message(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        data: &[u8],
        fx: &mut Effects<'_>,
    ) {
        let script = self.script;
        if let Transport::WebSocket { dialect, .. } = &script.scenario.transport {
            match dialect {
                Dialect::Plain => {}
                Dialect::Centrifugo { .. } => {
                    if data == centrifugo::PING {
                        self.tally.counters.pings += 1;
                        throng_ws::encode_message(self.mask(), Opcode::Text, data, fx.out);
                        return;
                    }
                    if subscriber.resume.is_some()
                        || matches!(subscriber.stage, Stage::Subscribing(_))
                    {
                        self.centrifugo_lines(id, subscriber, data, fx);
                    }
                }
                Dialect::Appwrite => {
                    if matches!(subscriber.stage, Stage::Subscribing(_)) {
                        self.appwrite_first(id, subscriber, data, fx);
                    }
                }
            }
        }
        self.scan_frame(subscriber, data);
    }

    fn appwrite_first(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        data: &[u8],
        fx: &mut Effects<'_>,
    ) {
        let message: Option<serde_json::Value> = serde_json::from_slice(data).ok();
        let kind = message
            .as_ref()
            .and_then(|message| message.get("type")?.as_str());
        match kind {
            Some("connected") => self.usable(id, subscriber, fx),
            Some("error") => {
                let text = String::from_utf8_lossy(data)
                    .chars()
                    .take(160)
                    .collect::<String>();
                self.tally.remark(format!("refused: {text}"));
                self.fail(subscriber, ConnectFailure::SubscribeRefused, fx);
            }
            _ => {}
        }
    }

    fn centrifugo_lines(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        data: &[u8],
        fx: &mut Effects<'_>,
    ) {
        for line in centrifugo::lines(data).flatten() {
            if let Some(push) = line.push
                && let (Some(publication), Some(resume)) =
                    (push.publication, &mut subscriber.resume)
                && let Some((_, position)) = resume
                    .positions
                    .iter_mut()
                    .find(|(channel, _)| *channel == push.channel)
            {
                position.offset = position.offset.max(publication.offset);
            }
            let Stage::Subscribing(left) = subscriber.stage else {
                continue;
            };
            if let Some(refusal) = line.error {
                self.tally.remark(format!(
                    "refused with {} {}",
                    refusal.code,
                    refusal.message.chars().take(80).collect::<String>()
                ));
                return self.fail(subscriber, ConnectFailure::SubscribeRefused, fx);
            }
            if line.connect.is_some() && line.id == centrifugo::CONNECT_ID {
                self.centrifugo_subscribe(subscriber, fx);
            } else if let Some(subscribed) = line.subscribe {
                self.centrifugo_subscribed(subscriber, line.id, subscribed);
            } else {
                continue;
            }
            subscriber.stage = Stage::Subscribing(left - 1);
            if left == 1 {
                self.usable(id, subscriber, fx);
            }
        }
    }

    fn centrifugo_subscribe(&mut self, subscriber: &Subscriber, fx: &mut Effects<'_>) {
        let script = self.script;
        let mut frame = Vec::new();
        let channels = script.channels.of_connection(u64::from(subscriber.n));
        for (id, channel) in (centrifugo::CONNECT_ID + 1..).zip(channels) {
            let mut name = Vec::new();
            script.channels.write_name(channel, &mut name);
            let name = String::from_utf8_lossy(&name);
            let position = subscriber.resume.as_ref().and_then(|resume| {
                let held = resume
                    .positions
                    .iter()
                    .find(|(channel, _)| *channel == name);
                held.map(|(_, position)| position)
            });
            if !frame.is_empty() {
                frame.push(b'\n');
            }
            centrifugo::encode_subscribe(id, &name, position, &mut frame);
        }
        if !frame.is_empty() {
            throng_ws::encode_message(self.mask(), Opcode::Text, &frame, fx.out);
        }
    }

    fn centrifugo_subscribed(
        &mut self,
        subscriber: &mut Subscriber,
        id: u32,
        subscribed: centrifugo::Subscribed,
    ) {
        let script = self.script;
        let Some(resume) = &mut subscriber.resume else {
            return;
        };
        if subscriber.returning {
            self.tally.counters.recovered += u64::from(subscribed.recovered);
        }
        let place = id.saturating_sub(centrifugo::CONNECT_ID + 1) as usize;
        let Some(channel) = script
            .channels
            .of_connection(u64::from(subscriber.n))
            .nth(place)
        else {
            return;
        };
        let mut name = Vec::new();
        script.channels.write_name(channel, &mut name);
        let name = String::from_utf8_lossy(&name).into_owned();
        let position = Position {
            epoch: subscribed.epoch,
            offset: subscribed.offset,
        };
        match resume.positions.iter_mut().find(|(held, _)| *held == name) {
            Some((_, held)) => *held = position,
            None => resume.positions.push((name, position)),
        }
    }
}
