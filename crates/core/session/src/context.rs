//! Input and output of a session for one event, and the orders that go beyond its connection.

use std::collections::VecDeque;
use std::convert::Infallible;

use throng_broker::ChannelMember;
use throng_hub::{Command, FormKind, Format, ReplyTo};
use throng_metrics::Counter;
use throng_types::{Actions, ChannelName, ConnId, End, Millis, Now, Position, Save};

use crate::work::{Overspent, Work};
use crate::{ControlCommand, Shared, Survey};

/// A session's order beyond its connection. Carried out after the event, in the order of writing.
#[derive(Debug)]
pub enum Order {
    Hub(Command),
    /// For every shard; the answers come back together, as [`crate::Event::Surveyed`].
    Survey {
        reply_to: ReplyTo,
        survey: Survey,
    },
    /// For every shard; the answers come to [`crate::Gateway::surveyed`] of the gateway in this
    /// place.
    GatewaySurvey {
        place: u8,
        survey: Survey,
    },
    /// The server is to read its configuration again; [`crate::Event::Reloaded`] follows.
    Reload(ConnId),
    /// The next of the own orders of the gateway in this place: [`crate::Gateway::order`].
    Gateway(u8),
}

/// A wire form of deliveries, declared once by its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub struct Form {
    pub number: u8,
    /// Whether its deliveries are shared bytes, personal, or need the session's eye.
    pub kind: FormKind,
}

impl Form {
    /// A form; `number` counts from zero within the gateway.
    pub const fn new(number: u8, kind: FormKind) -> Self {
        Self { number, kind }
    }
}

/// Surroundings of one event: the connection, the time, the shard's shared state, and the outputs
/// for bytes and orders.
///
/// `S` is what the sessions of one gateway share on a shard, `O` are the gateway's own orders. Code
/// that several gateways use is generic over both and touches neither.
pub struct Context<'a, S = (), O = Infallible> {
    pub id: ConnId,
    /// The clocks, as read at the start of the turn.
    pub now: Now,
    pub shared: &'a Shared,
    pub own: &'a S,
    /// Bytes for the peer: append. They leave after the event; those of an event behind the one
    /// that [ended](Self::end) the connection do not.
    pub out: &'a mut Vec<u8>,
    pub actions: &'a mut Actions,
    /// Orders of all sessions of the shard: append. Bound: what sessions make of the bytes that one
    /// turn reads.
    pub orders: &'a mut Vec<Order>,
    /// Content of the gateway's own orders, one for each [`Order::Gateway`] of it. Bound: `orders`.
    pub own_orders: &'a mut VecDeque<O>,
    /// The gateway's place in the list of gateways.
    pub place: u8,
    /// The number of the gateway's first wire form; the list of gateways hands them out.
    pub forms_from: u8,
}

