//! What becomes of Redis's answers.

use redis::{ServerError, Value};
use throng_broker::{HistoryPage, Present, Published, Refusal, Reply};
use throng_metrics::Counter;
use throng_remote::{Fault, NOBODY};

use crate::answer;
use crate::flight::Flight;
use crate::node::Node;

impl Node {
    /// Takes an answer.
    pub(crate) fn landed(&mut self, flight: Flight, value: Value) -> Result<(), Fault> {
        if let Value::ServerError(error) = &value {
            let code = code_of(error);
            if is_refused_write(code) {
                let detail = error.details().unwrap_or("");
                self.writes_refused(&flight, code, detail);
                self.failed(flight);
                return Ok(());
            }
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
            match flight {
                // It may have been refused in the midst of its script.
                Flight::Publish { .. } if !is_refused_at_once(code) => self.lost(flight),
                flight => self.failed(flight),
            }
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
            Flight::Asked(lane, ticket) => self.asked((lane, ticket), &value),
            Flight::Find(lane, ticket, node, message) => {
                self.found((lane, ticket), node, &message, &value)
            }
            Flight::AskedOne(lane, ticket, node) => self.asked_one((lane, ticket), &node, &value),
            Flight::Leased => return self.leased(),
            Flight::Nodes => self.nodes(&value),
            Flight::Lives(incarnation) => self.lives(incarnation, &value),
            Flight::MaySweep(incarnation) => self.may_sweep(incarnation, &value),
            Flight::Places(incarnation) => self.sweep(&incarnation, &value),
            Flight::Line => return self.line(&value),
            Flight::Row | Flight::Nothing => true,
        };
        if fits {
            Ok(())
        } else {
            Err(Fault(format!("an answer that cannot be read: {value:?}")))
        }
    }

    /// Redis answers and takes no writes: that is told once.
    fn writes_refused(&mut self, flight: &Flight, code: &str, detail: &str) {
        self.rows_missed |= matches!(flight, Flight::Row);
        if !self.desk.is_refusing() {
            tracing::warn!(
                code,
                detail,
                "Redis refuses writes: publications with a history or a key are refused until it \
                 takes them again"
            );
            self.desk.set_refusing(true);
        }
    }

    /// Redis refused: nothing happened.
    fn failed(&mut self, flight: Flight) {
        let refused = Refusal::Unavailable;
        match flight {
            Flight::Publish { lane, ticket } => {
                self.desk.count(Counter::BrokerUnavailable);
                let result = Err(refused);
                if ticket != NOBODY {
                    self.desk.leave(lane, Reply::Published { ticket, result });
                }
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

/// The code of an error. Redis before version 7 has that of a script's command within the text:
/// `ERR Error running script …: -OOM command not allowed …`.
fn code_of(error: &ServerError) -> &str {
    let code = error.code();
    if code != "ERR" {
        return code;
    }
    let detail = error.details().unwrap_or_default();
    let words = detail.split(' ').filter_map(|word| word.strip_prefix('-'));
    { words }
        .find(|word| is_refused_write(word))
        .unwrap_or(code)
}

/// Whether Redis refuses all that writes: it is full, it lacks replicas, or its disk fails. Of a
/// script it refuses the first write in that way, never a later one.
fn is_refused_write(code: &str) -> bool {
    matches!(code, "OOM" | "NOREPLICAS" | "MISCONF")
}

/// Whether a command that was refused with this code had not begun.
fn is_refused_at_once(code: &str) -> bool {
    matches!(code, "BUSY" | "CROSSSLOT" | "NOPERM")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_refused_write_is_found_in_the_error_of_a_script() {
        let old = "Error running script (call to f_6b1b): @user_script:1: @user_script: 1: -OOM \
                   command not allowed when used memory > 'maxmemory'.";
        for (line, expected) in [
            ("OOM command not allowed", "OOM"),
            (
                "NOREPLICAS Not enough good replicas to write.",
                "NOREPLICAS",
            ),
            (&*format!("ERR {old}"), "OOM"),
            ("ERR ACL failure in script: no -permission", "ERR"),
            ("ERR", "ERR"),
        ] {
            let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes());
            let Ok(Value::ServerError(error)) = value else {
                panic!("{line}: {value:?}");
            };
            assert_eq!(code_of(&error), expected, "{line}");
        }
    }
}
