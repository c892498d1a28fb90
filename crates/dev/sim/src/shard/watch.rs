//! Everything that goes into this shard's hub and comes out of it, shown to the witness.

use throng_broker::{Draft, Recovery, Refusal, Reply, Request};
use throng_hub::{Asker, Command, Hub};
use throng_types::{ChannelName, Now, Position, ShardId};

use super::outlet::{Heard, Outlet};
use super::{Mail, Note, Shard};
use crate::brief;
use crate::net::Net;
use crate::witness::Witness;

impl Shard {
    fn hub_call(
        &mut self,
        net: &mut Net,
        now: Now,
        call: impl FnOnce(&mut Hub, Now, &mut Outlet<'_>),
    ) -> Vec<(Asker, Heard)> {
        let mut outlet = Outlet {
            conns: &mut self.conns,
            net,
            desk: &self.desk,
            orders: &mut self.orders,
            answers: Vec::new(),
        };
        call(&mut self.hub, now, &mut outlet);
        outlet.answers
    }

    pub(super) fn command(&mut self, command: Command, net: &mut Net, witness: &mut Witness) {
        let now = witness.now;
        let (mut draft, mut subscribe) = (None, None);
        witness.note(|| brief::command(&command));
        match &command {
            Command::Publish { draft: wanted, .. } if self.home_of(&wanted.channel) == self.id => {
                draft = Some((wanted.clone(), self.hub.interest(&wanted.channel)));
            }
            Command::Subscribe { channel, since, .. } if self.home_of(channel) == self.id => {
                subscribe = Some((*since, self.hub.interest(channel)));
            }
            _ => {}
        }
        let answers = self.hub_call(net, now, |hub, now, outlet| {
            hub.handle(command, now, outlet)
        });
        for (asker, heard) in answers {
            match heard {
                Heard::Published(result) => {
                    if let Some((draft, interest)) = draft.take() {
                        self.published(&draft, result, interest, witness);
                    }
                }
                Heard::Subscribed(channel, Ok(result)) => {
                    if let Some((since, interest)) = subscribe.take() {
                        witness.subscribed(&channel, since, interest, &result);
                        witness.took_all(self.id, &channel);
                    } else {
                        assert_eq!(
                            result.recovery,
                            Recovery::NotAsked,
                            "only its home can recover"
                        );
                    }
                    witness.joined(asker.conn, &channel);
                }
                Heard::Subscribed(_, Err(_)) | Heard::History => {}
            }
        }
        self.stage(None, witness);
    }

    fn published(
        &self,
        draft: &Draft,
        result: Result<Option<Position>, Refusal>,
        interest: u64,
        witness: &mut Witness,
    ) {
        match result {
            Ok(position) => {
                witness.accepted(draft, position, interest);
                witness.took_all(self.id, &draft.channel);
            }
            Err(refusal) => panic!("these queues are far from full: {refusal:?}"),
        }
    }

    pub(super) fn mail(&mut self, from: usize, mail: Mail, net: &mut Net, witness: &mut Witness) {
        let now = witness.now;
        let mail = match mail {
            Mail::Note(Note::Ask { ticket, question }) => {
                let told = self.tell(question, witness);
                self.stage(None, witness);
                return self.notes[from].push_back(Note::Told { ticket, told });
            }
            Mail::Note(Note::Told { ticket, told }) => return self.told(ticket, told),
            Mail::Hub(mail) => mail,
        };
        witness.note(|| format!("{from} to {}: {}", self.id.0, brief::mail(&mail)));
        let mut asked = None;
        match &mail {
            throng_hub::Mail::Request(request) => asked = Some(Asked::new(request, &self.hub)),
            throng_hub::Mail::Reply(Reply::Delivery(publication)) => {
                witness.took(self.id, publication)
            }
            throng_hub::Mail::Reply(Reply::Subscribed { ticket, .. }) => {
                witness.answer_arrives(self.id, *ticket)
            }
            throng_hub::Mail::Reply(_) => {}
        }
        let from = ShardId(from as u8);
        let answers = self.hub_call(net, now, |hub, now, outlet| {
            hub.mail(from, mail, now, outlet)
        });
        for (asker, heard) in answers {
            if let Heard::Subscribed(channel, Ok(_)) = heard {
                witness.joined(asker.conn, &channel);
            }
        }
        self.stage(asked.map(|asked| (from, asked)), witness);
    }

    /// Takes what the hub has for others, and shows the witness the answer to a question.
    pub(super) fn stage(&mut self, mut asked: Option<(ShardId, Asked)>, witness: &mut Witness) {
        for to in 0..self.staged.len() {
            let to_shard = ShardId(to as u8);
            while let Some(mail) = self.hub.take_mail(to_shard) {
                let is_answer = matches!(&mail, throng_hub::Mail::Reply(reply) if !matches!(reply, Reply::Delivery(_)));
                if is_answer {
                    let (asker, asked) = asked.take().expect("an answer has its question");
                    assert_eq!(asker, to_shard, "the answer goes to who asked");
                    self.answered(asker, asked, &mail, witness);
                }
                self.staged[to].push_back(mail);
            }
        }
        let open = asked.is_some_and(|(_, asked)| !matches!(asked, Asked::Nothing));
        assert!(!open, "a home answers at once");
    }

    fn answered(
        &self,
        asker: ShardId,
        asked: Asked,
        answer: &throng_hub::Mail,
        witness: &mut Witness,
    ) {
        match (asked, answer) {
            (
                Asked::Publish { draft, interest },
                throng_hub::Mail::Reply(Reply::Published { result, .. }),
            ) => {
                let result = result.map(|published| published.position);
                self.published(&draft, result, interest, witness);
            }
            (
                Asked::Subscribe {
                    channel,
                    since,
                    interest,
                },
                throng_hub::Mail::Reply(Reply::Subscribed {
                    ticket,
                    result: Ok(result),
                }),
            ) => {
                witness.subscribed(&channel, since, interest, result);
                witness.answers(asker, *ticket, &channel);
            }
            (Asked::History, throng_hub::Mail::Reply(Reply::History { .. })) => {}
            _ => panic!("an answer of another kind"),
        }
    }
}

/// A question to this shard's homes, as far as the witness wants to know it.
pub(super) enum Asked {
    Publish {
        draft: Draft,
        interest: u64,
    },
    Subscribe {
        channel: ChannelName,
        since: Option<Position>,
        interest: u64,
    },
    History,
    /// Not answered.
    Nothing,
}

impl Asked {
    fn new(request: &Request, hub: &Hub) -> Self {
        match request {
            Request::Publish { draft, .. } => Self::Publish {
                draft: draft.clone(),
                interest: hub.interest(&draft.channel),
            },
            Request::Subscribe { channel, since, .. } => Self::Subscribe {
                channel: channel.clone(),
                since: *since,
                interest: hub.interest(channel),
            },
            Request::History { .. } => Self::History,
            Request::Leave { .. } => Self::Nothing,
        }
    }
}
