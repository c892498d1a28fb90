//! Handling of Redis's answers.

use redis::{ServerError, Value};
use throng_broker::{HistoryPage, Present, Refusal, Reply};
use throng_remote::{Channels as _, Fault};

use crate::answer;
use crate::flight::Flight;
use crate::node::Redis;

impl Redis {
    pub(crate) fn landed(&mut self, flight: Flight, value: Value) -> Result<(), Fault> {
        if let Value::ServerError(error) = &value {
            let code = code_of(error);
            if is_refused_write(code) {
                let detail = error.details().unwrap_or("");
                self.writes_refused(&flight, code, detail);
                self.failed(flight, Refusal::Unavailable);
                return Ok(());
            }
            if matches!(
                code,
                "NOSCRIPT" | "READONLY" | "LOADING" | "NOAUTH" | "NOPERM" | "MASTERDOWN"
            ) {
                let fault = format!("Redis refuses: {code} {}", error.details().unwrap_or(""));
                self.failed(flight, Refusal::Unavailable);
                return Err(Fault(fault));
            }
            if matches!(code, "MOVED" | "CLUSTERDOWN") {
                // It may be said of a subscription, which has no flight of its own; so nobody knows
                // the outcome of this one.
                let fault = format!("Redis refuses: {code} {}", error.details().unwrap_or(""));
                self.lost(flight);
                return Err(Fault(fault));
            }
            if matches!(code, "ASK" | "TRYAGAIN") {
                self.slot_moves();
                self.failed(flight, Refusal::Unavailable);
                return Ok(());
            }
            let detail = error.details().unwrap_or("");
            tracing::warn!(code, detail, "Redis refuses a command");
            match flight {
                // It may have been refused in the midst of its script.
                Flight::Publish { .. } if !is_refused_at_once(code) => self.lost(flight),
                flight => self.failed(flight, Refusal::Unavailable),
            }
            return Ok(());
        }
        let fits = match flight {
            Flight::Publish { lane, ticket } => {
                let position = answer::published(&value);
                if let Some(position) = position {
                    self.core.published(lane, ticket, Ok(position));
                }
                position.is_some()
            }
            Flight::Look(purpose, channel) => {
                let looked = answer::looked(&value, &channel);
                let fits = looked.is_some();
                if let Some(looked) = looked {
                    self.tell_looked(&channel, purpose, looked);
                }
                fits
            }
            Flight::Settle(wanted) => {
                self.settled(wanted);
                true
            }
            Flight::Forget { lane, ticket } => {
                let result = Ok(HistoryPage::default());
                self.core
                    .desk
                    .leave(lane, Reply::History { ticket, result });
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
                    self.core
                        .desk
                        .leave(lane, Reply::Present { ticket, result });
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

    /// Redis answers and takes no writes: that is logged once.
    fn writes_refused(&mut self, flight: &Flight, code: &str, detail: &str) {
        self.rows_missed |= matches!(flight, Flight::Row);
        if !self.core.desk.is_refusing() {
            tracing::warn!(
                code,
                detail,
                "Redis refuses writes: publications with a history or a key are refused until it \
                 takes them again"
            );
            self.core.desk.set_refusing(true);
        }
    }

    /// Nothing happened, or the outcome is unknown.
    pub(crate) fn failed(&mut self, flight: Flight, refusal: Refusal) {
        match flight {
            Flight::Publish { lane, ticket } => {
                self.core.count_refusal(refusal);
                self.core.published(lane, ticket, Err(refusal));
            }
            Flight::Look(purpose, channel) => self.refuse_look(&channel, purpose, refusal),
            Flight::Settle(wanted) => self.not_subscribed(&wanted, refusal),
            Flight::Forget { lane, ticket } => {
                let result = Err(refusal);
                self.core
                    .desk
                    .leave(lane, Reply::History { ticket, result });
            }
            Flight::Present { lane, ticket, .. } => {
                let result = Err(refusal);
                self.core
                    .desk
                    .leave(lane, Reply::Present { ticket, result });
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

/// The answer to the question for present members.
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
