//! `throng doctor`. What the machine has is its own business; that the answer has its form is ours.

use serde_json::Value;

use crate::program::{run, run_line};

#[test]
fn the_diagnosis_is_one_json_object() {
    let done = run(&["doctor", "--json", "--connections", "1"]).expect(0);
    let told: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(told["connections"], 1);
    assert_eq!(told["role"], "server");
    assert!(
        told["checks"]
            .as_array()
            .unwrap()
            .iter()
            .any(|check| check["id"] == "nofile")
    );
    let done = run_line("doctor --json --connections 900000M --role both").expect(1);
    let told: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(
        (&told["status"], &told["role"]),
        (&"fail".into(), &"both".into())
    );
}

#[test]
fn text_has_no_colour_in_a_pipe() {
    let done = run(&["doctor"]).prints(&["LIMIT", "nofile"]);
    assert!(!done.out.contains('\x1b'));
    run(&["doctor", "--connections", "0"])
        .expect(2)
        .says(&["above 0"]);
}
