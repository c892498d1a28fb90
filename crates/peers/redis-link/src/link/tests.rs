//! Connections to a Redis that is played.

use std::fmt::Debug;

use throng_peer::{Dial, LinkEvent, Want};
use throng_play::Talk;

use super::*;
use crate::RedisSource;

/// A task whose wishes are shown as text.
struct Host(Talk);

impl Host {
    fn of<T: Debug, F: Future<Output = T> + 'static>(
        task: impl FnOnce(Net) -> F,
    ) -> (Self, Vec<String>) {
        let (talk, wants) = Talk::start(|net| {
            let future = task(net);
            async { format!("{:?}", future.await) }
        });
        (Self(talk), shown(wants))
    }

    fn up(&mut self, link: u64) -> Vec<String> {
        shown(self.0.connected(link))
    }

    fn says(&mut self, link: u64, text: &str) -> Vec<String> {
        shown(self.0.event(link, LinkEvent::Bytes(text.as_bytes())))
    }

    fn pass(&mut self, ms: u64) -> Vec<String> {
        shown(self.0.pass(ms))
    }
}

fn shown(wants: Vec<Want>) -> Vec<String> {
    let shown = wants.into_iter().map(|want| match want {
        Want::Dial(
            link,
            Dial {
                host, port, tls, ..
            },
        ) => {
            let tls = if tls.is_some() { " by TLS" } else { "" };
            format!("{} is {host}:{port}{tls}", link.0)
        }
        Want::Write(link, bytes) => {
            let text = String::from_utf8(bytes).expect("text");
            let words = text.split("\r\n").skip(2).step_by(2);
            format!("{}: {}", link.0, words.collect::<Vec<_>>().join(" "))
        }
        Want::End(link) => format!("{} ends", link.0),
        other => format!("{other:?}"),
    });
    shown.collect()
}

fn connected(url: &'static str) -> (Host, Vec<String>) {
    Host::of(|net| async move {
        let source = RedisSource::new(url).expect("a URL");
        let place = source.find(&net, 9, None).await?;
        let mut link = RedisLink::connect(&net, &place, 9, None, 1 << 20).await?;
        link.ask(&[b"PING"]).await
    })
}

#[test]
fn a_connection_logs_in() {
    let (mut host, wants) = connected("rediss://ann:p%40ss@[::1]:7/3");
    assert_eq!(wants, ["1 is ::1:7 by TLS"]);
    assert_eq!(host.up(1), ["1: AUTH ann p@ss"]);
    assert_eq!(host.says(1, "+O"), [""; 0]);
    assert_eq!(host.says(1, "K\r\n"), ["1: SELECT 3"]);
    assert_eq!(host.says(1, "+OK\r\n"), ["1: PING"]);
    assert_eq!(host.says(1, "+PONG\r\n"), ["1 ends"]);
    assert_eq!(host.0.outcome(), "Ok(simple-string(\"PONG\"))");
}

#[test]
fn a_password_that_is_refused_is_told_from_other_faults() {
    let (mut host, wants) = connected("unix:///run/redis.sock?pass=x");
    assert_eq!(wants, ["1 is /run/redis.sock:0"]);
    assert_eq!(host.up(1), ["1: AUTH x"]);
    assert_eq!(host.says(1, "-WRONGPASS no\r\n"), ["1 ends"]);
    let said = host.0.outcome();
    assert!(said.contains("does not take the password"), "{said}");
}

#[test]
fn sentinels_are_asked_in_turn_without_credentials() {
    let (mut host, wants) = connected("redis+sentinel://:secret@a:1,b,c:3/main");
    assert_eq!(wants, ["1 is a:1"]);
    let refused = Ended::Unreachable("no".to_owned());
    let wants = host.0.event(1, LinkEvent::Ended(refused));
    assert_eq!(shown(wants), ["2 is b:26379"]);
    assert_eq!(host.up(2), ["2: SENTINEL get-master-addr-by-name main"]);
    assert_eq!(
        host.pass(9),
        ["2 ends", "3 is c:3"],
        "it says nothing in time"
    );
    host.up(3);
    let master = "*2\r\n$3\r\n::2\r\n$4\r\n6380\r\n";
    assert_eq!(host.says(3, master), ["3 ends", "4 is ::2:6380"]);
    assert_eq!(host.up(4), ["4: AUTH secret"]);
}

#[test]
fn the_next_may_be_late_but_not_stop() {
    let (mut host, _) = Host::of(|net| async move {
        let place = Place::new("redis://a:1").expect("a URL");
        let mut link = RedisLink::connect(&net, &place, 9, None, 1 << 20).await?;
        let none = link.next_within(20).await?;
        let some = link.next_within(20).await?;
        Ok::<_, RedisError>((none, some, link.next_within(20).await.is_err()))
    });
    host.up(1);
    host.pass(20);
    host.pass(19);
    host.says(1, ":1");
    host.pass(8);
    host.says(1, "\r\n:");
    host.pass(9);
    assert_eq!(host.0.outcome(), "Ok((None, Some(int(1)), true))");
}
