//! A directory before an API that answers when the test lets it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use throng_gateway_appwrite::Credential;
use throng_metrics::Counters;
use throng_types::ShardId;

use super::*;
use crate::Inlet;

/// Keeps what comes.
struct Kept(Mutex<Sender<News>>);

impl Inlet for Kept {
    fn send(&self, news: News, _: &dyn Fn()) -> bool {
        self.0.lock().unwrap().send(news).is_ok()
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
        let inlet: Arc<dyn Inlet> = Arc::new(Kept(Mutex::new(sender)));
        let counters = Arc::new(Counters::new());
        let meter = Meter::new(counters.clone());
        let feed = Feed::new(vec![inlet], 1, meter.clone());
        assert!(matches!(news.recv(), Ok(News::Began(_))));
        let api = AccountApi::new(&url, Duration::from_secs(60)).unwrap();
        let directory = Directory::start(api, options, feed.clone(), meter).unwrap();
        Self {
            directory,
            feed,
            news,
            asked,
            counters,
        }
    }

    fn ask(&self, token: u32, session: &str, fresh: bool) -> Result<(), Refused> {
        self.directory.ask(Lookup {
            conn: ConnId::new(ShardId(0), token, 1),
            token,
            project: "p".into(),
            credential: Credential::Session(session.into()),
            fresh,
        })
    }

    /// The user of the next answer, empty if it is nobody, and whom it is for.
    fn found(&self) -> (u32, String) {
        match self.news.recv() {
            Ok(News::Found { token, found, .. }) => match found {
                Found::User(user) => (token, user.user_id.clone()),
                Found::Nobody(_) => (token, String::new()),
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
    }
}

#[test]
fn equal_questions_are_asked_once_and_answers_kept() {
    let fixture = Fixture::new(one_thread());
    fixture.ask(1, "a", false).unwrap();
    let asked = fixture.asked.recv().unwrap();
    fixture.ask(2, "a", false).unwrap();
    asked.answer_ann();
    let mut found = [fixture.found(), fixture.found()];
    found.sort();
    assert_eq!(found, [(1, "ann".to_owned()), (2, "ann".to_owned())]);
    fixture.ask(3, "a", false).unwrap();
    assert_eq!(fixture.found(), (3, "ann".to_owned()));
    // Who wants to know how it is now gets no old answer, and leaves a new one.
    fixture.ask(4, "a", true).unwrap();
    fixture
        .asked
        .recv()
        .unwrap()
        .answer(401, r#"{"message":"no"}"#);
    assert_eq!(fixture.found(), (4, String::new()));
    fixture.ask(5, "a", false).unwrap();
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
    fixture.ask(1, "a", false).unwrap();
    let asked = fixture.asked.recv().unwrap();
    // The feed tells of the change while the answer is on its way.
    let change = r#"{"project":"p","roles":["user:ann"],"permissionsChanged":true,"userId":"ann","data":{"events":["e"],"channels":["c"],"payload":{}}}"#;
    let change = throng_appwrite::FeedMessage::parse(change.as_bytes(), 1 << 20).unwrap();
    fixture.feed.publish(change);
    assert!(matches!(fixture.news.recv(), Ok(News::Event { .. })));
    asked.answer_ann();
    fixture.asked.recv().unwrap().answer(401, "{}");
    assert_eq!(fixture.found(), (1, String::new()));
    // Somebody else's change is no reason.
    fixture.ask(2, "b", false).unwrap();
    let asked = fixture.asked.recv().unwrap();
    fixture.directory.changed("p", "bob");
    fixture.directory.changed("q", "ann");
    asked.answer_ann();
    assert_eq!(fixture.found(), (2, "ann".to_owned()));
}

#[test]
fn questions_that_wait_are_bounded() {
    let fixture = Fixture::new(one_thread());
    fixture.ask(0, "a", false).unwrap();
    let asked = fixture.asked.recv().unwrap();
    // One is being asked, two wait.
    fixture.ask(1, "b", false).unwrap();
    fixture.ask(2, "c", true).unwrap();
    assert_eq!(fixture.ask(3, "d", false), Err(Refused));
    fixture.ask(4, "b", false).unwrap();
    asked.answer(500, "{}");
    assert_eq!(fixture.found(), (0, "failed".to_owned()));
    for _ in 0..2 {
        fixture.asked.recv().unwrap().answer_ann();
    }
    let mut found = [fixture.found().0, fixture.found().0, fixture.found().0];
    found.sort_unstable();
    assert_eq!(found, [1, 2, 4]);
}
