//! Lives that end at any point, copies that are cut at any point, and backups of a clean end that
//! are put back, in random order.

use throng_types::Rng;

use super::*;

/// A client: where it is, and what it got there.
struct Client {
    channel: usize,
    position: Position,
    data: String,
    /// In which life, and by its count of records.
    written: (usize, usize),
}

const CHANNELS: [&str; 3] = ["kept:a", "kept:b", "kept:c"];

/// Publications that the home keeps of a channel, by offset.
fn kept(home: &mut Home, channel: &str, now: Now) -> Vec<(u64, String)> {
    let page = home.history(&name(channel), HistoryQuery::default(), now);
    let text = |it: &Arc<Publication>| {
        let data = String::from_utf8_lossy(&it.payload.bytes).into_owned();
        (it.position.map_or(0, |position| position.offset), data)
    };
    page.expect("history")
        .publications
        .iter()
        .map(text)
        .collect()
}

#[test]
fn whatever_is_lost_nobody_is_told_that_it_has_everything_if_it_has_not() {
    let mut whole = 0;
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut log = Log::default();
        let mut clients: Vec<Client> = Vec::new();
        // Each publication has its number in it, so no two are alike.
        let (mut count, mut ms) = (0, 0);
        let mut cuts = Vec::new();
        let mut backup = None;
        let (mut home, mut tape) = log.next(at(0));
        for life in 0..6 {
            let mut truth: Vec<Vec<(u64, String)>> = CHANNELS
                .map(|channel| kept(&mut home, channel, at(ms)))
                .into();
            for client in &clients {
                let got = recover(&mut home, CHANNELS[client.channel], client.position, at(ms));
                let offset = client.position.offset;
                let here = &truth[client.channel];
                let after: Vec<String> = { here.iter() }
                    .filter(|(at, _)| *at > offset)
                    .map(|(_, data)| data.clone())
                    .collect();
                let same = here.iter().find(|(at, _)| *at == offset);
                let why = format!("seed {seed}, life {life}: {:?}", client.position);
                match got {
                    Some(got) => {
                        whole += 1;
                        assert_eq!(got, after, "{why}");
                        // Earlier publications must equal those that stand there now.
                        assert!(same.is_none_or(|(_, data)| *data == client.data), "{why}");
                        assert!(client.written.1 <= cuts[client.written.0], "{why}");
                    }
                    None => {
                        let is_written = client.written.1 <= cuts[client.written.0];
                        let has_same = same.is_some_and(|(_, data)| *data == client.data);
                        assert!(!(is_written && has_same), "{why} was known");
                    }
                }
            }
            for _ in 0..rng.below(40) {
                ms += rng.below(30);
                let channel = rng.below(3) as usize;
                match rng.below(12) {
                    0 => drop(home.forget_history(&name(CHANNELS[channel]), at(ms))),
                    1 => drop(home.tick(at(ms), 100)),
                    2 => tape.state().round += 1,
                    3 | 4 => {
                        tape.state().room = rng.below(6) as usize;
                        home.copy(at(ms));
                    }
                    _ => {
                        count += 1;
                        let data = format!("{count}");
                        let position = publish(&mut home, CHANNELS[channel], &data, ms);
                        truth[channel].push((position.offset, data.clone()));
                        let written = (life, tape.state().records.len());
                        clients.push(Client {
                            channel,
                            position,
                            data,
                            written,
                        });
                    }
                }
                home.check();
            }
            // The end of a home writes what a copy has yet to say.
            let is_clean = rng.below(4) == 0;
            if is_clean {
                drop(home);
                tape.state().records.push(LogEntry::closed());
            } else {
                std::mem::forget(home);
            }
            let all = tape.state().records.len();
            let cut = if is_clean {
                all
            } else {
                rng.below(all as u64 + 1) as usize
            };
            cuts.push(if is_clean { usize::MAX } else { cut });
            log.end(&tape, cut);
            if let Some((lives, copy)) = backup.take_if(|_| rng.below(2) == 0) {
                // Nothing is left of the lives since.
                cuts[lives..].fill(0);
                log.0 = copy;
            }
            if is_clean {
                backup = Some((life + 1, log.0.clone()));
            }
            (home, tape) = log.next(at(ms));
        }
    }
    assert!(whole > 1000, "few came back: {whole}");
}

#[test]
fn a_copy_alone_says_everything() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut log = Log::default();
        let (mut home, tape) = log.next(at(0));
        let mut ms = 0;
        for step in 0..60 {
            ms += rng.below(5);
            let channel = CHANNELS[rng.below(3) as usize];
            publish(&mut home, channel, &step.to_string(), ms);
        }
        // The segments before it go.
        tape.state().records.clear();
        tape.state().round = 1;
        let mut steps = 0;
        while tape.state().copied == 0 {
            steps += 1;
            assert!(steps < 10_000, "seed {seed}: the copy has no end");
            tape.state().room = 1 + rng.below(3) as usize;
            home.copy(at(ms));
            ms += rng.below(5);
            let channel = CHANNELS[rng.below(3) as usize];
            match rng.below(6) {
                0 => drop(home.forget_history(&name(channel), at(ms))),
                1 => drop(home.renew_nothing(channel)),
                _ => drop(publish(&mut home, channel, &ms.to_string(), ms)),
            }
        }
        let before = CHANNELS.map(|channel| kept(&mut home, channel, at(ms)));
        let count = tape.state().records.len();
        log.end(&tape, count);
        let (mut other, _) = log.next(at(ms));
        let after = CHANNELS.map(|channel| kept(&mut other, channel, at(ms)));
        assert_eq!(before, after, "seed {seed}");
        for channel in CHANNELS {
            let stands = |home: &mut Home| home.subscribe(SHARD, &name(channel), None, at(ms));
            let (before, after) = (stands(&mut home).position, stands(&mut other).position);
            assert_eq!(place(before), place(after), "seed {seed}");
        }
        assert_eq!(home.forgotten, other.forgotten, "seed {seed}");
    }
}

impl Home {
    /// Forgets a stream as if its time had come.
    fn renew_nothing(&mut self, channel: &str) -> Option<()> {
        let key = self.streams.key(&name(channel))?;
        while self.drop_oldest(key) {}
        let due = self.streams.at(key)?.1.due;
        self.idle.remove(&(due, key));
        self.forget(key);
        Some(())
    }
}
