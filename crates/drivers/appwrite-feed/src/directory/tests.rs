//! A directory before an API that answers when the test lets it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use throng_gateway_appwrite::{Credential, Found, Haste, Lookup, News, Part};
use throng_metrics::Counters;
use throng_types::ShardId;

use super::*;
use crate::Inlet;

/// Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What Appwrite answers to an invalid credential.
const NOBODY: &str = r#"{"message":"no","code":401,"type":"general_unauthorized_scope"}"#;

/// Keeps what comes.
struct Kept {
    sender: Mutex<Sender<News>>,
    feed: std::sync::OnceLock<std::sync::Weak<Feed>>,
    /// Answers that came while an event could have come.
    unlocked: Arc<Mutex<usize>>,
}

impl Inlet for Kept {
    fn send(&self, news: News, _: &dyn Fn()) -> bool {
        let feed = self.feed.get().and_then(std::sync::Weak::upgrade);
        if matches!(news, News::Found { .. }) && feed.is_some_and(|feed| feed.is_free()) {
            *self.unlocked.lock().unwrap() += 1;
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
    directory: Arc<Directory>,
    feed: Arc<Feed>,
    news: Receiver<News>,
    asked: Receiver<Asked>,
    counters: Arc<Counters>,
    unlocked: Arc<Mutex<usize>>,
}

impl Fixture {
    fn new(options: DirectoryOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (sender, asked) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &sender);
            }
        });
        let (sender, news) = channel();
        let unlocked = Arc::default();
        let kept = Arc::new(Kept {
            sender: Mutex::new(sender),
            feed: std::sync::OnceLock::new(),
            unlocked: Arc::clone(&unlocked),
        });
        let inlet: Arc<dyn Inlet> = kept.clone();
        let counters = Arc::new(Counters::new());
        let meter = Meter::new(counters.clone());
        let feed = Feed::new(vec![inlet], 1, meter.clone());
        kept.feed.set(Arc::downgrade(&feed)).unwrap();
        assert!(matches!(news.recv_timeout(PATIENCE), Ok(News::Began(_))));
        let api = AccountApi::new(&url, Duration::from_secs(60)).unwrap();
        let directory = Directory::start(api, options, feed.clone(), meter).unwrap();
        Self {
            directory,
            feed,
            news,
            asked,
            counters,
            unlocked,
        }
    }

    fn ask(&self, token: u32, session: &str, haste: Haste) -> Result<(), Refused> {
        self.directory.ask(Lookup {
            conn: ConnId::new(ShardId(0), token, 1),
            token,
            project: "p".into(),
            credential: Credential::Session(session.into()),
            part: Part::Everything,
            haste,
        })
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
                Found::User(user) => (token, user.user_id.clone()),
                Found::Nobody => (token, String::new()),
                other @ (Found::Changed(_) | Found::Expired(_)) => panic!("{other:?}"),
                Found::Failed => (token, "failed".to_owned()),
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

fn one_thread() -> DirectoryOptions {
    DirectoryOptions {
        threads: 1,
        waiting_max: 2,
        answers_max: 10,
        grace: Duration::from_secs(120),
    }
}

#[test]
fn equal_questions_are_asked_once_and_answers_kept() {
    let fixture = Fixture::new(one_thread());
    fixture.ask(1, "a", Haste::Open).unwrap();
    let asked = fixture.asked();
    fixture.ask(2, "a", Haste::Open).unwrap();
    asked.answer_ann();
    let mut found = [fixture.found(), fixture.found()];
    found.sort();
    assert_eq!(found, [(1, "ann".to_owned()), (2, "ann".to_owned())]);
    fixture.ask(3, "a", Haste::Open).unwrap();
    assert_eq!(fixture.found(), (3, "ann".to_owned()));
    // After a change there is no old answer, and a new one is left.
    fixture.directory.known.changed("p", "ann");
    fixture.ask(4, "a", Haste::Change).unwrap();
    fixture.asked().answer(401, NOBODY);
    assert_eq!(fixture.found(), (4, String::new()));
    fixture.ask(5, "a", Haste::Open).unwrap();
    assert_eq!(fixture.found(), (5, String::new()));
    assert!(fixture.asked.try_recv().is_err());
    let count = |counter| fixture.counters.counter(counter);
    assert_eq!(count(Counter::AppwriteLookupsCached), 2);
    assert_eq!(count(Counter::AppwriteLookupsUser), 1);
    assert_eq!(count(Counter::AppwriteLookupsNobody), 1);
}

#[test]
fn an_answer_from_before_a_change_is_asked_for_again() {
    let fixture = Fixture::new(one_thread());
    fixture.ask(1, "a", Haste::Open).unwrap();
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
    // Somebody else's change is no reason.
    fixture.ask(2, "b", Haste::Open).unwrap();
    let asked = fixture.asked();
    fixture.directory.known.changed("p", "bob");
    fixture.directory.known.changed("q", "ann");
    asked.answer_ann();
    assert_eq!(fixture.found(), (2, "ann".to_owned()));
}

#[test]
fn an_answer_from_before_a_gap_is_asked_for_again() {
    let fixture = Fixture::new(one_thread());
    fixture.ask(1, "a", Haste::Open).unwrap();
    let asked = fixture.asked();
    fixture.feed.begin_anew();
    assert!(matches!(fixture.news(), Ok(News::Began(_))));
    asked.answer_ann();
    fixture.asked().answer(401, NOBODY);
    assert_eq!(fixture.found(), (1, String::new()));
    // And so is one that was remembered.
    fixture.ask(2, "b", Haste::Open).unwrap();
    fixture.asked().answer_ann();
    assert_eq!(fixture.found(), (2, "ann".to_owned()));
    fixture.feed.begin_anew();
    assert!(matches!(fixture.news(), Ok(News::Began(_))));
    fixture.ask(3, "b", Haste::Recheck).unwrap();
    fixture.asked().answer(401, NOBODY);
    assert_eq!(fixture.found(), (3, String::new()));
}

/// An event between the check of an answer and its telling would find the connection neither in its
/// shard's hub nor its answer too old.
#[test]
fn answers_are_told_between_two_events() {
    let fixture = Fixture::new(one_thread());
    for (token, known) in [(1, false), (2, true)] {
        fixture.ask(token, "a", Haste::Open).unwrap();
        if !known {
            fixture.asked().answer_ann();
        }
        assert_eq!(fixture.found(), (token, "ann".to_owned()));
    }
    assert_eq!(*fixture.unlocked.lock().unwrap(), 0);
}

#[test]
fn changes_go_first_and_those_who_come_in_wait_for_each_other_alone() {
    let fixture = Fixture::new(one_thread());
    fixture.ask(0, "a", Haste::Open).unwrap();
    let asked = fixture.asked();
    // One is being asked, two wait to come in.
    fixture.ask(1, "b", Haste::Open).unwrap();
    fixture.ask(2, "c", Haste::Open).unwrap();
    assert_eq!(fixture.ask(3, "d", Haste::Open), Err(Refused));
    fixture.ask(4, "b", Haste::Open).unwrap();
    fixture.ask(5, "e", Haste::Recheck).unwrap();
    fixture.ask(6, "f", Haste::Change).unwrap();
    // Two tabs with one session are one question, until it is answered.
    fixture.ask(7, "f", Haste::Change).unwrap();
    asked.answer(500, "{}");
    assert_eq!(fixture.found(), (0, "failed".to_owned()));
    let next = |fixture: &Fixture| {
        fixture.asked().answer_ann();
        fixture.found().0
    };
    assert_eq!([next(&fixture), fixture.found().0], [6, 7]);
    // Those who come in and those who are looked up again take turns.
    assert_eq!([next(&fixture), fixture.found().0], [1, 4]);
    assert_eq!(next(&fixture), 5);
    assert_eq!(next(&fixture), 2);
}

#[test]
fn who_comes_in_while_appwrite_is_away_is_who_it_was() {
    let fixture = Fixture::new(one_thread());
    fixture.ask(1, "a", Haste::Open).unwrap();
    fixture.asked().answer_ann();
    assert_eq!(fixture.found(), (1, "ann".to_owned()));
    fixture.directory.age();
    fixture.ask(2, "a", Haste::Open).unwrap();
    fixture.asked().answer(503, "{}");
    assert_eq!(fixture.found(), (2, "ann".to_owned()));
    // Not if something has changed.
    fixture.directory.known.changed("p", "ann");
    fixture.ask(3, "a", Haste::Open).unwrap();
    fixture.asked().answer(503, "{}");
    assert_eq!(fixture.found(), (3, "failed".to_owned()));
}
