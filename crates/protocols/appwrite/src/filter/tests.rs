//! Tables of queries and payloads, refusals, limits and noise.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn parse(queries: &[&str]) -> Result<Filter, Fault> {
    Filter::parse(queries, &Limits::default(), Fault::UrlQuery)
}

#[track_caller]
fn check(queries: &[&str], payload: Value, wants: bool) {
    let filter = parse(queries).unwrap();
    let Value::Object(payload) = payload else {
        panic!("a payload is an object");
    };
    assert_eq!(filter.wants(&payload), wants, "{queries:?} on {payload:?}");
}

fn query(method: &str, attribute: &str, values: &Value) -> String {
    json!({"method": method, "attribute": attribute, "values": values}).to_string()
}

#[test]
fn leaves() {
    let one = |method: &str, values: Value, payload: Value, wants| {
        check(&[&query(method, "a", &values)], payload, wants);
    };
    one("equal", json!(["x"]), json!({"a": "x"}), true);
    one("equal", json!(["y", "x"]), json!({"a": "x"}), true);
    one("equal", json!([1]), json!({"a": "1"}), false);
    one("equal", json!([1]), json!({"a": 1.0}), false);
    one("equal", json!([true]), json!({"a": true}), true);
    one("equal", json!([null]), json!({"a": null}), true);
    one("equal", json!([["p", "q"]]), json!({"a": ["p", "q"]}), true);
    one("equal", json!(["p"]), json!({"a": ["p", "q"]}), false);
    one("equal", json!([]), json!({"a": "x"}), false);
    one("equal", json!(["x"]), json!({"b": "x"}), false);
    one("notEqual", json!(["x"]), json!({"a": "y"}), true);
    one("notEqual", json!(["x", "y"]), json!({"a": "y"}), false);
    one("notEqual", json!([]), json!({"a": "y"}), true);
    // A missing attribute fails even the negation.
    one("notEqual", json!(["x"]), json!({}), false);
    one("lessThan", json!([5]), json!({"a": 4}), true);
    one("lessThan", json!([5]), json!({"a": "4"}), true);
    one("lessThan", json!([5]), json!({"a": null}), true);
    one("lessThan", json!([5, 1]), json!({"a": 3}), true);
    one("lessThanEqual", json!([5]), json!({"a": 5.0}), true);
    one("greaterThan", json!([5]), json!({"a": [1]}), true);
    one(
        "greaterThan",
        json!(["2026-01-01"]),
        json!({"a": "2026-08-21"}),
        true,
    );
    one("greaterThanEqual", json!([5]), json!({"a": "abc"}), true);
    one("greaterThanEqual", json!([5]), json!({"a": 4}), false);
    one("isNull", json!([]), json!({"a": null}), true);
    one("isNull", json!([]), json!({"a": 0}), false);
    one("isNull", json!([]), json!({}), false);
    one("isNotNull", json!([]), json!({"a": 0}), true);
    one("isNotNull", json!([]), json!({"a": null}), false);
    one("isNotNull", json!([]), json!({}), false);
    // Only the top level is looked at, and a dot is part of a name.
    check(
        &[&query("equal", "a.b", &json!([1]))],
        json!({"a": {"b": 1}}),
        false,
    );
    check(
        &[&query("equal", "a.b", &json!([1]))],
        json!({"a.b": 1}),
        true,
    );
}

