use proptest::prelude::*;

use super::*;
use throng_http1::origin::{OriginTarget, TargetAddress};

use crate::headers::Header;
use throng_types::cases;

fn origin(host: &str, port: u16) -> OriginTarget {
    OriginTarget::new(TargetAddress::Origin {
        host: host.to_owned(),
        port,
    })
}

#[track_caller]
fn line(text: &str) -> Route {
    parse_route_line(text).unwrap().unwrap()
}

#[track_caller]
fn fault(text: &str, expect: &str) {
    let file = parse_routes(&format!("# first\n{text}\n"));
    let found: Vec<String> = file.faults.iter().map(ToString::to_string).collect();
    assert_eq!(found, [format!("line 2: {expect}")]);
    assert!(file.routes.is_empty());
}

#[test]
fn lines_of_real_files() {
    // Debian's file, the seed's, the test harness of the Fastly command line.
    assert_eq!(
        line("* test").to.targets,
        [OriginTarget::new(TargetAddress::Test)]
    );
    assert_eq!(line("* localhost:80").to.targets, [origin("localhost", 80)]);
    let found = line("id=backend,replace_beg=/p 10.0.0.1:443,over_http,ssl,host=example.com");
    assert_eq!(
        (found.domain, found.id.as_deref()),
        (Domain::None, Some("backend"))
    );
    assert_eq!(
        (found.path_remove_bytes, found.path_prepend.as_str()),
        (0, "/p")
    );
    let mut target = origin("10.0.0.1", 443);
    (target.over_http, target.tls, target.host) = (true, true, Some("example.com".to_owned()));
    assert_eq!(found.to.targets, [target]);

    let found = line(concat!(
        r#"Example.com,proto=ws,ssl=yes,path_beg=/a,sig_iss=me,sig_key="base64:x=,","#,
        r#"prefix=p:,orig_headers,as_host=h,path_rem=2,debug,aco,"header=X-A:  1","#,
        r#"header="B:",no_grip,log_level=3 a:1,sub=x,sub=y,untrusted [::1]:2,"#,
        r#"insecure,trust_connect_host,one_event # tail"#,
    ));
    assert_eq!(found.domain, Domain::Exact("example.com".to_owned()));
    assert_eq!(
        (found.protocol, found.is_tls),
        (Some(Protocol::Ws), Some(true))
    );
    assert_eq!(found.sig_key.as_deref(), Some("base64:x=,"));
    assert_eq!(
        found.headers,
        [Header::new("X-A", "1"), Header::new("B", "")]
    );
    assert!(found.debug && found.auto_cross_origin && found.orig_headers && found.no_grip);
    assert_eq!((found.path_remove_bytes, found.log_level), (2, Some(3)));
    assert_eq!(found.to.targets[0].subscriptions, ["x", "y"]);
    assert!(!found.to.targets[0].trusted);
    assert_eq!(found.to.targets[1].address, origin("::1", 2).address);
    assert!(found.to.targets[1].insecure && found.to.targets[1].one_event);
    assert_eq!(parse_route_line("  # nothing"), Ok(None));
    assert_eq!(parse_route_line(""), Ok(None));
}

#[test]
fn refused_lines() {
    for (line, expect) in cases(include_str!("refused.txt")) {
        fault(line, expect);
    }
    fault(
        &format!("*{}", " a:1".repeat(101)),
        "a route has at most 100 targets",
    );
    let file = parse_routes("*,id=a a:1\n* b:2\nx,id=a c:3\n");
    let found: Vec<String> = file.faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "line 2: another route has the same condition",
            "line 3: another route has the id 'a'"
        ]
    );
    assert_eq!(file.routes.len(), 1);
}

#[test]
fn lines_that_pushpin_passes_over_are_told_from_those_that_it_serves() {
    for (line, expected) in cases(include_str!("skipped.txt")) {
        let fault = parse_route_line(line).expect_err(line);
        let found = if fault.is_skipped() {
            "passes over"
        } else {
            "serves"
        };
        assert_eq!(found, expected, "{line}: {fault}");
    }
    let file = parse_routes("*,id=a a:1\n* b:2\nx,id=a c:3\n");
    let skipped: Vec<bool> = file
        .faults
        .iter()
        .map(|fault| fault.kind.is_skipped())
        .collect();
    assert_eq!(skipped, [true, false]);
}

#[test]
fn the_best_route_wins() {
    let file = parse_routes(
        "*,id=any any:1\n\
         *,id=long,path_beg=/a/b x:1\n\
         *,id=short,path_beg=/a x:1\n\
         *,id=tls,path_beg=/a,ssl=yes x:1\n\
         *,id=ws,proto=ws x:1\n\
         h.com,id=host,path_beg=/only x:1\n\
         id=hidden,path_beg=/h x:1\n",
    );
    assert_eq!(file.faults, []);
    let find = |protocol, is_tls, host, path| {
        file.routes
            .find(protocol, is_tls, host, path)
            .and_then(|route| route.id.as_deref())
    };
    use Protocol::{Http, Ws};
    assert_eq!(find(Http, false, "x", "/"), Some("any"));
    assert_eq!(find(Http, false, "x", "/a/bc?q"), Some("long"));
    assert_eq!(find(Http, true, "x:443", "/a/b"), Some("long"));
    assert_eq!(find(Http, false, "x", "/a/c"), Some("short"));
    assert_eq!(find(Http, true, "x", "/a/c"), Some("tls"));
    assert_eq!(find(Ws, true, "x", "/a/b"), Some("ws"));
    assert_eq!(find(Http, false, "H.com:80", "/only/x"), Some("host"));
    // A host with routes never falls back.
    assert_eq!(find(Http, false, "h.com", "/"), None);
    let by_id = |id, path| file.routes.find_id(id, path).is_some();
    assert!(by_id("hidden", "/h/x") && !by_id("hidden", "/x") && !by_id("nobody", "/"));
}

#[test]
fn paths_for_origins() {
    assert_eq!(
        line("*,path_beg=/api,replace_beg=/v1 a:1").origin_path("/api/x?q=1"),
        "/v1/x?q=1"
    );
    assert_eq!(
        line("*,path_beg=/api,replace_beg= a:1").origin_path("/api"),
        "/"
    );
    assert_eq!(line("*,path_rem=4 a:1").origin_path("/api/x"), "/x");
    assert_eq!(line("*,path_rem=400 a:1").origin_path("/api/x"), "/");
    assert_eq!(line("* a:1").origin_path("/x"), "/x");
}

proptest! {
    #[test]
    fn no_line_panics(text in "[a-z*,=\"\\\\ #:/0-9\\[\\]é]{0,60}") {
        let _ = parse_routes(&text);
    }
}

#[test]
fn domains_that_no_host_is_equal_to() {
    for domain in ["example.com:8080", "[::1]", "[::1]:80", "[", "a]"] {
        fault(
            &format!("{domain} t:8"),
            &format!(
                "the domain '{domain}' can match no host: it must stand without a port and \
                 without brackets"
            ),
        );
    }
    let file = parse_routes("::1 t:8\n");
    assert!(
        file.routes
            .find(Protocol::Http, false, "[::1]:80", "/")
            .is_some()
    );
}
