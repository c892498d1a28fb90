//! Holes filled, braces left alone, and what is refused with its position.

use proptest::prelude::{prop_assert_eq, proptest};

use super::*;

fn render(text: &str, scope: HoleScope, n: u64) -> String {
    let values = Values {
        n,
        worker: 2,
        channel: "a b:ü",
        payload: b"TB1",
    };
    Template::compile(text, scope, None)
        .unwrap()
        .render_to_string(&values, &mut Rng::new(1))
}

#[track_caller]
fn check(text: &str, n: u64, expected: &str) {
    assert_eq!(render(text, HoleScope::Publish, n), expected, "{text}");
}

#[track_caller]
fn check_refused(text: &str, scope: HoleScope, at: usize, message: &str) {
    let error = Template::compile(text, scope, None).unwrap_err();
    assert_eq!(error.at, at, "{text}");
    assert!(error.to_string().contains(message), "{text}: {error}");
}

#[test]
fn holes_are_filled() {
    check("group-{n%1000}", 12_345, "group-345");
    check("{n}", 0, "0");
    check(
        "{n}{n}",
        u64::MAX,
        "1844674407370955161518446744073709551615",
    );
    check("chat-{n/4%10+1}", 47, "chat-2");
    check("{n*2}", 21, "42");
    check("w{worker}", 0, "w2");
    check("{channel}/{channel:url}", 0, "a b:ü/a%20b%3A%C3%BC");
    check("{payload}|{payload:base64}", 0, "TB1|VEIx");
    check("", 0, "");
}

#[test]
fn braces_that_open_nothing_stay() {
    check(
        r#"{"channel":"{channel}","data":{"x":{}}}"#,
        0,
        r#"{"channel":"a b:ü","data":{"x":{}}}"#,
    );
    check("{{n}", 5, "{n}");
    check("{{{n}", 5, "{{n}");
    check("{ n}", 5, "{ n}");
    check("a{", 5, "a{");
    check("é{n}é", 5, "é5é");
}

#[test]
fn random_numbers_stay_in_bounds() {
    let template = Template::compile("{rand:7-9}", HoleScope::Channel, None).unwrap();
    let mut rng = Rng::new(9);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        seen.insert(template.render_to_string(&Values::default(), &mut rng));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["7", "8", "9"]);
    let whole = format!("{{rand:0-{}}}", u64::MAX);
    assert!(render(&whole, HoleScope::Channel, 0).parse::<u64>().is_ok());
}

#[test]
fn what_cannot_be_filled_is_refused_with_its_position() {
    check_refused("ab{n", HoleScope::Channel, 2, "no `}` closes");
    check_refused("{nn}", HoleScope::Channel, 0, "did you mean `{n}`?");
    check_refused(
        "x{chanel}",
        HoleScope::Publish,
        1,
        "did you mean `{channel}`?",
    );
    check_refused(
        "{zzzzzz}",
        HoleScope::Channel,
        0,
        "a channel name can have `{n}`, `{rand}`",
    );
    check_refused(
        "{payload}",
        HoleScope::Channel,
        0,
        "no meaning in a channel name",
    );
    check_refused(
        "{payload}",
        HoleScope::Connection,
        0,
        "no meaning in a connection's URL",
    );
    check_refused("{n%0}", HoleScope::Channel, 0, "division by zero");
    check_refused("{n/0}", HoleScope::Channel, 0, "division by zero");
    for text in [
        "{n%}",
        "{n-1}",
        "{n%x}",
        "{n:4}",
        "{n%99999999999999999999}",
        "{n %4}",
    ] {
        check_refused(text, HoleScope::Channel, 0, "takes `%`");
    }
    for text in [
        "{rand:5}",
        "{rand5}x",
        "{rand:a-b}",
        "{rand:-5}",
        "{rand:1-}",
    ] {
        let error = Template::compile(text, HoleScope::Channel, None).unwrap_err();
        assert_eq!(error.at, 0, "{text}: {error}");
    }
    check_refused("{rand:9-1}", HoleScope::Channel, 0, "range is empty");
    check_refused("{channel:x}", HoleScope::Publish, 0, "`:url`");
    check_refused("{payload:x}", HoleScope::Publish, 0, "`:base64`");
}

#[test]
fn a_template_knows_what_it_needs() {
    let template = |text| Template::compile(text, HoleScope::Publish, None).unwrap();
    assert!(template("plain").is_constant());
    assert!(!template("{n}").is_constant());
    assert!(template("{payload}").has_payload() && !template("{n}").has_payload());
    assert!(template("{rand}").is_random());
}

proptest! {
    #[test]
    fn an_escaped_text_compiles_to_itself(text in r#"([{}nx"%:a-z]|\PC){0,40}"#) {
        prop_assert_eq!(render(&escape(&text), HoleScope::Channel, 3), text);
    }

    #[test]
    fn no_text_panics(text in r"[{}nrand:%/0-9+*-]{0,40}") {
        if let Ok(template) = Template::compile(&text, HoleScope::Publish, None) {
            let _ = template.render_to_string(&Values::default(), &mut Rng::new(0));
        }
    }
}
