//! The way to an API that answers when the test lets it, and a feed that goes on meanwhile.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{OnceLock, Weak};
use std::thread;
use std::time::Duration;

use throng_gateway_appwrite::{Credential, LookupPart, LookupPriority, LookupReply};
use throng_metrics::Counters;
use throng_types::{ConnId, ShardId};

use super::*;
use crate::Inlet;

/// Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What Appwrite answers to an invalid credential.
const NOBODY: &str = r#"{"message":"no","code":401,"type":"general_unauthorized_scope"}"#;

/// Keeps what comes.
struct Kept {
    sender: Mutex<Sender<News>>,
    feed: OnceLock<Weak<Feed>>,
    api: OnceLock<Weak<AppwriteApi>>,
    /// Answers that came while an event could have come, or while nobody could ask.
    wrong: Arc<Mutex<usize>>,
}

impl Inlet for Kept {
    fn send(&self, news: News, _: &dyn Fn()) -> bool {
        let feed = self.feed.get().and_then(Weak::upgrade);
        let api = self.api.get().and_then(Weak::upgrade);
        let is_wrong = feed.is_some_and(|feed| feed.is_free())
            || api.is_some_and(|api| api.shared.directory.try_lock().is_err());
        if matches!(news, News::Found { .. }) && is_wrong {
            *self.wrong.lock().unwrap() += 1;
        }
        self.sender.lock().unwrap().send(news).is_ok()
    }
}

/// One request for an account, to be answered with a status and a body.
struct Asked(TcpStream);

impl Asked {
    fn answer(mut self, status: u16, body: &str) {
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        self.0.write_all(answer.as_bytes()).unwrap();
    }

    fn answer_ann(self) {
        self.answer(200, r#"{"$id":"ann"}"#);
    }
}

struct Fixture {
    api: Arc<AppwriteApi>,
    feed: Arc<Feed>,
    news: Receiver<News>,
    asked: Receiver<Asked>,
    counters: Arc<Counters>,
    wrong: Arc<Mutex<usize>>,
}

impl Fixture {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (sender, asked) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &sender);
            }
        });
        let (sender, news) = channel();
        let wrong = Arc::default();
        let kept = Arc::new(Kept {
            sender: Mutex::new(sender),
            feed: OnceLock::new(),
            api: OnceLock::new(),
            wrong: Arc::clone(&wrong),
        });
        let inlet: Arc<dyn Inlet> = kept.clone();
        let counters = Arc::new(Counters::new());
        let meter = Meter::new(counters.clone());
        let feed = Feed::new(vec![inlet], 1, meter.clone());
        kept.feed.set(Arc::downgrade(&feed)).unwrap();
        assert!(matches!(news.recv_timeout(PATIENCE), Ok(News::Began(_))));
        let address = Address::from_url(&url, 60_000).unwrap();
        let options = DirectoryOptions::default();
        let api = AppwriteApi::start(&address, 60_000, options, &feed, meter).unwrap();
        kept.api.set(Arc::downgrade(&api)).unwrap();
        Self {
            api,
            feed,
            news,
            asked,
            counters,
            wrong,
        }
    }

    #[track_caller]
    fn ask(&self, token: u32, session: &str) {
        let lookup = Lookup {
            conn: ConnId::new(ShardId(0), token, 1),
            token,
            project: "p".into(),
            credential: Credential::Session(session.into()),
            part: LookupPart::Everything,
            haste: LookupPriority::Open,
        };
        self.api.look_up(lookup).unwrap();
    }

    /// The next question that Appwrite is asked.
    #[track_caller]
    fn asked(&self) -> Asked {
        self.asked.recv_timeout(PATIENCE).expect("a question")
    }

    fn news(&self) -> Result<News, RecvTimeoutError> {
        self.news.recv_timeout(PATIENCE)
    }

    /// The user of the next answer, empty if it is nobody, and whom it is for.
    fn found(&self) -> (u32, String) {
        match self.news() {
            Ok(News::Found { token, found, .. }) => match found {
                LookupReply::User(user) => (token, user.user_id.clone()),
                LookupReply::Nobody => (token, String::new()),
                other @ (LookupReply::Changed(_) | LookupReply::Expired(_)) => panic!("{other:?}"),
                LookupReply::Failed => (token, "failed".to_owned()),
            },
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.feed.end();
    }
}

/// Requests for accounts are the test's; nobody is in a team.
fn serve(stream: TcpStream, accounts: &Sender<Asked>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let request = lines.next().unwrap().unwrap();
    while lines
        .next()
        .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
    {}
    let asked = Asked(stream);
    if request.starts_with("GET /v1/account ") {
        // The test may have seen enough.
        let _ = accounts.send(asked);
    } else {
        asked.answer(200, r#"{"total":0,"teams":[]}"#);
    }
}

#[test]
fn an_answer_from_before_a_change_is_asked_for_again() {
    let fixture = Fixture::new();
    fixture.ask(1, "a");
    let asked = fixture.asked();
    // The feed tells of the change while the answer is on its way.
    let change = concat!(
        r#"{"project":"p","roles":["user:ann"],"permissionsChanged":true,"userId":"ann","#,
        r#""data":{"events":["e"],"channels":["c"],"payload":{}}}"#,
    );
    let change = throng_appwrite::FeedMessage::parse(change.as_bytes(), 1 << 20).unwrap();
    fixture.feed.publish(change);
    assert!(matches!(fixture.news(), Ok(News::Event { .. })));
    asked.answer_ann();
    fixture.asked().answer(401, NOBODY);
    assert_eq!(fixture.found(), (1, String::new()));
    let count = |counter| fixture.counters.counter(counter);
    assert_eq!(count(Counter::AppwriteLookupsUser), 1);
    assert_eq!(count(Counter::AppwriteLookupsNobody), 1);
}

#[test]
fn an_answer_from_before_a_gap_is_asked_for_again() {
    let fixture = Fixture::new();
    fixture.ask(1, "a");
    let asked = fixture.asked();
    fixture.feed.begin_anew();
    assert!(matches!(fixture.news(), Ok(News::Began(_))));
    asked.answer_ann();
    fixture.asked().answer(401, NOBODY);
    assert_eq!(fixture.found(), (1, String::new()));
    // And so is one that was remembered.
    fixture.ask(2, "b");
    fixture.asked().answer_ann();
    assert_eq!(fixture.found(), (2, "ann".to_owned()));
    fixture.feed.begin_anew();
    assert!(matches!(fixture.news(), Ok(News::Began(_))));
    fixture.ask(3, "b");
    fixture.asked().answer(401, NOBODY);
    assert_eq!(fixture.found(), (3, String::new()));
}

/// An event between the check of an answer and its telling would find the connection neither in its
/// shard's hub nor its answer too old. A shard that asks meanwhile must not wait for the telling,
/// which may wait for this shard.
#[test]
fn answers_are_told_between_two_events() {
    let fixture = Fixture::new();
    for (token, known) in [(1, false), (2, true)] {
        fixture.ask(token, "a");
        if !known {
            fixture.asked().answer_ann();
        }
        assert_eq!(fixture.found(), (token, "ann".to_owned()));
    }
    assert_eq!(*fixture.wrong.lock().unwrap(), 0);
}
