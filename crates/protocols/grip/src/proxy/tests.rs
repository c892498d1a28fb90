use super::*;

const RULES: RequestRules<'_> = RequestRules {
    is_trusted: false,
    grip: true,
    orig_headers: false,
    sig: Some("token"),
    last_ids: &[("a", "1")],
    forwarded_proto: None,
    strip_route: true,
    xff: XffRule {
        truncate: None,
        append: false,
    },
    peer_address: "9.9.9.9",
    host: None,
    headers: &[],
    cdn_loop: "",
};
const FEATURE: &str = "Grip-Feature: status, link:next, link:gone, filter:skip-self, \
                       filter:skip-users, filter:require-sub, filter:build-id, filter:var-subst";

#[track_caller]
fn check(rules: &RequestRules<'_>, client: &[(&str, &str)], expect: &[&str]) {
    let client: Vec<HeaderRef<'_>> = client.iter().map(|&(n, v)| (n, v.as_bytes())).collect();
    assert_eq!(show(&request_headers(&client, rules)), expect);
}

fn show(headers: &[Header]) -> Vec<String> {
    headers
        .iter()
        .map(|header| {
            format!(
                "{}: {}",
                header.name,
                String::from_utf8_lossy(&header.value)
            )
        })
        .collect()
}

#[test]
fn requests() {
    let client = &[
        ("Host", "h"),
        ("Connection", "close"),
        ("accept-encoding", "gzip"),
        ("Grip-Sig", "forged"),
        ("X-Forwarded-Proto", "forged"),
        ("X-Forwarded-For", "1.1.1.1, 2.2.2.2"),
        ("eb9bf0f5-x", "1"),
    ];
    check(
        &RULES,
        client,
        &[
            "Host: h",
            "Grip-Sig: token",
            FEATURE,
            "Grip-Last: a; last-id=1",
            "X-Forwarded-For: 1.1.1.1, 2.2.2.2",
        ],
    );
    let rules = RequestRules {
        is_trusted: true,
        forwarded_proto: Some("https"),
        xff: XffRule::parse("truncate:1,append").unwrap(),
        host: Some("o"),
        cdn_loop: "me",
        ..RULES
    };
    check(
        &rules,
        client,
        &[
            "Host: o",
            "Grip-Sig: forged",
            "CDN-Loop: me",
            "X-Forwarded-Proto: https",
            "X-Forwarded-For: 2.2.2.2, 9.9.9.9",
        ],
    );
    let own = [Header::new("X-New", "1"), Header::new("host", "")];
    let rules = RequestRules {
        grip: false,
        orig_headers: true,
        headers: &own,
        xff: XffRule::parse("truncate:0").unwrap(),
        ..RULES
    };
    check(&rules, &client[..1], &["eb9bf0f5-Host: h", "X-New: 1"]);
    assert_eq!(XffRule::parse("append, truncate:x"), None);
    assert!(is_response_hop("content-length", true) && !is_response_hop("Content-Length", false));
}

#[test]
fn what_a_backend_says_to_this_hop_stays_here() {
    let mut response: Vec<Header> = [
        ("Connection", "close, X-Hop"),
        ("x-hop", "1"),
        ("X-End", "2"),
        ("connection", "Grip-Hold, Content-Type"),
        ("Grip-Hold", "stream"),
        ("Content-Type", "a/b"),
    ]
    .map(|(name, value)| Header::new(name, value))
    .into();
    drop_named(&mut response);
    let left: Vec<&str> = response.iter().map(|header| header.name.as_str()).collect();
    assert_eq!(
        left,
        [
            "Connection",
            "X-End",
            "connection",
            "Grip-Hold",
            "Content-Type"
        ]
    );
    assert!(is_response_hop("upgrade", false));
}

#[test]
fn nothing_that_a_backend_trusts_comes_from_a_client() {
    let forged = [
        ("Grip_Sig", "x"),
        ("grip-sig", "x"),
        ("GRIP_Last", "x"),
        ("X_Forwarded_For", "6.6.6.6"),
        ("x-forwarded_proto", "https"),
        ("X-Forwarded-Protocol", "https"),
        ("Pushpin_Route", "x"),
        ("eb9bf0f5_x", "1"),
        ("X_Removed", "x"),
    ];
    let own = [Header::new("X-Removed", "")];
    let rules = RequestRules {
        headers: &own,
        ..RULES
    };
    let ours = ["Grip-Sig: token", FEATURE, "Grip-Last: a; last-id=1"];
    check(&rules, &forged, &ours);
    // A proxy that is trusted says what it has to under the right names.
    let trusted = RequestRules {
        is_trusted: true,
        ..rules
    };
    check(&trusted, &forged, &["grip-sig: x"]);
}

#[test]
fn what_belongs_to_a_hop_ends_there() {
    let client = [
        ("Connection", "Upgrade, HTTP2-Settings, X-Own"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAM"),
        ("X-Own", "1"),
        ("X-Other", "2"),
        ("Connection", "close , Forwarded, x-forwarded-for,Host"),
        ("TE", "trailers"),
        ("Keep_Alive", "5"),
        // Whoever is in front may have said these, and a client cannot take them away.
        ("Host", "h"),
        ("Forwarded", "for=1.1.1.1"),
        ("X-Forwarded-For", "1.1.1.1"),
    ];
    let rules = RequestRules {
        grip: false,
        ..RULES
    };
    let left = [
        "X-Other: 2",
        "Host: h",
        "Forwarded: for=1.1.1.1",
        "X-Forwarded-For: 1.1.1.1",
    ];
    check(&rules, &client, &left);
}

#[test]
fn cors() {
    let mut response = vec![
        Header::new("Content-Type", "x"),
        Header::new("X-A", "1"),
        Header::new("x-a", "2"),
        Header::new("Grip-X", ""),
    ];
    apply_cors(&[], &mut response);
    assert_eq!(
        show(&response[4..]),
        [
            "Access-Control-Allow-Methods: OPTIONS, HEAD, GET, POST, PUT, DELETE",
            "Access-Control-Expose-Headers: X-A",
            "Access-Control-Allow-Credentials: true",
            "Access-Control-Allow-Origin: *",
            "Access-Control-Max-Age: 3600",
        ]
    );
    let mut response = vec![Header::new("access-control-max-age", "1")];
    let request: &[HeaderRef<'_>] = &[
        ("Origin", b"http://a"),
        ("Access-Control-Request-Method", b"PATCH"),
        ("Access-Control-Request-Headers", b"x,,y"),
    ];
    apply_cors(request, &mut response);
    assert_eq!(
        show(&response),
        [
            "access-control-max-age: 1",
            "Access-Control-Allow-Methods: PATCH",
            "Access-Control-Allow-Headers: x, y",
            "Access-Control-Allow-Credentials: true",
            "Access-Control-Allow-Origin: http://a",
        ]
    );
}