impl<S, O> Context<'_, S, O> {
    pub fn count(&self, counter: Counter) {
        self.shared.counters.count(counter);
    }

    /// Charges a piece of work to the connection that is being served, before it is done. Error:
    /// the allowance that is used up; it is counted.
    pub fn spend(&self, work: Work) -> Result<(), Overspent> {
        let spent = self.shared.meter.spend(work, self.now);
        let spent = spent.and_then(|()| self.shared.users.spend(self.id, work, self.now));
        if let Err(over) = spent {
            self.note_overspent(over);
        }
        spent
    }

    /// Counts the connection for a user whom it has proven to be, before it is let in; `realm` as
    /// in [`crate::Users::admit`]. Error: the user has as many connections as it may; it is
    /// counted.
    pub fn admit_user(&self, realm: &str, user: &str) -> Result<(), Overspent> {
        let admitted = self.shared.users.admit(self.id, realm, user);
        if let Err(over) = admitted {
            self.count(over.counter());
            let (_, why) = over.status();
            self.shared.notices.refused("connect", "", user, why);
        }
        admitted
    }

    pub fn note_overspent(&self, over: Overspent) {
        self.count(over.counter());
        let (_, why) = over.status();
        self.shared.notices.refused("work", "", "", why);
    }

    /// Sets the connection's one deadline.
    pub const fn deadline_at(&mut self, at: Millis) {
        self.actions.deadline = Some(Some(at));
    }

    pub const fn set_deadline(&mut self, deadline: Option<Millis>) {
        self.actions.deadline = Some(deadline);
    }

    /// Holds deliveries back, or lets them go; see [`Actions::hold`].
    pub const fn hold(&mut self, hold: bool) {
        self.actions.hold = Some(hold);
    }

    /// Forgets the deliveries that are held back; see [`Actions::forget_held`].
    pub const fn forget_held(&mut self) {
        self.actions.forget_held = true;
    }

    /// Pauses or resumes reading from the connection; see [`Actions::pause`].
    pub const fn pause(&mut self, pause: bool) {
        self.actions.pause = Some(pause);
    }

    /// Ends the connection; see [`Actions::end`].
    pub fn end(&mut self, end: End) {
        self.actions.end(end);
    }

    /// Notes why the connection ends, for webhooks and followers: the code and reason that one side
    /// gave first.
    pub fn note_end(&self, code: u16, reason: &str) {
        if self.shared.hooks.is_some() || self.shared.follow.is_on() {
            let mut ends = self.shared.ends.borrow_mut();
            ends.entry(self.id.index())
                .or_insert_with(|| (code, reason.into()));
        }
    }

    pub const fn has_ended(&self) -> bool {
        self.actions.end.is_some()
    }

    pub fn hub(&mut self, command: Command) {
        self.orders.push(Order::Hub(command));
    }

    /// Orders something of the own gateway.
    pub fn order(&mut self, order: O) {
        self.own_orders.push_back(order);
        self.orders.push(Order::Gateway(self.place));
    }

    /// Sends a survey to every shard; one that changes something is logged.
    pub fn survey(&mut self, survey: Survey) {
        let (what, channel, user, client) = match &survey {
            Survey::Disconnect { user, client, .. } => ("disconnect", "", user, client),
            Survey::Unsubscribe {
                user,
                client,
                channel,
            } => {
                let channel = channel.as_ref().map_or("", ChannelName::as_str);
                ("unsubscribe", channel, user, client)
            }
            Survey::Control {
                user,
                client,
                command,
            } => match command {
                ControlCommand::Subscribe { channel, .. } => {
                    ("subscribe", channel.as_str(), user, client)
                }
                ControlCommand::Refresh { .. } => ("refresh", "", user, client),
                ControlCommand::Execute(_) => ("hear", "", user, client),
            },
            Survey::Channels
            | Survey::Count
            | Survey::Find(_)
            | Survey::Carry { .. }
            | Survey::Subscribers(_) => return self.ask_shards(survey),
        };
        self.shared.notices.changed(what, channel, [user, client]);
        self.ask_shards(survey);
    }

    fn ask_shards(&mut self, survey: Survey) {
        let reply_to = self.reply_to(0);
        self.orders.push(Order::Survey { reply_to, survey });
    }

    /// Names this connection to the hub; the answer brings the token back.
    pub const fn reply_to(&self, token: u32) -> ReplyTo {
        ReplyTo::new(self.id, token)
    }

    pub fn reload(&mut self) {
        self.orders.push(Order::Reload(self.id));
    }

    /// Subscribes the connection: deliveries come in the gateway's wire form with this number, and
    /// the answer brings the token back.
    pub fn subscribe(
        &mut self,
        token: u32,
        channel: ChannelName,
        form: Form,
        since: Option<Position>,
    ) {
        let format = self.format(form);
        self.subscribe_as(token, channel, format, since, None);
    }

    /// Subscribes like [`Context::subscribe`], with presence: the client is listed in the channel,
    /// or gets joins and leaves.
    pub fn subscribe_as(
        &mut self,
        token: u32,
        channel: ChannelName,
        format: Format,
        since: Option<Position>,
        presence: Option<ChannelMember>,
    ) {
        self.hub(Command::Subscribe {
            reply_to: self.reply_to(token),
            channel,
            format,
            since,
            presence,
        });
    }

    /// Ends a subscription of the connection, at once and without an answer.
    pub fn unsubscribe(&mut self, channel: ChannelName) {
        self.hub(Command::Unsubscribe {
            conn: self.id,
            channel,
            token: None,
        });
    }

    /// The hub's name for a wire form of this gateway.
    pub const fn format(&self, form: Form) -> Format {
        Format::new(self.forms_from + form.number, form.kind)
    }
}