#[test]
fn conjunctions() {
    let a = json!({"method": "equal", "attribute": "a", "values": [1]});
    let b = json!({"method": "equal", "attribute": "b", "values": [2]});
    let and = json!({"method": "and", "values": [a, b]}).to_string();
    let or = json!({"method": "or", "values": [a, b]}).to_string();
    check(&[&and], json!({"a": 1, "b": 2}), true);
    check(&[&and], json!({"a": 1}), false);
    check(&[&or], json!({"a": 1}), true);
    check(&[&or], json!({"b": 2}), true);
    check(&[&or], json!({"a": 2, "b": 1}), false);
    check(
        &[&a.to_string(), &b.to_string()],
        json!({"a": 1, "b": 2}),
        true,
    );
    check(
        &[&a.to_string(), &b.to_string()],
        json!({"a": 1, "b": 3}),
        false,
    );
    check(&[&or, &a.to_string()], json!({"b": 2}), false);
    check(&[r#"{"method":"and"}"#], json!({}), true);
    check(&[r#"{"method":"or","values":[]}"#], json!({}), false);
}

#[test]
fn select_everything() {
    assert!(parse(&[]).unwrap().is_all());
    let star = r#"{"method":"select","values":["*"]}"#;
    assert!(parse(&[star]).unwrap().is_all());
    // Beside a failing query it still means everything.
    check(&[&query("equal", "a", &json!([1])), star], json!({}), true);
    // Inside a conjunction it means nothing.
    let inside = format!(r#"{{"method":"and","values":[{star}]}}"#);
    check(&[&inside], json!({"a": 1}), false);
    let beside = format!(
        r#"{{"method":"or","values":[{star},{}]}}"#,
        query("isNull", "a", &json!([]))
    );
    check(&[&beside], json!({"a": null}), true);
}

#[test]
fn refusals() {
    let refused = |query: &str| match parse(&[query]) {
        Err(Fault::UrlQuery(text)) => text,
        other => panic!("{query}: {other:?}"),
    };
    assert_eq!(refused("{"), "Invalid query: Syntax error");
    assert_eq!(refused("7"), "Invalid query. Must be an array, got integer");
    assert_eq!(refused("[]"), "Invalid query method: ");
    assert_eq!(
        refused(r#"{"method":"nope"}"#),
        "Invalid query method: nope"
    );
    assert_eq!(
        refused(r#"{"method":7}"#),
        "Invalid query method. Must be a string, got integer"
    );
    assert_eq!(
        refused(r#"{"method":"equal","attribute":[]}"#),
        "Invalid query attribute. Must be a string, got array"
    );
    assert_eq!(
        refused(r#"{"method":"equal","attribute":"a","values":"x"}"#),
        "Invalid query values. Must be an array, got string"
    );
    let unsupported = refused(r#"{"method":"contains","attribute":"a","values":["x"]}"#);
    assert_eq!(
        unsupported,
        "Query method 'contains' is not supported in Realtime queries. Allowed: equal, notEqual, \
         lessThan, lessThanEqual, greaterThan, greaterThanEqual, isNull, isNotNull, and, or, select"
    );
    for php in [
        r#"{"method":"select","values":["a"]}"#,
        r#"{"method":"and","values":["x"]}"#,
        r#"{"method":"equal","attribute":"a","values":{"x":1}}"#,
    ] {
        assert!(matches!(parse(&[php]), Err(Fault::Internal(_))), "{php}");
    }
}

#[test]
fn limits_hold() {
    let limits = Limits {
        queries_max: 3,
        query_depth_max: 1,
        query_values_max: 2,
        ..Limits::default()
    };
    let with = |queries: &[&str]| Filter::parse(queries, &limits, Fault::MessageQuery);
    let leaf = r#"{"method":"isNull","attribute":"a"}"#;
    assert!(with(&[leaf, leaf, leaf]).is_ok());
    assert!(matches!(with(&[leaf; 4]), Err(Fault::MessageQuery(_))));
    let nested = format!(r#"{{"method":"and","values":[{leaf}]}}"#);
    assert!(with(&[&nested]).is_ok());
    let deeper = format!(r#"{{"method":"and","values":[{nested}]}}"#);
    assert!(with(&[&deeper]).is_err());
    assert!(with(&[&query("equal", "a", &json!([1, 2, 3]))]).is_err());
    let deep_json = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(with(&[&deep_json]).is_err());
}

#[test]
fn the_text_is_what_appwrite_answers() {
    let filter = parse(&[
        r#"{ "values" : ["x", 1], "attribute":"a", "method":"equal" }"#,
        r#"{"method":"or","values":[{"method":"isNull","attribute":"b"}]}"#,
    ])
    .unwrap();
    let texts: Vec<String> = serde_json::from_str(filter.text()).unwrap();
    assert_eq!(
        texts,
        [
            r#"{"method":"equal","attribute":"a","values":["x",1]}"#,
            r#"{"method":"or","values":[{"method":"isNull","attribute":"b","values":[]}]}"#,
        ]
    );
    // Reading the text again gives the same filter.
    assert_eq!(
        parse(&texts.iter().map(String::as_str).collect::<Vec<_>>()).unwrap(),
        filter
    );
}

proptest! {
    #[test]
    fn nothing_panics(text in ".{0,80}", piece in "[{}\\[\\]\":,a-z0-9]{0,40}") {
        let _ = parse(&[&text]);
        let _ = parse(&[&piece]);
    }
}
