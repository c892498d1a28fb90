//! What becomes of Redis's answers.

use redis::Value;
use throng_broker::{HistoryPage, Present, Published, Refusal, Reply};
use throng_remote::{Fault, NOBODY};

use crate::answer;
use crate::flight::Flight;
use crate::node::Node;

impl Node {
    /// Takes an answer.
    pub(crate) fn landed(&mut self, flight: Flight, value: Value) -> Result<(), Fault> {
        if let Value::ServerError(error) = &value {
            let code = error.code();
            if matches!(
                code,
                "NOSCRIPT" | "READONLY" | "LOADING" | "NOAUTH" | "NOPERM" | "MASTERDOWN"
            ) {
                let fault = format!("Redis refuses: {code} {}", error.details().unwrap_or(""));
                self.failed(flight);
                return Err(Fault(fault));
            }
            if matches!(code, "MOVED" | "CLUSTERDOWN") {
                // It may be said of a subscription, which has no flight of its own; so nobody knows
                // what became of this one.
                let fault = format!("Redis refuses: {code} {}", error.details().unwrap_or(""));
                self.lost(flight);
                return Err(Fault(fault));
            }
            if matches!(code, "ASK" | "TRYAGAIN") {
                self.slot_moves();
                self.failed(flight);
                return Ok(());
            }
            let detail = error.details().unwrap_or("");
            tracing::warn!(code, detail, "Redis refuses a command");
            self.failed(flight);
            return Ok(());
        }
        let fits = match flight {
            Flight::Publish { lane, ticket } => {
                let position = answer::published(&value);
                if let Some(position) = position.filter(|_| ticket != NOBODY) {
                    let shards = None;
                    let result = Ok(Published { position, shards });
                    self.desk.leave(lane, Reply::Published { ticket, result });
                }
                position.is_some()
            }
            Flight::Subscribe(wanted) => self.subscribed(wanted, &value),
            Flight::Refill(channel, serial) => self.refilled(&channel, serial, &value),
            Flight::Audit(channel, serial) => self.audited(&channel, serial, &value),
            Flight::History {
                lane,
                ticket,
                channel,
            } => {
                let looked = answer::looked(&value, &channel);
                let fits = looked.is_some();
                if let Some(looked) = looked {
                    let result = looked.into_page();
                    self.desk.leave(lane, Reply::History { ticket, result });
                }
                fits
            }
            Flight::Forget { lane, ticket } => {
                let result = Ok(HistoryPage::default());
                self.desk.leave(lane, Reply::History { ticket, result });
                true
            }
            Flight::Present {
                lane,
                ticket,
                with_members,
            } => {
                let result = present(&value, with_members);
                let fits = result.is_some();
                if let Some(result) = result {
                    self.desk.leave(lane, Reply::Present { ticket, result });
                }
                fits
            }
            Flight::Asked(lane, ticket) => self.asked(lane, ticket, &value),
            Flight::Nodes => self.nodes(&value),
            Flight::Lives(incarnation) => self.lives(incarnation, &value),
            Flight::MaySweep(incarnation) => self.may_sweep(incarnation, &value),
            Flight::Places(incarnation) => self.sweep(&incarnation, &value),
            Flight::Line => return self.line(&value),
            Flight::Nothing => true,
        };
        if fits {
            Ok(())
        } else {
            Err(Fault(format!("an answer that cannot be read: {value:?}")))
        }
    }

    /// Redis refused: nothing happened.
    fn failed(&mut self, flight: Flight) {
        let refused = Refusal::Unavailable;
        match flight {
            Flight::Publish { lane, ticket } if ticket != NOBODY => {
                let result = Err(refused);
                self.desk.leave(lane, Reply::Published { ticket, result });
            }
            Flight::Subscribe(wanted) => self.not_subscribed(&wanted),
            Flight::Refill(channel, serial) => self.not_refilled(&channel, serial),
            Flight::History { lane, ticket, .. } | Flight::Forget { lane, ticket } => {
                let result = Err(refused);
                self.desk.leave(lane, Reply::History { ticket, result });
            }
            Flight::Present { lane, ticket, .. } => {
                let result = Err(refused);
                self.desk.leave(lane, Reply::Present { ticket, result });
            }
            _ => {}
        }
    }
}

/// The answer to who is present.
fn present(value: &Value, with_members: bool) -> Option<Result<Present, Refusal>> {
    let [clients, users, members @ ..] = answer::list(value)? else {
        return None;
    };
    let Some(clients) = answer::number(clients) else {
        return Some(Err(Refusal::TooLong));
    };
    let members = match members {
        [members, ..] if with_members => Some(answer::members(members)?),
        _ => None,
    };
    Some(Ok(Present {
        clients: u32::try_from(clients).ok()?,
        users: u32::try_from(answer::number(users)?).ok()?,
        members,
    }))
}
