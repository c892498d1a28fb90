use proptest::prelude::*;

use crate::{BYTES_MAX, DeltaError, DeltaUnit, apply, encode};

#[track_caller]
fn check(base: &[u8], target: &[u8], unit: DeltaUnit) -> Option<Vec<u8>> {
    let delta = encode(base, target, unit)?;
    assert!(delta.len() < target.len());
    assert_eq!(apply(base, &delta, target.len()).as_deref(), Ok(target));
    Some(delta)
}

/// The bytes that clients get. That the clients of others read them is tested with those clients.
#[test]
fn a_delta_is_written_as_the_format_says() {
    let base = br#"{"symbol":"ABC","price":101.25,"volume":120000,"day":"2026-11-22"}"#;
    let target = br#"{"symbol":"ABC","price":101.75,"volume":120400,"day":"2026-11-22"}"#;
    let delta = check(base, target, DeltaUnit::Char).unwrap();
    assert_eq!(
        String::from_utf8(delta).unwrap(),
        "12\nS@0,1:7E@T,1:4M@h,2_r0w~;"
    );
    let once = check(b"0123456789abcdef", b"0123456789abcdef", DeltaUnit::Byte);
    assert_eq!(once.unwrap(), b"G\nG@0,12xn;");
}

#[test]
fn what_would_not_be_shorter_is_no_delta() {
    for (base, target) in [
        ("", ""),
        ("abc", "abc"),
        ("abcdefgh", "ijklmnop"),
        ("", "abcdefgh"),
    ] {
        let delta = encode(base.as_bytes(), target.as_bytes(), DeltaUnit::Byte);
        assert_eq!(delta, None, "{base} {target}");
    }
    let long = vec![b'a'; BYTES_MAX + 1];
    assert_eq!(
        encode(&long, b"aaaaaaaaaaaaaaaaaaaaaaa", DeltaUnit::Byte),
        None
    );
    assert_eq!(
        encode(b"aaaaaaaaaaaaaaaaaaaaaaa", &long, DeltaUnit::Byte),
        None
    );
    assert!(check(&long[1..], &long[1..], DeltaUnit::Byte).is_some());
}

/// Finds text that has moved, wherever it went.
#[test]
fn parts_in_another_order_are_copied() {
    let part = |name: char| format!("{{\"player\":\"{name}\",\"place\":[10,20],\"score\":100}}");
    let base = format!("[{},{},{}]", part('a'), part('b'), part('c'));
    let target = format!("[{},{},{}]", part('c'), part('a'), part('b'));
    let delta = check(base.as_bytes(), target.as_bytes(), DeltaUnit::Char).unwrap();
    assert!(
        delta.len() < target.len() / 2,
        "{}",
        String::from_utf8_lossy(&delta)
    );
}

/// Two characters that begin, or end, with the same bytes.
#[test]
fn a_delta_of_two_texts_cuts_no_character() {
    let around = "a long beginning that both have: ";
    for (one, other) in [
        ("é", "è"),
        ("日", "旦"),
        ("Ж", "Ц"),
        ("😀", "😁"),
        ("é", "日"),
    ] {
        let base = format!("{around}{one}{around}");
        let target = format!("{around}{other}{around}");
        let delta = check(base.as_bytes(), target.as_bytes(), DeltaUnit::Char).unwrap();
        assert!(str::from_utf8(&delta).is_ok(), "{one} {other}");
    }
}

/// Inputs that lead every look-up to long runs that are of no use: the work is bounded, so this
/// ends. It would take hours if every run were compared.
#[test]
fn runs_that_mislead_cost_no_more_than_their_bound() {
    let base = vec![b'a'; BYTES_MAX];
    let mut target = Vec::new();
    while target.len() + 2000 < BYTES_MAX {
        target.extend_from_slice(&[b'a'; 1999]);
        target.push(b'b');
    }
    check(&base, &target, DeltaUnit::Byte).unwrap();
    let mut periodic = b"abcdefgh".repeat(BYTES_MAX / 8);
    check(&base, &periodic, DeltaUnit::Byte);
    check(&periodic.clone(), &base, DeltaUnit::Byte);
    periodic.reverse();
    check(&base, &periodic, DeltaUnit::Byte);
}

#[test]
fn faults_are_named() {
    let base = b"0123456789abcdef";
    for (delta, fault) in [
        ("", DeltaError::Short),
        ("G", DeltaError::Short),
        ("\n", DeltaError::Number),
        ("~~~~~~\n", DeltaError::Number),
        ("G;", DeltaError::Length),
        ("zz\n", DeltaError::Length),
        ("G\nG@0,", DeltaError::Short),
        ("G\nG@1,12xn;", DeltaError::Base),
        ("G\nG@0;", DeltaError::Command),
        ("G\nG!0;", DeltaError::Command),
        ("G\nF@0,12xn;", DeltaError::Length),
        ("4\nG@0,12xn;", DeltaError::Length),
        ("G\nG:0,", DeltaError::Short),
        ("G\nG@0,12xo;", DeltaError::Checksum),
    ] {
        assert_eq!(apply(base, delta.as_bytes(), 64), Err(fault), "{delta:?}");
    }
}

/// Texts that have something in common: pieces of a few words.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("{\"key\":\"value\"},".to_owned()),
        Just("0123456789abcdefghijklmnop".to_owned()),
        Just("é日😀".to_owned()),
        Just("旦".to_owned()),
        Just("a".to_owned()),
        "[a-c]{1,12}",
    ];
    proptest::collection::vec(word, 0..40).prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #[test]
    fn a_delta_makes_its_target(base in pieces(), target in pieces()) {
        check(&base, &target, DeltaUnit::Byte);
        if let Some(delta) = check(&base, &target, DeltaUnit::Char) {
            prop_assert!(str::from_utf8(&delta).is_ok());
        }
    }

    #[test]
    fn so_it_does_of_any_bytes(base: Vec<u8>, target: Vec<u8>) {
        check(&base, &target, DeltaUnit::Byte);
        check(&base, &target, DeltaUnit::Char);
    }

    #[test]
    fn a_change_in_place_is_small(
        mut text in proptest::collection::vec(any::<u8>(), 200..2000),
        at in 0_usize..200,
        byte: u8,
    ) {
        let base = text.clone();
        text[at] = byte;
        let delta = check(&base, &text, DeltaUnit::Byte).unwrap();
        prop_assert!(delta.len() < 32);
    }

    #[test]
    fn no_bytes_break_the_reader(base: Vec<u8>, delta: Vec<u8>) {
        if let Ok(made) = apply(&base, &delta, 1000) {
            prop_assert!(made.len() <= 1000);
        }
    }

    #[test]
    fn a_broken_delta_makes_nothing_else(
        base in pieces(),
        target in pieces(),
        at: proptest::sample::Index,
        byte: u8,
    ) {
        if let Some(mut delta) = encode(&base, &target, DeltaUnit::Byte) {
            let at = at.index(delta.len());
            delta[at] = byte;
            // A sum does not see that two numbers changed places; lengths and bounds hold.
            if let Ok(made) = apply(&base, &delta, target.len()) {
                prop_assert!(made.len() <= target.len());
            }
        }
    }
}
