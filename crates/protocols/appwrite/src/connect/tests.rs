//! The URLs of every generation, refusals, and noise.

use proptest::prelude::*;

use super::*;

fn number(slot: i64) -> Slot {
    Slot::Number(slot)
}

#[track_caller]
fn check(query: &str, user_id: &str, expect: &[(Slot, &[&str], &str)]) {
    let request = ConnectRequest::parse(query).unwrap();
    let got = request.subscriptions(user_id, &Limits::default()).unwrap();
    let got: Vec<_> = got
        .iter()
        .map(|s| {
            (
                s.slot.clone(),
                s.channels.clone(),
                s.filter.text().to_owned(),
            )
        })
        .collect();
    let expect: Vec<_> = expect
        .iter()
        .map(|(slot, channels, text)| {
            let channels: Vec<_> = channels.iter().map(|&c| c.to_owned()).collect();
            (slot.clone(), channels, (*text).to_owned())
        })
        .collect();
    assert_eq!(got, expect, "{query}");
}

#[test]
fn the_benchmark() {
    let request = ConnectRequest::parse("project=console&channels[]=files").unwrap();
    assert_eq!(request.project, CONSOLE);
    assert_eq!(request.channels, ["files"]);
    check(
        "project=console&channels[]=files",
        "",
        &[(number(0), &["files"], "[]")],
    );
}

#[test]
fn before_22_1_channels_alone() {
    // 9.0.2 builds the query with URLSearchParams, later ones with encodeURIComponent.
    check(
        "project=bench&channels%5B%5D=files&channels%5B%5D=databases.D.collections.C.documents",
        "",
        &[(
            number(0),
            &["files", "databases.D.collections.C.documents"],
            "[]",
        )],
    );
    check(
        "project=bench&channels[]=account&channels[]=files",
        "U",
        &[(number(0), &["account", "files", "account.U"], "[]")],
    );
}

#[test]
fn from_22_1_slots() {
    const STAR: &str = "%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22*%22%5D%7D";
    const OPEN: &str = "%7B%22method%22%3A%22equal%22%2C%22attribute%22%3A%22status%22%2C\
                        %22values%22%3A%5B%22open%22%5D%7D";
    let open = r#"["{\"method\":\"equal\",\"attribute\":\"status\",\"values\":[\"open\"]}"]"#;
    check(
        &format!("project=bench&channels[]=files&files[1][]={STAR}"),
        "",
        &[(number(1), &["files"], "[]")],
    );
    check(
        &format!(
            "project=b&channels[]=a.b&channels[]=files&a.b[1][]={OPEN}&files[1][]={OPEN}&\
             files[2][]={STAR}"
        ),
        "",
        &[
            (number(1), &["a.b", "files"], open),
            (number(2), &["files"], "[]"),
        ],
    );
    // The user's own channel has no key in the URL and lands in slot 0.
    check(
        &format!("project=b&channels[]=account&account[1][]={OPEN}"),
        "U",
        &[
            (number(1), &["account"], open),
            (number(0), &["account.U"], "[]"),
        ],
    );
    check(
        &format!("project=project&channels[]=project&x[]={OPEN}"),
        "",
        &[(number(0), &["project"], "[]")],
    );
    check(
        &format!("project=b&channels[]=files&files={OPEN}"),
        "",
        &[(number(0), &["files"], open)],
    );
}

#[test]
fn from_25_0_project_and_jwt() {
    let request = ConnectRequest::parse("project=bench&jwt=a.b%2Bc").unwrap();
    assert_eq!(request.jwt.as_deref(), Some("a.b+c"));
    assert!(request.channels.is_empty());
    check("project=bench", "U", &[]);
    assert_eq!(ConnectRequest::parse("").unwrap().project, CONSOLE);
    assert!(ConnectRequest::parse("mode=admin").unwrap().admin);
}

#[test]
fn refusals() {
    assert!(matches!(
        ConnectRequest::parse("channels=files"),
        Err(Fault::Internal(_))
    ));
    assert!(matches!(
        ConnectRequest::parse("channels[][x]=files"),
        Err(Fault::Internal(_))
    ));
    let long = format!("channels[]={}", "x".repeat(513));
    assert!(matches!(
        ConnectRequest::parse(&long),
        Err(Fault::UrlQuery(_))
    ));
    let many: String = (0..257).map(|n| format!("channels[]={n}&")).collect();
    assert!(matches!(
        ConnectRequest::parse(&many),
        Err(Fault::UrlQuery(_))
    ));
    let request = ConnectRequest::parse("channels[]=a&a[0][]=%7B").unwrap();
    assert_eq!(
        request.subscriptions("", &Limits::default()),
        Err(Fault::UrlQuery("Invalid query: Syntax error".to_owned()))
    );
    let slots: String = (0..257)
        .map(|n| format!("a[{n}][]=%7B%22method%22:%22or%22%7D&"))
        .collect();
    let request = ConnectRequest::parse(&format!("channels[]=a&{slots}")).unwrap();
    let limits = Limits {
        subscriptions_max: 256,
        ..Limits::default()
    };
    assert!(request.subscriptions("", &limits).is_err());
}

#[test]
fn slot_ids_take_the_form_that_php_gives_them() {
    let write = |slots: &[(Slot, &str)]| {
        let mut out = Vec::new();
        write_slot_ids(slots, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(write(&[]), "[]");
    assert_eq!(write(&[(number(0), "x"), (number(1), "y")]), r#"["x","y"]"#);
    assert_eq!(write(&[(number(1), "x")]), r#"{"1":"x"}"#);
    assert_eq!(
        write(&[(number(1), "x"), (number(0), "y")]),
        r#"{"1":"x","0":"y"}"#
    );
    assert_eq!(write(&[(Slot::Name("n".to_owned()), "x")]), r#"{"n":"x"}"#);
}

proptest! {
    #[test]
    fn nothing_panics(query in "(channels|project|a|account)?[\\[\\]=&%a-z0-9.+]{0,60}") {
        if let Ok(request) = ConnectRequest::parse(&query) {
            let _ = request.subscriptions("U", &Limits::default());
        }
    }
}
