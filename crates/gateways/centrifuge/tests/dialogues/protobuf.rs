//! Commands in Protobuf, as steps of stories write them.

use throng_dialogue::unescaped;

/// A number, seven bits to a byte.
fn varint(mut number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// A field of bytes.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2][..], &varint(value.len()), value].concat()
}

/// The commands of a step: each is `ID:REQUEST FIELD=BYTES ..`, where the request is named by its
/// number; between them stands `+`.
pub(crate) fn commands(text: &str) -> Vec<u8> {
    let command = |text: &str| {
        let mut words = text.split(' ');
        let first = words.next().and_then(|word| word.split_once(':'));
        let (id, request) = first.expect("ID:REQUEST");
        let [id, request]: [u8; 2] = [id, request].map(|it| it.parse().expect("a number"));
        let fields = words.flat_map(|word| {
            let (number, value) = word.split_once('=').expect("FIELD=BYTES");
            field(number.parse().expect("a number"), &unescaped(value))
        });
        let command = [&[8, id][..], &field(request, &fields.collect::<Vec<u8>>())].concat();
        [varint(command.len()), command].concat()
    };
    text.split(" + ").flat_map(command).collect()
}
