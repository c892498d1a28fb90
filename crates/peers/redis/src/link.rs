//! One connection to Redis: found, made and introduced by a task.
//!
//! Sentinels that name the server are asked now and then whether it is still that one: a
//! server that was replaced may keep its connections and say nothing any more.

use std::path::PathBuf;

use redis::Value;
use throng_peer::task::{Link as Wire, Net};
use throng_redis_link::value::text;
use throng_redis_link::{Answers, Place, RedisLink};
use throng_remote::{Connector, Messages};

use crate::answer::reason;
use crate::command::Script;
use crate::keys::Keys;
use crate::node::RedisServer;
use crate::options::Target;

/// Between two questions to Sentinels where Redis is, in milliseconds.
const ASK_EVERY_MS: u64 = 1000;

pub struct RedisConnector {
    pub(crate) target: Target,
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) prefix: String,
    pub(crate) incarnation: String,
    pub(crate) timeout_ms: u64,
    pub(crate) is_traced: bool,
    /// Bytes that one answer may keep.
    pub(crate) answer_bytes_max: usize,
    /// The server that it was made to.
    pub(crate) place: Option<Place>,
}

pub struct RedisMessages(Answers);

impl Messages for RedisMessages {
    type Message = Value;

    fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    fn next(&mut self) -> Result<Option<Value>, String> {
        self.0.take()
    }
}

impl Connector for RedisConnector {
    type Handshake = RedisServer;
    type Messages = RedisMessages;

    async fn connect(&mut self, net: &Net) -> Result<(RedisServer, Wire, RedisMessages), String> {
        let place = self.find(net).await?;
        let made = self.introduce(net, &place).await;
        let made = made.map_err(|why| format!("{}:{}: {why}", place.host, place.port));
        self.place = Some(place);
        made
    }

    async fn watch(&mut self, net: &Net) -> String {
        while self.target.may_move() {
            net.sleep(ASK_EVERY_MS).await;
            // While no Sentinel answers, the one that we have is good enough.
            if let Ok(now) = self.find(net).await
                && self.place.as_ref() != Some(&now)
            {
                return "Sentinels name another server".to_owned();
            }
        }
        std::future::pending().await
    }
}

impl RedisConnector {
    async fn find(&self, net: &Net) -> Result<Place, String> {
        let authorities = self.authorities.as_deref();
        self.target.find(net, self.timeout_ms, authorities).await
    }

    async fn introduce(
        &self,
        net: &Net,
        place: &Place,
    ) -> Result<(RedisServer, Wire, RedisMessages), String> {
        let authorities = self.authorities.as_deref();
        let link = RedisLink::open(
            net,
            place,
            self.timeout_ms,
            authorities,
            self.answer_bytes_max,
        );
        let mut link = link.await.map_err(reason)?;
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(password) = &place.password {
            let user = place.user.as_deref().unwrap_or("default");
            hello.extend([b"AUTH".as_slice(), user.as_bytes(), password.as_bytes()]);
        }
        hello.extend([b"SETNAME".as_slice(), b"throng"]);
        link.ask(&hello).await.map_err(reason)?;
        link.select(place.db).await.map_err(reason)?;
        let info = link.ask(&[b"INFO", b"server"]).await.map_err(reason)?;
        let process = field(&info, "run_id").ok_or("Redis does not say its run_id")?;
        let info = link.ask(&[b"INFO", b"replication"]).await.map_err(reason)?;
        if field(&info, "role").is_some_and(|role| role != "master") {
            return Err("it is a replica".to_owned());
        }
        let line = field(&info, "master_replid").unwrap_or_default();
        let verbs = self.target.verbs();
        let mut digests = Vec::new();
        for script in Script::ALL {
            let script = script.text(verbs);
            let loaded = link.ask(&[b"SCRIPT", b"LOAD", script.as_bytes()]).await;
            let loaded = loaded.map_err(reason)?;
            digests.push(
                text(&loaded)
                    .ok_or("Redis did not load a script")?
                    .to_owned(),
            );
        }
        let keys = Keys::new(&self.prefix);
        let traces = self.is_traced.then(|| keys.traces());
        let names = [keys.probe(&self.incarnation), keys.everybody()];
        for name in names.into_iter().chain(traces) {
            let subscribe = [verbs.subscribe.as_bytes(), name.as_bytes()];
            match link.ask(&subscribe).await.map_err(reason)? {
                Value::Push {
                    kind: redis::PushKind::Subscribe | redis::PushKind::SSubscribe,
                    ..
                } => {}
                other => return Err(format!("SUBSCRIBE was not confirmed: {other:?}")),
            }
        }
        let established = RedisServer {
            process,
            line,
            digests,
            incarnation: self.incarnation.clone(),
        };
        let (wire, answers) = link.into_parts();
        Ok((established, wire, RedisMessages(answers)))
    }
}

pub(crate) fn field(info: &Value, name: &str) -> Option<String> {
    let text = match info {
        Value::VerbatimString { text, .. } => text,
        other => text(other)?,
    };
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use throng_peer::{LinkEvent, Want};
    use throng_play::Talk;

    use super::*;

    /// Whom the task dials, and what it writes.
    fn shown(wants: Vec<Want>) -> Vec<String> {
        let shown = wants.into_iter().filter_map(|want| match want {
            Want::Dial(_, dial) => Some(format!("{}:{}", dial.host, dial.port)),
            Want::Write(_, bytes) => Some(String::from_utf8(bytes).expect("text")),
            _ => None,
        });
        shown.collect()
    }

    /// As docs/CLUSTER.md says, also while none answers.
    #[test]
    fn a_sentinel_is_asked_every_second_until_it_names_another_server() {
        let (mut talk, wants) = Talk::start(|net| async move {
            let mut connector = RedisConnector {
                target: Target::new("redis+sentinel://a:1/main").expect("a URL"),
                authorities: None,
                prefix: String::new(),
                incarnation: String::new(),
                timeout_ms: 100,
                is_traced: false,
                answer_bytes_max: 1 << 10,
                place: Place::new("redis://b:2").ok(),
            };
            connector.watch(&net).await
        });
        assert_eq!(shown(wants), [""; 0]);
        for (link, named) in [(1, Some("b")), (2, None), (3, Some("b")), (4, Some("c"))] {
            assert_eq!(talk.ended(), None);
            assert_eq!(shown(talk.pass(999)), [""; 0]);
            assert_eq!(shown(talk.pass(1)), ["a:1"]);
            let question = shown(talk.connected(link)).concat();
            assert!(question.contains("get-master-addr-by-name"), "{question}");
            let Some(named) = named else {
                talk.pass(100);
                continue;
            };
            let answer = format!("*2\r\n$1\r\n{named}\r\n$1\r\n2\r\n");
            talk.event(link, LinkEvent::Bytes(answer.as_bytes()));
        }
        assert_eq!(talk.outcome(), "Sentinels name another server");
    }
}
