use super::*;
use throng_types::cases;

fn meta(pairs: &str) -> Vec<(String, String)> {
    let pairs = pairs.split("; ").filter_map(|pair| pair.split_once('='));
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

#[test]
fn filters_of_deliveries_and_of_content() {
    for (case, expect) in cases(include_str!("cases.txt")) {
        let columns: Vec<&str> = case.split('|').map(str::trim).collect();
        let [filters, sub, publication, content] = columns[..] else {
            panic!("{case}: not four columns");
        };
        let context = FilterContext {
            sub_meta: &meta(sub),
            pub_meta: &meta(publication),
            channels: &[("news", Some("5")), ("chat", None)],
        };
        let filters = Filters::from_names(filters.split(", ")).unwrap();
        let found = match filters.apply(&context, content.as_bytes()) {
            Ok(Filtered::Drop) => "dropped".to_owned(),
            Ok(Filtered::Send(content)) => format!("sent: {}", str::from_utf8(&content).unwrap()),
            Err(fault) => format!("fault: {fault}"),
        };
        assert_eq!(found, expect, "{case}");
    }
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
    assert!(Filters::from_names(["x"; 5]).unwrap().is_empty());
    assert_eq!(size_of::<Filters>(), 5);
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
