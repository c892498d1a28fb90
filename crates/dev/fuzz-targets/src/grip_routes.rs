//! Pushpin's `routes` file: each line is a route or a fault, a route can be used, and a request
//! that fits its condition finds one.

use throng_grip::routes::{Domain, Protocol, Route, Routes, parse_route_line, parse_routes};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"* localhost:80\n# comment\nexample.com,path_beg=/a,proto=ws,ssl=no \
      [::1]:443,ssl,over_http,sub=x test\n",
    b"a.b,id=r,prefix=p-,debug,aco,header=A:b,sig_iss=i,sig_key=\"a \
      b\",as_host=h,path_rem=2,log_level=1 h:1,host=o,insecure,trusted\r\n,id=x c:9\n",
    b"*,replace_beg=/v2,path_beg=/v1,no_grip,orig_headers h:65535,one_event,client_cert=a,\
      client_key=b\n\"quoted,name\" h:1\n*,jsonp_mode=x h:1\nh zhttp/x\nh\n",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn grip_routes(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let file = parse_routes(text);
    let of_lines = text.lines().map(parse_route_line);
    let (mut usable, mut wrong) = (0, 0);
    for route in of_lines {
        match route {
            Ok(Some(route)) => {
                usable += 1;
                check(&route);
            }
            Ok(None) => {}
            Err(_) => wrong += 1,
        }
    }
    // Lines that are faults only in the company of others.
    let doubles = usable - file.routes.len();
    assert_eq!(file.faults.len(), wrong + doubles);
    for route in file.routes.iter() {
        if let Some(id) = &route.id {
            let found = file.routes.find_id(id, &route.path_prefix);
            assert_eq!(found.map(|found| &found.id), Some(&route.id));
        }
        finds(&file.routes, route);
    }
}

fn check(route: &Route) {
    assert!(!route.to.targets.is_empty());
    assert!(route.domain != Domain::None || route.id.is_some());
    for path in ["/", "/a?b", "/\u{e9}\u{20ac}x"] {
        assert!(route.origin_path(path).starts_with('/'));
    }
    let mut alone = Routes::default();
    assert_eq!(alone.add(route.clone()), Ok(()));
    finds(&alone, route);
}

fn finds(routes: &Routes, route: &Route) {
    let host = match &route.domain {
        Domain::Exact(domain) if domain.contains(':') => format!("[{domain}]:80"),
        Domain::Exact(domain) => format!("{domain}:80"),
        Domain::Any => "no host has this name".to_owned(),
        Domain::None => return,
    };
    let protocol = route.protocol.unwrap_or(Protocol::Http);
    let is_tls = route.is_tls.unwrap_or_default();
    let found = routes.find(protocol, is_tls, &host, &route.path_prefix);
    let found = found.expect("a request that fits its condition");
    assert_eq!(found.domain, route.domain);
    assert!(found.path_prefix.len() >= route.path_prefix.len() || found.protocol.is_some());
}
