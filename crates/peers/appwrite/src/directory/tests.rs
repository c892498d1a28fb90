//! One question to its end, before an API that is a function. Several questions beside each other
//! are in the dialogues of the peer.

use serde_json::{Value, json};
use throng_appwrite::{AppwriteIdentity, Credential};
use throng_types::ShardId;

use super::*;

/// Looks a user up. `answer` has the number of the request, from 0, and its path. Gives the user,
/// what was noted, and the number of requests.
fn looked_up(
    mut answer: impl FnMut(usize, &str) -> (u16, Value),
) -> (AppwriteIdentity, Vec<Note>, usize) {
    let mut directory = Directory::new(DirectoryOptions::default());
    let known = Known::new(10, 120_000);
    let api = Api::new(Default::default(), "appwrite".to_owned(), "/v1/");
    let lookup = Lookup {
        conn: ConnId::new(ShardId(0), 1, 1),
        token: 1,
        project: "p".into(),
        credential: Credential::Session("a".into()),
        part: LookupPart::Everything,
        haste: LookupPriority::Open,
    };
    directory.ask(lookup).expect("room");
    let mut inquiry = directory.take().expect("a place");
    let mut next = inquiry.begin(&api, &known, Millis(0));
    for asked in 0.. {
        let request = match next {
            Next::Ask(request) => request,
            Next::Found(outcome) => {
                let LookupReply::User(user) = outcome.found else {
                    panic!("{:?}", outcome.found);
                };
                return (AppwriteIdentity::clone(&user), outcome.notes, asked);
            }
        };
        let (status, body) = answer(asked, &request.path);
        let answer = Ok((status, body.to_string().into_bytes()));
        next = inquiry.answered(answer, &api, &known, Millis(0));
    }
    unreachable!("a question has an end")
}

fn account() -> (u16, Value) {
    (200, json!({"$id": "ann"}))
}

#[test]
fn a_user_is_put_together_from_all_pages_and_teams() {
    let teams = |ids: std::ops::Range<usize>| {
        let teams = ids.map(|id| json!({"$id": format!("t{id}")}));
        (
            200,
            json!({"total": 101, "teams": teams.collect::<Vec<_>>()}),
        )
    };
    let mut paths = Vec::new();
    let (user, _, asked) = looked_up(|at, path| {
        paths.push(path.to_owned());
        match at {
            0 => account(),
            1 => teams(0..100),
            2 => teams(100..101),
            // It went between the two questions.
            3 => (404, json!({})),
            // This server does not know the queries, and is asked without.
            4 => (400, json!({})),
            5 => (
                200,
                json!({"memberships": [
                    {"$id": "x", "userId": "bob", "teamId": "t1", "confirm": true, "roles": []},
                    {"$id": "m1", "userId": "ann", "teamId": "t1", "confirm": true, "roles": []},
                ]}),
            ),
            _ => {
                let (member, team) = (format!("m{}", at - 4), format!("t{}", at - 4));
                let own = json!({"$id": member, "userId": "", "teamId": team, "confirm": true,
                                 "roles": ["owner"]});
                (200, json!({ "memberships": [own] }))
            }
        }
    });
    assert_eq!((asked, &*user.user_id), (105, "ann"));
    assert!(paths[1].starts_with("/v1/teams?") && !paths[1].contains("cursorAfter"));
    assert!(paths[2].contains("cursorAfter") && paths[2].contains("t99"));
    assert_eq!(paths.remove(5), "/v1/teams/t1/memberships");
    for (team, path) in paths[3..].iter().enumerate() {
        let expected = format!("/v1/teams/t{team}/memberships?queries%5B%5D=");
        assert!(
            path.starts_with(&expected) && path.contains("ann"),
            "{path}"
        );
    }
    let has = |role: &str| user.roles.iter().any(|one| one == role);
    assert!(
        !has("team:t0") && has("team:t1") && has("team:t100/owner"),
        "{:?}",
        user.roles
    );
    assert!(has("member:m1") && !has("member:x"), "{:?}", user.roles);
}

/// A server that does not know the queries gives all teams in one page.
#[test]
fn only_so_many_teams_are_looked_at() {
    let (_, notes, asked) = looked_up(|at, _| match at {
        0 => account(),
        1 => (400, json!({})),
        2 => (200, json!({"teams": vec![json!({"$id": "t"}); 1001]})),
        _ => (404, json!({})),
    });
    assert_eq!((notes, asked), (vec![Note::TeamsFull(1000)], 1003));
}

#[test]
fn a_service_that_is_off_gives_no_roles_and_is_noted_once() {
    let (_, notes, asked) = looked_up(|at, _| match at {
        0 => account(),
        _ => (
            403,
            json!({"message": "off", "code": 403, "type": "general_service_disabled"}),
        ),
    });
    assert_eq!((notes, asked), (vec![Note::TeamsOff], 2));
}
