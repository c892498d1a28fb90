//! Brokers over a folder: processes that end well or badly, one after the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use throng_broker::{
    Acknowledge, Broker as _, Budget, ChannelOptions, Draft, MemoryBroker, MemoryOptions,
    NamespaceOptions, Receiver, Recovery, Refusal, Reply, ReplyLimit, Request, Retention, Ticket,
    home_of,
};
use throng_history::{Journal, OpenError, Options, await_takeover, open};
use throng_metrics::{Counter, Counters};
use throng_types::json::payload_of;
use throng_types::{ChannelName, Millis, Now, Position, ShardId};

const SHARDS: u8 = 2;

fn now() -> Now {
    Now {
        mono: Millis(10),
        unix_ms: 1_700_000_000_000,
    }
}

fn namespaces() -> Arc<NamespaceOptions> {
    let kept = ChannelOptions {
        retention: Retention {
            publications_max: 100,
            ttl_ms: 60_000,
        },
        recovery: true,
        ..ChannelOptions::default()
    };
    Arc::new(NamespaceOptions::new(kept, Vec::new()))
}

/// A hub that remembers the last reply.
#[derive(Default)]
struct Hub(Option<Reply>);

impl Receiver for Hub {
    fn has_room(&self, _: &ChannelName, _: usize) -> bool {
        true
    }

    fn reply(&mut self, reply: Reply) {
        self.0 = Some(reply);
    }
}

/// A process with its shards.
struct Process {
    parts: Vec<MemoryBroker>,
    journal: Journal,
}

fn options(path: &Path, nonce: u32) -> Options {
    Options {
        path: path.to_owned(),
        sync_ms: 0,
        refuses: false,
        shards: SHARDS,
        nonce,
        hash_seed: 1,
        unix_ms: now().unix_ms,
        namespaces: namespaces(),
        counters: Arc::new(Counters::new()),
    }
}

impl Process {
    fn start(path: &Path, nonce: u32) -> Self {
        Self::of(options(path, nonce), false).expect("a store")
    }

    fn of(options: Options, waits: bool) -> Result<Self, OpenError> {
        let nonce = options.nonce;
        let namespaces = options.namespaces.clone();
        let mut opened = if waits {
            await_takeover(options)
        } else {
            open(options)?
        };
        let restored = std::mem::take(&mut opened.restored);
        let rings = (0..SHARDS).map(|_| Box::new(|| ()) as _).collect();
        let (stores, journal) = opened.start(rings)?;
        let memory = MemoryOptions {
            nonce,
            hash_seed: 1,
            history: Budget::new(1 << 24, SHARDS),
            streams_max: 1000,
            reply: ReplyLimit {
                publications_max: 1000,
                members_max: 100,
                bytes_max: 1 << 20,
            },
            namespaces,
        };
        let parts = stores.into_iter().zip(restored).zip(0..);
        let parts = parts.map(|((store, restored), shard)| {
            let part = MemoryBroker::new(ShardId(shard), SHARDS, memory.clone());
            part.with_store(store, restored, now())
        });
        Ok(Self {
            parts: parts.collect(),
            journal,
        })
    }

    fn home(&mut self, channel: &str) -> (&mut MemoryBroker, ChannelName) {
        let name = ChannelName::new(channel).expect("a name");
        (&mut self.parts[home_of(&name, SHARDS).index()], name)
    }

    fn publish(&mut self, channel: &str, data: &str) -> Position {
        let (part, channel) = self.home(channel);
        let draft = draft(channel, data, Acknowledge::Memory);
        let published = part.publish_here(draft, now(), &mut Hub::default());
        published.expect("room").position.expect("history")
    }

    fn recover(&mut self, channel: &str, since: Position) -> Option<Vec<String>> {
        let (part, channel) = self.home(channel);
        let mut hub = Hub::default();
        let request = Request::Subscribe {
            ticket: Ticket(1),
            channel: channel.clone(),
            since: Some(since),
            presence: None,
        };
        part.request(request, now(), &mut hub);
        part.request(Request::Leave { channel }, now(), &mut Hub::default());
        let Some(Reply::Subscribed { result, .. }) = hub.0 else {
            panic!("no reply");
        };
        match result.expect("accepted").recovery {
            Recovery::Whole(all) => Some(
                all.iter()
                    .map(|it| String::from_utf8_lossy(&it.payload.bytes).into_owned())
                    .collect(),
            ),
            _ => None,
        }
    }

