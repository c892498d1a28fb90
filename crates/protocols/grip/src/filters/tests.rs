use super::*;

fn meta(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|&(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

#[track_caller]
fn check(
    filters: &[&str],
    sub: &[(&str, &str)],
    publication: &[(&str, &str)],
    content: &str,
    expect: Result<Option<&str>, &str>,
) {
    let context = FilterContext {
        sub_meta: &meta(sub),
        pub_meta: &meta(publication),
        channels: &[("news", Some("5")), ("chat", None)],
    };
    let filters = Filters::from_names(filters.iter().copied()).unwrap();
    let found = filters
        .apply(&context, content.as_bytes())
        .map(|filtered| match filtered {
            Filtered::Drop => None,
            Filtered::Send(content) => Some(String::from_utf8(content.into_owned()).unwrap()),
        })
        .map_err(|fault| fault.to_string());
    assert_eq!(
        found.as_ref().map(|f| f.as_deref()).map_err(String::as_str),
        expect
    );
}

#[test]
fn delivery_filters() {
    let self_ = &["skip-self"][..];
    check(self_, &[("user", "a")], &[("sender", "a")], "x", Ok(None));
    check(
        self_,
        &[("user", "a")],
        &[("sender", "b")],
        "x",
        Ok(Some("x")),
    );
    check(
        self_,
        &[("user", "")],
        &[("sender", "")],
        "x",
        Ok(Some("x")),
    );
    check(self_, &[], &[("sender", "a")], "x", Ok(Some("x")));
    let users = &["skip-users"][..];
    check(
        users,
        &[("user", "b")],
        &[("skip_users", "a, b ,c")],
        "x",
        Ok(None),
    );
    check(
        users,
        &[("user", "d")],
        &[("skip_users", "a,b")],
        "x",
        Ok(Some("x")),
    );
    check(
        users,
        &[("user", "")],
        &[("skip_users", ",")],
        "x",
        Ok(Some("x")),
    );
    let sub = &["require-sub"][..];
    check(sub, &[], &[("require_sub", "chat")], "x", Ok(Some("x")));
    check(sub, &[], &[("require_sub", "other")], "x", Ok(None));
    check(sub, &[], &[], "x", Ok(Some("x")));
    check(&["no-such"], &[], &[], "%", Ok(Some("%")));
}

#[test]
fn content_filters() {
    let id = &["build-id"][..];
    let format = ("id_format", "n:%(news)s");
    check(
        id,
        &[format],
        &[],
        "id: %I %% %(x)I",
        Ok(Some("id: n:5 % x")),
    );
    check(
        id,
        &[format, ("id_encoding", "hex")],
        &[],
        "%I",
        Ok(Some("6e3a35")),
    );
    check(
        id,
        &[format, ("id_encoding", "b64")],
        &[],
        "%I",
        Err("build-id: id_encoding is 'hex' or absent, not 'b64'"),
    );
    check(
        id,
        &[],
        &[],
        "",
        Err("build-id: the connection has no meta 'id_format'"),
    );
    check(
        id,
        &[("id_format", "%(chat)s")],
        &[],
        "",
        Err("build-id: in id_format, byte 7: nothing is known by the name 'chat'"),
    );
    check(
        id,
        &[format],
        &[],
        "50%",
        Err(
            "in the content, byte 2: this % begins something that does not end; write %% for a \
             percent sign",
        ),
    );
    check(
        &["var-subst"],
        &[("who", "me")],
        &[],
        "hi %(who)s",
        Ok(Some("hi me")),
    );
    check(
        &["var-subst"],
        &[],
        &[],
        "%s",
        Err("in the content, byte 1: %s wants a name, as in %(name)s"),
    );
    check(
        &["skip-self", "var-subst"],
        &[("user", "a")],
        &[("sender", "a")],
        "%",
        Ok(None),
    );
}

#[test]
fn an_item_names_the_content_filters_that_it_wants() {
    let names = |list: &[&str]| list.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
    let filters = Filters::from_names(["skip-self", "build-id"]).unwrap();
    assert!(filters.match_content_filters(None));
    assert!(filters.match_content_filters(Some(&names(&["build-id"]))));
    assert!(!filters.match_content_filters(Some(&[])));
    assert!(!filters.match_content_filters(Some(&names(&["skip-self", "build-id"]))));
    assert_eq!(Filters::from_names(["x"; 6]), Err(TooManyFilters));
    assert!(Filters::from_names(["x"; 5]).unwrap().has_unknown());
    assert_eq!(size_of::<Filters>(), 6);
}

#[test]
fn a_stream_is_rendered_the_same_in_any_pieces() {
    let text = b"a %I b %(x\\)y)I %% c";
    let id = BuiltId {
        id: Some(b"ID".to_vec()),
        hex: false,
    };
    for cut in 0..=text.len() {
        let mut out = Vec::new();
        let done = id.render_piece(&text[..cut], &mut out).unwrap();
        let rest = [&text[done..cut], &text[cut..]].concat();
        assert_eq!(id.render_piece(&rest, &mut out), Ok(rest.len()));
        assert_eq!(out, b"a ID b x)y % c", "cut at {cut}");
    }
}
