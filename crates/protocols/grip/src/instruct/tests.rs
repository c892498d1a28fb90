use super::*;
use throng_types::cases;

fn read(headers: &[(&str, &str)], body: &str) -> Result<Instruct, InstructError> {
    let fields: Vec<HeaderRef<'_>> = headers.iter().map(|&(n, v)| (n, v.as_bytes())).collect();
    let head = ResponseHead {
        code: 200,
        reason: "OK",
        headers: &fields,
    };
    Instruct::from_response(head, body.as_bytes(), 20)
}

#[track_caller]
fn fault(headers: &[(&str, &str)], body: &str, expect: &str) {
    let found = read(headers, body)
        .expect_err("must be refused")
        .to_string();
    assert_eq!(found, expect);
}

/// An instruction as `instructions.txt` has it.
fn describe(found: &Instruct) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let mut out = vec![format!("{:?}", found.hold)];
    for channel in &found.channels {
        let prev_id = channel.prev_id.as_ref().map(|id| format!(" after {id}"));
        let mut told = format!("channel {}{}", channel.name, prev_id.unwrap_or_default());
        for filter in channel.filters.iter() {
            told.extend([" ", filter.name()]);
        }
        out.push(told);
    }
    out.extend((found.timeout_s != 55).then(|| format!("timeout {}", found.timeout_s)));
    out.extend(found.keep_alive.as_ref().map(|it| {
        let data = text(&it.data);
        format!("keep-alive {:?} {data} every {}", it.mode, it.timeout_s)
    }));
    let meta = found.meta.iter();
    out.extend(meta.map(|(name, value)| format!("meta {name}={value}")));
    let reply = &found.reply;
    let status = format!("{} {}", reply.code, reply.reason.as_deref().unwrap_or("-"));
    out.extend(Some(status).filter(|status| status != "200 OK"));
    let next = found.next.as_ref();
    out.extend(next.map(|next| format!("next {} in {}", next.uri, next.timeout_s)));
    out.extend(found.gone.as_ref().map(|uri| format!("gone {uri}")));
    let headers = reply.headers.iter();
    out.extend(headers.map(|header| format!("{}: {}", header.name, text(&header.value))));
    if let Some(body) = &reply.body {
        out.push(format!("body {}", text(body)).trim_end().to_owned());
    }
    out.join(" / ")
}

#[test]
fn instructions() {
    for (response, expected) in cases(include_str!("instructions.txt")) {
        let (fields, body) = response.split_once(" || ").unwrap_or((response, ""));
        let fields = { fields.split(" | ") }.map(|field| field.split_once(": ").unwrap());
        let found = read(&fields.collect::<Vec<_>>(), body).unwrap();
        assert_eq!(describe(&found), expected, "{response}");
    }
    let many = (0..25).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let found = read(&[("Grip-Channel", &many)], "").unwrap();
    assert_eq!(found.channels.len(), 20);
}

#[test]
fn refused_headers() {
    for (header, expect) in cases(include_str!("refused_headers.txt")) {
        let (name, value) = header.split_once(": ").unwrap();
        fault(&[(name, value)], "", expect);
    }
    let filters = format!("c{}", "; filter=skip-self".repeat(6));
    fault(
        &[("Grip-Channel", &filters)],
        "",
        "channel 'c' has more filters than it may",
    );
}

const DOCUMENT: (&str, &str) = ("Content-Type", "application/grip-instruct; charset=utf-8");

#[test]
fn refused_documents() {
    for (body, expect) in cases(include_str!("refused_documents.txt")) {
        fault(&[DOCUMENT], body, expect);
    }
    fault(
        &[DOCUMENT],
        &" ".repeat(INSTRUCT_BODY_BYTES_MAX + 1),
        "the application/grip-instruct body is larger than 100000 bytes",
    );
    let fields: &[HeaderRef<'_>] = &[("Content-Type", b"application/grip-instruct")];
    let head = ResponseHead {
        code: 201,
        reason: "",
        headers: fields,
    };
    assert_eq!(
        Instruct::from_response(head, b"{}", 20),
        Err(InstructError::DocumentStatus)
    );
}

#[test]
fn what_is_grip() {
    let is_grip = |headers: &[HeaderRef<'_>]| {
        ResponseHead {
            code: 200,
            reason: "",
            headers,
        }
        .is_grip()
    };
    assert!(is_grip(&[("gRIP-Anything", b"")]));
    assert!(is_grip(&[("content-type", b"application/grip-instruct;x")]));
    assert!(!is_grip(&[
        ("Content-Type", b"text/plain"),
        ("X-Grip-Hold", b"stream")
    ]));
}

proptest::proptest! {
    #[test]
    fn nothing_panics(
        name in "Grip-(Channel|Keep-Alive|Link|Set-Meta|Status|Timeout|Last)",
        value in "[a-z0-9 \\\\\"<>,;=x-]{0,40}",
    ) {
        let _ = read(&[("Grip-Hold", "stream"), (&name, &value)], "");
    }

    #[test]
    fn no_document_panics(
        body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80),
    ) {
        let fields: &[HeaderRef<'_>] = &[("Content-Type", b"application/grip-instruct")];
        let head = ResponseHead { code: 200, reason: "", headers: fields };
        let _ = Instruct::from_response(head, &body, 20);
    }
}
