//! Reloads in a row, under traffic; what each of them changes is in `dialogues/reload.txt`.

use std::sync::atomic::{AtomicBool, Ordering};

use throng_testkit::{Setup, Signal, Wire};

use crate::support::{SECRET, token};

const NEW: &str = "another secret, and it is long enough too";
const KEY: &str = "the-key-of-the-server-api";

fn config(auth: &str, more: &str) -> String {
    format!(
        "[auth]\n{auth}\napi_keys = [\"{KEY}\"]\n[channel]\nsubscribe = true\n{more}\n[stream]\n\
         keepalive_interval = \"0s\"\n"
    )
}

#[test]
fn many_reloads_in_a_row_lose_nothing_under_traffic() {
    let text = |round: usize| {
        let secrets = [SECRET, NEW];
        let [secret, previous] = [secrets[round % 2], secrets[(round + 1) % 2]];
        config(
            &format!("hmac_secret = \"{secret}\"\nhmac_previous_secret = \"{previous}\""),
            &format!(
                "history_size = {}\nhistory_ttl = \"1m\"\nrecovery = true\n[limits]\n\
                 message_bytes_max = {}\n[[namespace]]\nname = \"n{round}\"\n",
                100 + round,
                1000 + round
            ),
        )
    };
    let server = Setup::new(&text(0)).shards(2).api_key(KEY).start();
    let open = |user: &str| {
        let token = token(user, 600);
        server.stream(&format!("/stream?channel=news&token={token}"))
    };
    let mut streams: Vec<Wire> = (0..6).map(|_| open("ann")).collect();
    streams.iter_mut().for_each(|stream| _ = stream.chunk());
    let ends = AtomicBool::new(false);
    let published = std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            let mut count = 0;
            while !ends.load(Ordering::Relaxed) {
                server.publish("news", &format!("\"n{count}\""));
                count += 1;
            }
            count
        });
        for round in 1..=40 {
            match round % 4 {
                // By both ways at once.
                0 => {
                    server.configure(&text(round));
                    server.signal(Signal::HUP);
                    let answer = server.ask("POST", "/api/reload", "");
                    assert_eq!(answer.status, 200, "{answer:?}");
                }
                _ => assert_eq!(server.reload(&text(round)).0, 200),
            }
            open("jo");
        }
        ends.store(true, Ordering::Relaxed);
        publisher.join().expect("every publication was taken")
    });
    assert!(published > 0);
    for stream in &mut streams {
        let mut next = 0;
        while next < published {
            // A chunk may hold several lines.
            for line in stream.chunk().lines() {
                assert!(line.contains(&format!("\"n{next}\"")), "{next}: {line}");
                next += 1;
            }
        }
    }
    server.stop();
}
