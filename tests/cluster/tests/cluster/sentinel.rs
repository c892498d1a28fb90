//! Redis with a replica and three Sentinels: the primary goes away, and the replica takes over.

use serde_json::json;
use throng_testkit::{Proxy, RedisServer, Server, until};

use crate::nodes::{Publisher, after_losing_three, event_source, node_of, subscriber, up};

/// Command that reads the newest offset of `kept:a`.
const NEWEST: &str = "HGET throng:{kept:a}:meta s";

struct Redis {
    primary: RedisServer,
    replica: RedisServer,
    sentinels: [RedisServer; 3],
}

impl Redis {
    #[track_caller]
    fn start() -> Self {
        let primary = RedisServer::start();
        let port = primary.address().port().to_string();
        let keeps = ["--save", "", "--appendonly", "no"];
        let follows = [
            "--replicaof",
            "127.0.0.1",
            &port,
            "--repl-diskless-sync-delay",
            "0",
        ];
        let replica = RedisServer::with(&[&keeps[..], &follows].concat());
        let lines = format!(
            "sentinel monitor main 127.0.0.1 {port} 2\nsentinel down-after-milliseconds main 1000\n\
             sentinel failover-timeout main 6000\n"
        );
        let sentinels = [(); 3].map(|()| RedisServer::sentinel(&lines));
        let redis = Self {
            primary,
            replica,
            sentinels,
        };
        for sentinel in &redis.sentinels {
            until("Sentinels that know each other and the replica", || {
                let known = sentinel.ask("SENTINEL MASTER main");
                let has = |field: &str, count: &str| {
                    let mut lines = known.lines().skip_while(|line| *line != field);
                    lines.nth(1) == Some(count)
                };
                has("num-slaves", "1") && has("num-other-sentinels", "2")
            });
        }
        redis
    }

    fn broker(&self) -> String {
        let sentinels = self.sentinels.each_ref().map(|it| it.address().to_string());
        let hosts = sentinels.join(",");
        format!("kind = \"redis\"\nurl = \"redis+sentinel://{hosts}/main\"")
    }

    #[track_caller]
    fn node(&self) -> Server {
        let node = node_of(&self.broker());
        up(&node, true);
        node
    }

    /// Waits until the replica has all that the primary has.
    #[track_caller]
    fn is_in_step(&self, newest: u64) {
        until("a replica in step", || {
            let found = self.replica.try_ask(NEWEST);
            found.is_ok_and(|found| found == newest.to_string())
        });
    }

    /// From now on the replica receives nothing more.
    #[track_caller]
    fn cut(&self) {
        self.replica.ask("REPLICAOF 127.0.0.1 1");
    }
}

#[track_caller]
fn is_primary(redis: &RedisServer) {
    until("a server that is promoted", || {
        let role = redis.try_ask("ROLE");
        role.is_ok_and(|role| role.starts_with("master"))
    });
}

/// Publications on the replica are there for clients that come back, and no client loses any.
#[test]
fn the_primary_is_killed_and_its_replica_has_everything() {
    let mut redis = Redis::start();
    let nodes = [(); 2].map(|()| redis.node());
    let client = subscriber(nodes[0].clients(), "kept:a");
    let source = event_source(nodes[1].clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 20);
    redis.is_in_step(20);
    redis.primary.go_away();
    publisher.publish(&nodes.each_ref(), 20);
    publisher.heard_by(&client, 0);
    publisher.heard_by(&source, 0);
    let back = client.event("subscribed", &json!({ "was_recovering": true }));
    assert_eq!(back["recovered"], true, "{back}");
    assert_eq!(client.left("connecting"), 0, "it stayed connected");
    is_primary(&redis.replica);
    nodes.iter().for_each(|node| up(node, true));
}

/// An offset is not used twice: clients that have seen what the replica lacks are told, and the
/// others are whole.
#[test]
fn the_primary_is_killed_and_its_replica_lacks_the_newest() {
    let mut redis = Redis::start();
    let nodes = [(); 2].map(|()| redis.node());
    let proxy = Proxy::new(nodes[0].clients());
    let behind = subscriber(proxy.address(), "kept:a");
    let ahead = subscriber(nodes[1].clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 5);
    publisher.heard_by(&behind, 0);
    proxy.cut();
    behind.event("connecting", &json!({}));
    publisher.publish(&nodes.each_ref(), 2);
    redis.is_in_step(7);
    redis.cut();
    publisher.publish(&nodes.each_ref(), 3);
    publisher.heard_by(&ahead, 0);
    redis.primary.go_away();
    after_losing_three(&mut publisher, &nodes.each_ref(), &proxy, [&ahead, &behind]);
}

/// The process that was the primary before is it again, without what it had alone: it is the same
/// process, but another line of its data.
#[test]
fn a_primary_that_comes_back_without_its_newest_has_another_epoch() {
    let redis = Redis::start();
    let nodes = [(); 2].map(|()| redis.node());
    let proxy = Proxy::new(nodes[0].clients());
    let ahead = subscriber(proxy.address(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 7);
    redis.is_in_step(7);
    redis.cut();
    publisher.publish(&nodes.each_ref(), 3);
    publisher.heard_by(&ahead, 0);
    proxy.cut();
    ahead.event("connecting", &json!({}));
    // No client looks at the channel while the replica is the primary.
    drop(nodes);
    redis.primary.pause();
    is_primary(&redis.replica);
    redis.primary.resume();
    until("a primary that follows", || {
        let newest = redis.primary.try_ask(NEWEST).ok()?;
        (newest == "7").then_some(())
    });
    until("a failover", || {
        // Refused while Sentinels do not agree yet on their members.
        let sentinel = &redis.sentinels[0];
        sentinel.try_ask("SENTINEL FAILOVER main").is_ok()
    });
    is_primary(&redis.primary);
    let node = redis.node();
    publisher.publish(&[&node], 3);
    proxy.lead_to(node.clients());
    proxy.mend();
    let back = ahead.event("subscribed", &json!({ "was_recovering": true }));
    assert_eq!(back["recovered"], false, "{back}");
    publisher.publish(&[&node], 2);
    publisher.heard_by(&ahead, 13);
}
