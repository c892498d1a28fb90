//! A directory before an API that answers when the test lets it.

use throng_appwrite::{AppwriteIdentity, Credential};
use throng_http1::origin::{OriginFailure, OriginFailureKind};
use throng_types::ShardId;

use super::*;
use crate::cache::USER_MS;

/// Appwrite's answer to an invalid credential.
const NOBODY: &str = r#"{"message":"no","code":401,"type":"general_unauthorized_scope"}"#;
const ANN: &str = r#"{"$id":"ann"}"#;
const NO_TEAMS: &str = r#"{"total":0,"teams":[]}"#;

fn options(asked_max: usize) -> DirectoryOptions {
    DirectoryOptions {
        asked_max,
        waiting_max: 2,
        answers_max: 10,
        grace_ms: 120_000,
    }
}

struct Stage {
    directory: Directory,
    known: Known,
    api: Api,
    now: Millis,
    /// Requests that have no answer, the oldest first.
    requests: VecDeque<(Box<Inquiry>, OriginRequest)>,
    /// Answers: whom they were for, and the user; empty if it is nobody.
    told: VecDeque<(u32, String)>,
    /// The identity of the last user that was told.
    identity: Option<AppwriteIdentity>,
    /// Whether each answer was remembered, and whether Appwrite did not say.
    said: Vec<(bool, bool)>,
    notes: Vec<Note>,
}

