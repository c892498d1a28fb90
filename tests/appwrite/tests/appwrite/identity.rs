//! Identity: the requests to Appwrite, their number, and the effects of its faults.

use serde_json::json;
use throng_testkit::{Authority, PemFiles, until};

use crate::account::{AccountApi, account};
use crate::plain::refused;
use crate::socket::Socket;
use crate::stage::{Event, PROJECT, Stage};

const DOCUMENTS: &str = "project=bench&channels[]=documents&channels[]=account";

/// Something about an account, with the account as it is now.
fn updated<'e>(user: &'e str, what: &str, role: &'e str, labels: &[&str]) -> Event<'e> {
    let mut event = Event::signed_out(user, role);
    event.names = vec![format!("users.{user}.update.{what}")];
    event.payload = account(user);
    event.payload["labels"] = json!(labels);
    event
}

#[test]
fn members_of_projects_that_hide_them_hear() {
    let stage = Stage::new("");
    stage.accounts.join("ann", "T", &["dev"]);
    let mut ann = stage.open_as("ann", DOCUMENTS);
    for (id, role) in [("A", "team:T"), ("B", "team:T/dev"), ("C", "member:ann-T")] {
        stage.publish(&Event::document(id, role, "open"));
        assert_eq!(ann.event(), id);
    }
    stage.server.stop();
}

/// The console can switch a project's Teams service off.
#[test]
fn users_of_a_project_without_teams_sign_in() {
    let stage = Stage::new("");
    stage.accounts.join("ann", "T", &["dev"]);
    stage.accounts.teams_off();
    let mut ann = stage.open_as("ann", DOCUMENTS);
    stage.publish(&Event::document("A", "team:T", "open"));
    stage.publish(&Event::document("B", "user:ann", "open"));
    assert_eq!(ann.event(), "B");
    stage.server.stop();
}

#[test]
fn all_teams_count() {
    let stage = Stage::new("");
    for number in 0..130 {
        stage.accounts.join("ann", &format!("t{number:03}"), &[]);
    }
    let mut ann = stage.open_as("ann", DOCUMENTS);
    for team in ["team:t000", "team:t099", "team:t100", "team:t129"] {
        stage.publish(&Event::document(team, team, "open"));
        assert_eq!(ann.event(), team);
    }
    stage.server.stop();
}

#[test]
fn answers_are_remembered_until_something_changes() {
    let stage = Stage::new("");
    stage.accounts.join("ann", "T", &[]);
    let mut sockets: Vec<Socket> = (0..20).map(|_| stage.open_as("ann", DOCUMENTS)).collect();
    let everything = ["/v1/account", "/v1/teams", "/v1/teams/T/memberships"];
    assert_eq!(stage.accounts.take_asked(), everything);
    // No role depends on a name, but the next one to come is to see it.
    stage.publish(&updated("ann", "name", "user:ann", &[]));
    for socket in &mut sockets {
        assert_eq!(socket.event(), "ann");
    }
    stage.open_as("ann", DOCUMENTS);
    assert_eq!(stage.accounts.take_asked(), everything);
    stage.accounts.label("ann", &["vip"]);
    // Far fewer requests than connections, and no connection waits for them. A shard that asks
    // when another has its answer already asks again.
    stage.publish(&updated("ann", "labels", "user:ann", &["vip"]));
    stage.publish(&Event::document("V", "label:vip", "open"));
    for socket in &mut sockets {
        assert_eq!([socket.event(), socket.event()], ["ann", "V"]);
    }
    let asked = until("the question", || {
        Some(stage.accounts.take_asked()).filter(|asked| !asked.is_empty())
    });
    assert!(asked.iter().all(|path| path == "/v1/account"), "{asked:?}");
    assert!(asked.len() < sockets.len(), "{asked:?}");
    stage.server.stop();
}

