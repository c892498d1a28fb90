//! Blocks of RFC 7541 appendix C, and rules over all fields.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, NotHpack> {
    let mut fields = Vec::new();
    decoder.decode(block, &mut Vec::new(), |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
    })?;
    Ok(fields)
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("hex"));
    digits
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
        .collect()
}

/// Decodes blocks of one connection, and compares their fields, each `name: value`.
#[track_caller]
fn check(blocks: &[(&str, &str)]) {
    let mut decoder = Decoder::new();
    for (hex, expected) in blocks {
        let fields = decode(&mut decoder, &bytes(hex)).expect("a block");
        let fields = fields
            .iter()
            .map(|(name, value)| format!("{}: {}", name.escape_ascii(), value.escape_ascii()));
        assert_eq!(fields.collect::<Vec<_>>().join("\n"), *expected, "{hex}");
    }
}

const FIRST: &str = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com";
const SECOND: &str =
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache";
const THIRD: &str = ":method: GET\n:scheme: https\n:path: /index.html\n\
    :authority: www.example.com\ncustom-key: custom-value";

#[test]
fn the_examples_are_read() {
    check(&[
        ("828684410f7777772e6578616d706c652e636f6d", FIRST),
        ("828684be58086e6f2d6361636865", SECOND),
        (
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
            THIRD,
        ),
    ]);
    check(&[
        ("828684418cf1e3c2e5f23a6ba0ab90f4ff", FIRST),
        ("828684be5886a8eb10649cbf", SECOND),
        ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", THIRD),
    ]);
    // Without an entry in the table, and never to be in one.
    check(&[
        ("040c2f73616d706c652f70617468", ":path: /sample/path"),
        ("100870617373776f726406736563726574", "password: secret"),
    ]);
}

#[test]
fn the_table_forgets_the_oldest_and_is_as_large_as_the_peer_says() {
    // A table of 80 bytes has room for two of these, of 34 bytes each.
    let entry = |name: char| format!("4001{:02x}0131", u32::from(name));
    let all = ["3f31".to_owned(), entry('a'), entry('b'), entry('c')];
    let mut decoder = Decoder::new();
    decode(&mut decoder, &bytes(&all.concat())).expect("a block");
    let held = |decoder: &mut Decoder, hex| decode(decoder, &bytes(hex)).map(|fields| fields.len());
    assert_eq!(held(&mut decoder, "bebf"), Ok(2));
    assert_eq!(held(&mut decoder, "c0"), Err(NotHpack));
    // One that is too large empties it.
    let huge = ["4001617f01", &"78".repeat(128)].concat();
    assert_eq!(held(&mut decoder, &huge), Ok(1));
    assert_eq!(held(&mut decoder, "be"), Err(NotHpack));
    assert_eq!(decoder.held_bytes(), 0);
    // Two updates may begin a block, and none stands within it.
    assert_eq!(held(&mut decoder, "203fe11f82"), Ok(1));
    assert_eq!(held(&mut decoder, "8220"), Err(NotHpack));
}

#[test]
fn names_and_values_are_made_clean() {
    let mut block = Vec::new();
    encode_status(200, &mut block);
    encode_field("Content-Type", b" text/plain\r\n", &mut block);
    encode_field("a b\n", b"1\r\nx: 2", &mut block);
    encode_field("", b"\xff", &mut block);
    for name in [
        "Connection",
        "keep-alive",
        "transfer-encoding",
        "Upgrade",
        "proxy-connection",
    ] {
        encode_field(name, b"x", &mut block);
    }
    let fields = decode(&mut Decoder::new(), &block).expect("a block");
    let expected: [(&[u8], &[u8]); 4] = [
        (b":status", b"200"),
        (b"content-type", b"text/plain"),
        (b"a_b_", b"1  x: 2"),
        (b"_", b"\xff"),
    ];
    assert!(
        fields
            .iter()
            .map(|(name, value)| (&name[..], &value[..]))
            .eq(expected)
    );
    assert_eq!(block[0], 0x88, "the static table has it");
}

proptest! {
    #[test]
    fn fields_come_back(
        fields in vec(("[a-z:-]{1,150}", vec(any::<u8>(), 0..150)), 0..6),
    ) {
        let mut block = vec![NO_TABLE];
        for (name, value) in &fields {
            encode_indexed(name, value, &mut block);
        }
        let mut decoder = Decoder::new();
        let decoded = decode(&mut decoder, &block).expect("a block");
        let fields = fields.into_iter().map(|(name, value)| (name.into_bytes(), value));
        prop_assert_eq!(decoded, fields.collect::<Fields>());
        prop_assert_eq!(decoder.held_bytes(), 0);
    }

    #[test]
    fn no_bytes_panic(blocks in vec(vec(any::<u8>(), 0..40), 0..6)) {
        let mut decoder = Decoder::new();
        for block in blocks {
            let _ = decode(&mut decoder, &block);
            throng_types::check_saved(&decoder);
        }
    }
}