impl Stage {
    fn new(options: DirectoryOptions) -> Self {
        Self {
            directory: Directory::new(options),
            known: Known::new(options.answers_max, options.grace_ms),
            api: Api::new(Default::default(), "appwrite".to_owned(), "/v1/"),
            now: Millis(1000),
            requests: VecDeque::new(),
            told: VecDeque::new(),
            identity: None,
            said: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn ask(&mut self, token: u32, session: &str, haste: LookupPriority) -> Result<(), QueueFull> {
        self.ask_part(token, session, haste, LookupPart::Everything)
    }

    fn ask_part(
        &mut self,
        token: u32,
        session: &str,
        haste: LookupPriority,
        part: LookupPart,
    ) -> Result<(), QueueFull> {
        let asked = self.directory.ask(Lookup {
            conn: ConnId::new(ShardId(0), token, 1),
            token,
            project: "p".into(),
            credential: Credential::Session(session.into()),
            part,
            haste,
        });
        self.run();
        asked
    }

    /// Begins all that may be asked.
    fn run(&mut self) {
        while let Some(mut inquiry) = self.directory.take() {
            let next = inquiry.begin(&self.api, &self.known, self.now);
            self.follow(inquiry, next);
        }
    }

    fn follow(&mut self, mut inquiry: Box<Inquiry>, mut next: Next) {
        loop {
            let outcome = match next {
                Next::Ask(request) => return self.requests.push_back((inquiry, request)),
                Next::Found(outcome) => outcome,
            };
            self.said.push((outcome.is_cached, outcome.fault.is_some()));
            self.notes.extend(&outcome.notes);
            let known = &mut self.known;
            match self.directory.settle(inquiry, outcome, known, self.now) {
                Settled::Told(found, askers) => return self.tell(&found, &askers),
                Settled::Again(again) => inquiry = again,
            }
            next = inquiry.begin(&self.api, &self.known, self.now);
        }
    }

    fn tell(&mut self, found: &LookupReply, askers: &Askers) {
        let whose = match found {
            LookupReply::User(user) => {
                self.identity = Some((**user).clone());
                user.user_id.clone()
            }
            LookupReply::Changed(change) => format!("{change:?}"),
            LookupReply::Nobody => String::new(),
            LookupReply::Expired(why) => panic!("{why}"),
            LookupReply::Failed => "failed".to_owned(),
        };
        self.told
            .extend(askers.iter().map(|(_, token)| (*token, whose.clone())));
    }

    /// Answers the oldest request; gives its path.
    #[track_caller]
    fn answer_one(&mut self, answer: Answer) -> String {
        let (mut inquiry, request) = self.requests.pop_front().expect("a request");
        let next = inquiry.answered(answer, &self.api, &self.known, self.now);
        self.follow(inquiry, next);
        self.run();
        request.path
    }

    /// Answers the oldest request, which is for an account. Nobody is in a team.
    #[track_caller]
    fn answer(&mut self, status: u16, account: &str) {
        let path = self.answer_one(Ok((status, account.into())));
        assert_eq!(path, "/v1/account");
        let last = self.requests.back();
        if last.is_some_and(|(_, request)| request.path.starts_with("/v1/teams?")) {
            let last = self.requests.pop_back().unwrap();
            self.requests.push_front(last);
            self.answer_one(Ok((200, NO_TEAMS.into())));
        }
    }

    #[track_caller]
    fn found(&mut self) -> (u32, String) {
        self.told.pop_front().expect("an answer")
    }
}

fn ann(token: u32) -> (u32, String) {
    (token, "ann".to_owned())
}

fn nobody(token: u32) -> (u32, String) {
    (token, String::new())
}

fn failed(token: u32) -> (u32, String) {
    (token, "failed".to_owned())
}

#[test]
fn equal_questions_are_asked_once_and_answers_kept() {
    let mut stage = Stage::new(options(1));
    stage.ask(1, "a", LookupPriority::Open).unwrap();
    stage.ask(2, "a", LookupPriority::Open).unwrap();
    stage.answer(200, ANN);
    assert_eq!([stage.found(), stage.found()], [ann(1), ann(2)]);
    stage.ask(3, "a", LookupPriority::Open).unwrap();
    assert_eq!(stage.found(), ann(3));
    // After a change there is no old answer, and a new one is left.
    stage.known.changed("p", "ann");
    stage.ask(4, "a", LookupPriority::Change).unwrap();
    stage.answer(401, NOBODY);
    assert_eq!(stage.found(), nobody(4));
    stage.ask(5, "a", LookupPriority::Open).unwrap();
    assert_eq!(stage.found(), nobody(5));
    assert!(stage.requests.is_empty() && stage.directory.waiting.is_empty());
    let (fresh, cached) = ((false, false), (true, false));
    assert_eq!(stage.said, [fresh, cached, fresh, cached]);
}

#[test]
fn an_answer_from_before_a_change_is_asked_for_again() {
    let mut stage = Stage::new(options(1));
    stage.ask(1, "a", LookupPriority::Open).unwrap();
    stage.known.changed("p", "ann");
    stage.answer(200, ANN);
    stage.answer(401, NOBODY);
    assert_eq!(stage.found(), nobody(1));
    // Somebody else's change is no reason.
    stage.ask(2, "b", LookupPriority::Open).unwrap();
    stage.known.changed("p", "bob");
    stage.known.changed("q", "ann");
    stage.answer(200, ANN);
    assert_eq!(stage.found(), ann(2));
    // And it is not asked for ever.
    stage.ask(3, "c", LookupPriority::Open).unwrap();
    for _ in 0..TRIES {
        assert!(stage.told.is_empty());
        stage.known.changed("p", "ann");
        stage.answer(200, ANN);
    }
    assert_eq!(stage.found(), failed(3));
    assert!(stage.requests.is_empty());
}

#[test]
fn an_answer_from_before_a_gap_is_asked_for_again() {
    let mut stage = Stage::new(options(1));
    stage.ask(1, "a", LookupPriority::Open).unwrap();
    stage.known.all_changed();
    stage.answer(200, ANN);
    stage.answer(401, NOBODY);
    assert_eq!(stage.found(), nobody(1));
    // And so is one that was remembered.
    stage.ask(2, "b", LookupPriority::Open).unwrap();
    stage.answer(200, ANN);
    assert_eq!(stage.found(), ann(2));
    stage.known.all_changed();
    stage.ask(3, "b", LookupPriority::Recheck).unwrap();
    stage.answer(401, NOBODY);
    assert_eq!(stage.found(), nobody(3));
}

#[test]
fn changes_go_first_and_those_who_come_in_wait_for_each_other_alone() {
    let mut stage = Stage::new(options(1));
    stage.ask(0, "a", LookupPriority::Open).unwrap();
    // One is being asked, two wait to come in.
    stage.ask(1, "b", LookupPriority::Open).unwrap();
    stage.ask(2, "c", LookupPriority::Open).unwrap();
    assert_eq!(stage.ask(3, "d", LookupPriority::Open), Err(QueueFull));
    stage.ask(4, "b", LookupPriority::Open).unwrap();
    stage.ask(5, "e", LookupPriority::Recheck).unwrap();
    stage.ask(6, "f", LookupPriority::Change).unwrap();
    // Two tabs with one session are one question, until it is answered.
    stage.ask(7, "f", LookupPriority::Change).unwrap();
    stage.answer(500, "{}");
    assert_eq!(stage.found(), failed(0));
    let mut next = || {
        stage.answer(200, ANN);
        Vec::from_iter(stage.told.drain(..).map(|(token, _)| token))
    };
    assert_eq!(next(), [6, 7]);
    // Those who come in and those who are looked up again take turns.
    assert_eq!([next(), next(), next()], [vec![1, 4], vec![5], vec![2]]);
}

#[test]
fn those_who_come_in_leave_two_places_free() {
    let mut stage = Stage::new(options(4));
    for (token, session) in (0..).zip(["a", "b", "c", "d"]) {
        stage.ask(token, session, LookupPriority::Open).unwrap();
    }
    assert_eq!(stage.requests.len(), 2);
    stage.ask(4, "e", LookupPriority::Recheck).unwrap();
    stage.ask(5, "f", LookupPriority::Change).unwrap();
    stage.ask(6, "g", LookupPriority::Change).unwrap();
    assert_eq!(stage.requests.len(), 4);
    // The place of one who came in is for any; that of the change waits for no opening.
    stage.answer(200, ANN);
    assert_eq!(stage.found(), ann(0));
    assert_eq!((stage.requests.len(), stage.directory.opens), (4, 1));
    stage.answer(200, ANN);
    assert_eq!(stage.found(), ann(1));
    assert_eq!((stage.requests.len(), stage.directory.opens), (4, 1));
}

#[test]
fn who_comes_in_while_appwrite_is_away_is_who_it_was() {
    let mut stage = Stage::new(options(1));
    stage.ask(1, "a", LookupPriority::Open).unwrap();
    stage.answer(200, ANN);
    assert_eq!(stage.found(), ann(1));
    stage.now = stage.now + USER_MS;
    stage.ask(2, "a", LookupPriority::Open).unwrap();
    stage.answer(503, "{}");
    assert_eq!(stage.found(), ann(2));
    // Not if something has changed.
    stage.known.changed("p", "ann");
    stage.ask(3, "a", LookupPriority::Open).unwrap();
    stage.answer(503, "{}");
    assert_eq!(stage.found(), failed(3));
}

/// An answer ages from the moment at which Appwrite gave it, however often it serves.
#[test]
fn what_is_remembered_is_not_renewed_by_its_use() {
    let mut stage = Stage::new(options(1));
    stage.ask(1, "a", LookupPriority::Open).unwrap();
    stage.answer(200, ANN);
    stage.now = stage.now + (USER_MS - 1);
    stage.ask(2, "a", LookupPriority::Open).unwrap();
    assert_eq!([stage.found(), stage.found()], [ann(1), ann(2)]);
    for away_ms in [1, 119_999] {
        stage.now = stage.now + away_ms;
        stage.ask(3, "a", LookupPriority::Open).unwrap();
        stage.answer(503, "{}");
        assert_eq!(stage.found(), ann(3));
    }
    stage.now = stage.now + 1;
    stage.ask(4, "a", LookupPriority::Open).unwrap();
    stage.answer(503, "{}");
    assert_eq!(stage.found(), failed(4));
}

#[test]
fn a_user_is_put_together_from_all_pages_and_teams() {
    let mut stage = Stage::new(options(1));
    stage.ask(1, "a", LookupPriority::Open).unwrap();
    let answer = |stage: &mut Stage, status: u16, body: String| -> String {
        stage.answer_one(Ok((status, body.into())))
    };
    let teams = |ids: std::ops::Range<usize>| {
        let teams: Vec<_> = ids
            .map(|id| serde_json::json!({"$id": format!("t{id}")}))
            .collect();
        serde_json::json!({"total": 101, "teams": teams}).to_string()
    };
    answer(&mut stage, 200, ANN.to_owned());
    let first = answer(&mut stage, 200, teams(0..100));
    let second = answer(&mut stage, 200, teams(100..101));
    assert!(first.starts_with("/v1/teams?") && !first.contains("cursorAfter"));
    assert!(second.contains("cursorAfter") && second.contains("t99"));
    for team in 0..101 {
        let path = match team {
            // It went between the two questions.
            0 => answer(&mut stage, 404, "{}".to_owned()),
            // This server does not know the queries, and is asked without.
            1 => {
                answer(&mut stage, 400, "{}".to_owned());
                let all = serde_json::json!({"memberships": [
                    {"$id": "x", "userId": "bob", "teamId": "t1", "confirm": true, "roles": []},
                    {"$id": "m1", "userId": "ann", "teamId": "t1", "confirm": true, "roles": []},
                ]});
                let path = answer(&mut stage, 200, all.to_string());
                assert_eq!(path, "/v1/teams/t1/memberships");
                continue;
            }
            team => {
                let own = serde_json::json!({"memberships": [{"$id": format!("m{team}"),
                    "userId": "", "teamId": format!("t{team}"), "confirm": true,
                    "roles": ["owner"]}]});
                answer(&mut stage, 200, own.to_string())
            }
        };
        let expected = format!("/v1/teams/t{team}/memberships?queries%5B%5D=");
        assert!(
            path.starts_with(&expected) && path.contains("ann"),
            "{path}"
        );
    }
    assert_eq!(stage.found(), ann(1));
    let roles = stage.identity.unwrap().roles;
    let has = |role: &str| roles.iter().any(|one| one == role);
    assert!(
        !has("team:t0") && has("team:t1") && has("team:t100/owner"),
        "{roles:?}"
    );
    assert!(has("member:m1") && !has("member:x"), "{roles:?}");
}

/// A server that does not know the queries gives all teams in one page.
#[test]
fn only_so_many_teams_are_looked_at() {
    let mut stage = Stage::new(options(1));
    stage.ask(1, "a", LookupPriority::Open).unwrap();
    stage.answer_one(Ok((200, ANN.into())));
    stage.answer_one(Ok((400, "{}".into())));
    let teams = vec![serde_json::json!({"$id": "t"}); 1001];
    let teams = serde_json::json!({"teams": teams}).to_string();
    stage.answer_one(Ok((200, teams.into())));
    for _ in 0..1000 {
        assert!(stage.told.is_empty());
        stage.answer_one(Ok((404, "{}".into())));
    }
    assert_eq!(stage.found(), ann(1));
    assert_eq!(stage.notes, [Note::TeamsFull(1000)]);
}

#[test]
fn a_service_that_is_off_gives_no_roles_and_is_noted_once() {
    let mut stage = Stage::new(options(1));
    let off = r#"{"message":"off","code":403,"type":"general_service_disabled"}"#;
    stage.ask(1, "a", LookupPriority::Open).unwrap();
    stage.answer_one(Ok((200, ANN.into())));
    stage.answer_one(Ok((403, off.into())));
    assert_eq!(stage.found(), ann(1));
    assert_eq!(stage.notes, [Note::TeamsOff]);
}

#[test]
fn a_part_is_asked_for_in_one_request() {
    let mut stage = Stage::new(options(1));
    stage
        .ask_part(1, "a", LookupPriority::Change, LookupPart::Account)
        .unwrap();
    stage.answer_one(Ok((200, ANN.into())));
    let team = LookupPart::Membership {
        user_id: "ann".into(),
        team: "t".into(),
        id: "m".into(),
    };
    stage
        .ask_part(2, "a", LookupPriority::Change, team.clone())
        .unwrap();
    let gone = r#"{"message":"no","code":404,"type":"team_not_found"}"#;
    let path = stage.answer_one(Ok((404, gone.into())));
    assert!(path.starts_with("/v1/teams/t/memberships?"), "{path}");
    stage
        .ask_part(3, "a", LookupPriority::Change, team)
        .unwrap();
    let failure = OriginFailure {
        fault: OriginFailureKind::Timeout,
        detail: "late".to_owned(),
    };
    stage.answer_one(Err(failure));
    let [account, place, late] = [stage.found(), stage.found(), stage.found()];
    assert!(account.1.contains("Account {") && place.1.contains("roles: None"));
    assert_eq!(late, failed(3));
    let (fresh, failed) = ((false, false), (false, true));
    assert_eq!(stage.said, [fresh, fresh, failed]);
}