    /// Puts a file where the folder was, so that the disk refuses everything.
    fn lose_folder(&self, path: &Path) {
        self.journal.let_go();
        fs::rename(path, path.with_extension("away")).expect("the same disk");
        fs::write(path, "").expect("a file");
        self.journal.begin();
    }

    /// Puts the folder back, and waits until a copy has mended it.
    fn find_folder(&mut self, path: &Path) {
        self.journal.let_go();
        fs::remove_file(path).expect("the file");
        fs::rename(path.with_extension("away"), path).expect("the same disk");
        self.journal.begin();
        while self.journal.is_failing() {
            self.write_down();
            std::thread::yield_now();
        }
    }

    fn write_down(&mut self) {
        for part in &mut self.parts {
            while part.write_down(now()) {}
        }
    }

    /// Stops in the regular way.
    fn stop(self) {
        drop(self.parts);
        self.journal.close(true);
    }

    /// Dies once everything has left the shards.
    fn die(self) {
        self.journal.let_go();
        std::mem::forget(self.parts);
    }
}

fn segments(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|it| it == "history"))
        .collect();
    all.sort();
    all
}

/// A log of three publications, their positions, and the file's name and bytes.
fn log_of_three(end: fn(Process)) -> (Vec<Position>, String, Vec<u8>) {
    let folder = folder();
    let mut process = Process::start(folder.path(), 7);
    let seen = ["1", "2", "3"].map(|data| process.publish("a", data));
    end(process);
    let segment = segments(folder.path()).pop().expect("a segment");
    let name = segment.file_name().expect("a name").to_string_lossy();
    let bytes = fs::read(&segment).expect("a segment");
    (seen.into(), name.into_owned(), bytes)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_process_goes_on_where_another_died_or_ended() {
    let folder = folder();
    let path = folder.path().join("made/by it");
    let mut first = Process::start(&path, 7);
    let seen = first.publish("a", "1");
    first.publish("a", "2");
    first.stop();
    let mut second = Process::start(&path, 8);
    assert_eq!(second.recover("a", seen).expect("whole"), ["2"]);
    assert_ne!(second.publish("a", "3").epoch, seen.epoch, "it ended well");
    second.die();
    let mut third = Process::start(&path, 9);
    assert_ne!(third.publish("a", "4").epoch, seen.epoch, "it died");
    assert_eq!(third.recover("a", seen).expect("whole"), ["2", "3", "4"]);
    third.stop();
}

/// A copy of the folder, made after a clean end, comes back after more was published.
#[test]
fn a_restored_copy_counts_up_to_its_own_end() {
    let (live, backup) = (folder(), folder());
    let mut first = Process::start(live.path(), 7);
    let early = first.publish("a", "1");
    let last = first.publish("a", "2");
    first.stop();
    for segment in segments(live.path()) {
        let name = segment.file_name().expect("a name");
        fs::copy(&segment, backup.path().join(name)).expect("a copy");
    }
    let mut second = Process::start(live.path(), 8);
    assert_eq!(second.recover("a", last).expect("whole").len(), 0);
    let since = ["3", "4"].map(|data| second.publish("a", data));
    second.stop();
    let mut restored = Process::start(backup.path(), 9);
    let others = ["other 3", "other 4", "other 5"];
    for data in others {
        restored.publish("a", data);
    }
    for beyond in since {
        assert_eq!(restored.recover("a", beyond), None, "of what is gone");
    }
    assert_eq!(restored.recover("a", last).expect("whole"), others);
    let all = ["2", "other 3", "other 4", "other 5"];
    assert_eq!(restored.recover("a", early).expect("whole"), all);
    restored.stop();
}

#[test]
fn a_log_that_is_torn_anywhere_says_what_is_whole() {
    let (seen, name, whole) = log_of_three(Process::die);
    let mut got = Vec::new();
    for cut in 0..=whole.len() {
        let other = folder();
        fs::write(other.path().join(&name), &whole[..cut]).expect("a copy");
        let mut second = Process::start(other.path(), 8);
        // Nobody is told anything about what is not there.
        let tops: Vec<bool> = seen
            .iter()
            .map(|at| second.recover("a", *at).is_some())
            .collect();
        let count = tops.iter().filter(|is_known| **is_known).count();
        assert_eq!(tops, [count > 0, count > 1, count > 2], "{cut}");
        assert_eq!(
            second.publish("a", "next").offset,
            count as u64 + 1,
            "{cut}"
        );
        got.push(count);
        // And the next one finds no damage.
        second.stop();
        let mut third = Process::start(other.path(), 9);
        assert_eq!(third.publish("a", "more").offset, count as u64 + 2, "{cut}");
        third.stop();
    }
    assert!(got.is_sorted() && got.last() == Some(&3), "{got:?}");
}

#[test]
fn a_damaged_byte_anywhere_makes_nobody_believe_something_wrong() {
    let (seen, name, whole) = log_of_three(Process::stop);
    for place in 0..whole.len() {
        let other = folder();
        let mut bytes = whole.clone();
        bytes[place] ^= 0x10;
        fs::write(other.path().join(&name), bytes).expect("a copy");
        let mut second = Process::start(other.path(), 8);
        let next = second.publish("a", "next");
        // It may not be one of those that clients have.
        assert!(next.offset > 3 || next.epoch != seen[0].epoch, "{place}");
        for (n, at) in seen.iter().enumerate() {
            if let Some(all) = second.recover("a", *at) {
                let missed = all.len() as u64;
                assert_eq!(missed, next.offset - at.offset, "{place}: {n}");
            }
        }
        second.stop();
    }
}

#[test]
fn a_process_hands_over_and_takes_back() {
    let folder = folder();
    let mut old = Process::start(folder.path(), 7);
    let seen = old.publish("a", "1");
    // The new one is ready, and something goes wrong.
    old.journal.let_go();
    old.journal.begin();
    old.publish("a", "2");
    // This time it goes well.
    let mut new = Process::of(options(folder.path(), 8), true).expect("a store");
    old.journal.let_go();
    let mut pieces = Vec::new();
    for part in &mut old.parts {
        let mut items = Vec::new();
        let mut keep = |piece: &[u8]| items.extend_from_slice(piece);
        let mut parts = throng_types::Parts::new(&mut keep);
        assert!(part.give_up(&mut parts));
        parts.end();
        pieces.push(items);
    }
    for (part, items) in new.parts.iter_mut().zip(&pieces) {
        let mut from = throng_types::Saved::new(items);
        while !from.is_empty() {
            let kind = throng_types::Load::load(&mut from).expect("a kind");
            part.load(kind, &mut from).expect("an item");
        }
    }
    new.journal.begin();
    old.journal.give_up();
    // What the old one still publishes to those who stay is not written.
    old.publish("a", "elsewhere");
    assert_eq!(new.publish("a", "3").epoch, seen.epoch);
    new.die();
    drop(old);
    let mut third = Process::start(folder.path(), 9);
    assert_eq!(third.recover("a", seen).expect("whole"), ["2", "3"]);
    third.stop();
}

#[test]
fn another_store_counts_no_more() {
    let folder = folder();
    let mut other = Process::start(folder.path(), 7);
    other.publish("a", "of another server");
    other.stop();
    // A process whose predecessor kept its history elsewhere.
    let mut new = Process::of(options(folder.path(), 50), true).expect("a store");
    new.journal.begin();
    let first = new.publish("b", "1");
    new.die();
    let mut next = Process::start(folder.path(), 9);
    assert_eq!(next.recover("b", first).expect("whole").len(), 0);
    assert_eq!(next.publish("a", "first").offset, 1);
    next.stop();
}

/// A text without anything beside it.
fn draft(channel: ChannelName, data: &str, acknowledge: Acknowledge) -> Draft {
    Draft {
        acknowledge,
        ..Draft::new(channel, payload_of(data.as_bytes()))
    }
}

/// Publishes to a channel, and gives the answer when it comes.
fn acknowledged(process: &mut Process, level: Acknowledge, data: &str) -> Result<u64, Refusal> {
    let (part, channel) = process.home("a");
    let draft = draft(channel, data, level);
    let mut hub = Hub::default();
    let ticket = Ticket(3);
    part.request(Request::Publish { ticket, draft }, now(), &mut hub);
    let ends_at = Instant::now() + Duration::from_secs(60);
    while hub.0.is_none() {
        assert!(Instant::now() < ends_at, "no answer");
        part.poll(&mut hub);
        std::thread::yield_now();
    }
    let Some(Reply::Published { result, .. }) = hub.0 else {
        panic!("another reply");
    };
    result.map(|it| it.position.expect("history").offset)
}

#[test]
fn what_is_acknowledged_is_written_and_synced_then() {
    let folder = folder();
    let counters = Arc::new(Counters::new());
    let slow = Options {
        sync_ms: 3_600_000,
        counters: counters.clone(),
        ..options(folder.path(), 7)
    };
    let mut process = Process::of(slow, false).expect("a store");
    let syncs = || counters.counter(Counter::HistoryStoreSyncs);
    for n in 1..=20 {
        let data = format!("only written {n}");
        let offset = acknowledged(&mut process, Acknowledge::Written, &data);
        assert_eq!(offset, Ok(n));
        let all = segments(folder.path()).into_iter();
        let all: Vec<u8> = all
            .flat_map(|it| fs::read(it).expect("a segment"))
            .collect();
        let parts = all.windows(data.len());
        assert!(parts.into_iter().any(|part| part == data.as_bytes()), "{n}");
    }
    assert_eq!(syncs(), 0);
    for n in 21..=25 {
        let before = syncs();
        let offset = acknowledged(&mut process, Acknowledge::Synced, "x");
        assert_eq!(offset, Ok(n));
        assert!(syncs() > before);
    }
    process.die();
}

#[test]
fn what_the_disk_refuses_is_acknowledged_or_not() {
    for refuses in [false, true] {
        let folder = folder();
        let path = folder.path().join("history");
        let options = Options {
            refuses,
            ..options(&path, 7)
        };
        let mut process = Process::of(options, false).expect("a store");
        for level in [Acknowledge::Written, Acknowledge::Synced] {
            process.lose_folder(&path);
            let answer = acknowledged(&mut process, level, "1");
            match refuses {
                false => assert!(answer.is_ok(), "{answer:?}"),
                true => assert_eq!(answer, Err(Refusal::NotWritten)),
            }
            process.find_folder(&path);
            assert!(acknowledged(&mut process, level, "2").is_ok());
        }
        process.stop();
    }
}

#[test]
fn two_processes_have_two_folders_and_versions_are_told_apart() {
    let folder = folder();
    let first = Process::start(folder.path(), 7);
    let second = Process::of(options(folder.path(), 8), false);
    assert!(matches!(second, Err(OpenError::InUse(_))));
    first.stop();
    let record = [b"throngHS".as_slice(), &99_u32.to_le_bytes()].concat();
    let mut bytes = Vec::new();
    throng_broker::write_frame(&record, &mut bytes);
    fs::write(folder.path().join("00000000000000ff.history"), bytes).expect("a segment");
    let second = Process::of(options(folder.path(), 8), false);
    let Err(OpenError::Version { version: 99, .. }) = second else {
        panic!("it was read");
    };
}

#[test]
fn old_segments_go_once_everything_was_copied() {
    let folder = folder();
    let mut process = Process::start(folder.path(), 7);
    let data = "x".repeat(256 << 10);
    let mut last = None;
    // Two megabytes are alive at any time; some ninety are written.
    for n in 0..360 {
        last = Some(process.publish(&format!("c{}", n % 8), &data));
        let (part, name) = process.home(&format!("c{}", n % 8));
        if n % 8 == 7 {
            for channel in 0..8 {
                let (part, name) = process.home(&format!("c{channel}"));
                let forget = Request::Forget {
                    ticket: Ticket(2),
                    channel: name,
                };
                part.request(forget, now(), &mut Hub::default());
            }
        } else {
            assert!(part.interest(&name) == 0);
        }
        if n % 40 == 0 {
            // The writer keeps up.
            process.journal.let_go();
            process.journal.begin();
        }
        process.write_down();
    }
    let last = last.expect("a publication");
    process.stop();
    let bytes: u64 = segments(folder.path())
        .iter()
        .map(|path| fs::metadata(path).expect("a segment").len())
        .sum();
    assert!(bytes < 40 << 20, "{bytes}");
    let mut next = Process::start(folder.path(), 8);
    assert_eq!(next.publish("c7", "next").offset, last.offset + 1);
    next.stop();
}

#[test]
fn a_folder_that_goes_away_stops_nobody_and_is_mended() {
    let folder = folder();
    let path = folder.path().join("history");
    let mut process = Process::start(&path, 7);
    process.publish("a", "1");
    process.lose_folder(&path);
    assert!(process.journal.is_failing());
    let seen = process.publish("a", "2");
    assert_eq!(seen.offset, 2, "it goes on");
    process.find_folder(&path);
    process.publish("a", "3");
    process.die();
    let mut next = Process::start(&path, 8);
    assert_eq!(next.recover("a", seen).expect("whole"), ["3"]);
    next.stop();
}