#[test]
fn a_change_takes_effect_while_appwrite_is_away() {
    let stage = Stage::new("api_grace = \"1s\"");
    stage.accounts.join("ann", "T", &["dev"]);
    let mut ann = stage.open_as("ann", DOCUMENTS);
    let mut guest = stage.open(DOCUMENTS).0;
    stage.accounts.go_away(true);
    let cookie = format!("a_session_{PROJECT}=bob");
    let (socket, frame) = stage.open_with(DOCUMENTS, &[("Cookie", &cookie)]);
    refused(socket, &frame, 500, "Error: Server Error", 1011);
    let mut left = Event::membership_deleted("ann", "T", "team:T");
    left.names = vec!["teams.T.memberships.ann-T.delete".to_owned()];
    stage.publish(&left);
    stage.publish(&Event::document("D", "team:T", "open"));
    stage.publish(&Event::document("E", "user:ann", "open"));
    stage.publish(&Event::document("F", "any", "open"));
    assert_eq!([ann.event(), ann.event()], ["E", "F"]);
    assert_eq!(guest.event(), "F");
    // It cannot be made sure of for longer than is allowed.
    assert_eq!(ann.frame()["data"]["code"], 500);
    assert_eq!(ann.closed(), 1011);
    stage.accounts.leave("ann", "T");
    stage.accounts.go_away(false);
    let mut ann = stage.open_as("ann", DOCUMENTS);
    stage.publish(&Event::document("G", "user:ann", "open"));
    assert_eq!(ann.event(), "G");
    stage.server.stop();
}

#[test]
fn faults_of_the_way_to_appwrite_make_no_guests() {
    let stage = Stage::new("");
    let mut ann = stage.open_as("ann", DOCUMENTS);
    let html = json!("<html>");
    let own = |code: u16, kind: &str| (code, json!({"message": "x", "code": code, "type": kind}));
    let mut failed = 0;
    for fault in [
        (404, html.clone()),
        (401, html.clone()),
        (302, html.clone()),
        (400, html),
        own(403, "general_service_disabled"),
        own(429, "general_rate_limit_exceeded"),
        own(500, "general_unknown"),
    ] {
        let status = fault.0;
        stage.accounts.fail(Some(fault));
        let cookie = format!("a_session_{PROJECT}=bob{status}");
        let (socket, frame) = stage.open_with(DOCUMENTS, &[("Cookie", &cookie)]);
        assert_eq!(frame["data"]["code"], 500, "{status}");
        drop(socket);
        failed += 1;
        let failures = r#"throng_appwrite_lookups_total{answer="failed"}"#;
        stage.until_metric(failures, failed);
    }
    // A session ended, and the event does not tell which: the client gets it, and her events wait
    // from then on.
    stage.publish(&Event::signed_out("ann", "user:ann"));
    stage.publish(&Event::document("C", "user:ann", "open"));
    stage.publish(&Event::document("D", "any", "open"));
    assert_eq!([ann.event(), ann.event()], ["S", "D"]);
    stage.accounts.fail(None);
    assert_eq!(ann.event(), "C", "it was another session");
    stage.server.stop();
}

/// By TLS, from a server whose certificate is trusted and from no other.
#[test]
fn accounts_come_by_https_from_who_is_believed() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let files = PemFiles::new();
    for (authority, is_believed) in [(&ours, true), (&others, false)] {
        let believed = files.write("believed.pem", authority.pem());
        let accounts = AccountApi::with(Some(ours.issue(&["127.0.0.1"])));
        let stage = Stage::before(accounts, "", "", Some(&believed));
        stage.accounts.join("ann", "T", &[]);
        if is_believed {
            let mut ann = stage.open_as("ann", DOCUMENTS);
            stage.publish(&Event::document("A", "team:T", "open"));
            assert_eq!(ann.event(), "A");
        } else {
            let cookie = format!("a_session_{PROJECT}=ann");
            let (socket, frame) = stage.open_with(DOCUMENTS, &[("Cookie", &cookie)]);
            refused(socket, &frame, 500, "Error: Server Error", 1011);
            assert_eq!(stage.accounts.take_asked(), [""; 0]);
        }
        stage.server.stop();
    }
}
