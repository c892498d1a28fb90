//! Filters over content: pieces of a stream are rendered as the whole is, and content without marks
//! goes through as it came.
//!
//! Input: filters' names in a line, lines of the connection's meta, lines of the item's, lines of
//! `channel=last-id`, then the content, with NUL bytes between them.

use throng_grip::filters::{BuiltId, FilterContext, Filtered, Filters};

use crate::pieces::{pairs, parts};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"build-id\0id_format=%(a)s-%(b)s\0\0a=1\nb=2\0id %I, again %(own)I and 100%%.",
    b"build-id,var-subst\0id_format=x\nid_encoding=hex\nuser=u\0sender=v\0a=\0%I %%(user)s",
    b"var-subst\0user=Ann\nodd)=\\\0\0\0Hello, %(user)s! %(odd\\))s",
    b"skip-self,skip-users,require-sub\0user=u\0skip_users=a, b\nrequire_sub=c\nsender=x\0c=\0text",
    b"nobody,skip-self\0user=u\0sender=u\0\0text",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn grip_filters(input: &[u8]) {
    let [names, sub_meta, pub_meta, channels, content] = parts::<5>(input);
    let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
    let names: Vec<&str> = text(names).split(',').collect();
    let (sub_meta, pub_meta) = (pairs(text(sub_meta)), pairs(text(pub_meta)));
    let channels = pairs(text(channels));
    let channels: Vec<(&str, Option<&str>)> = channels
        .iter()
        .map(|(name, id)| (name.as_str(), Some(id.as_str()).filter(|id| !id.is_empty())))
        .collect();
    let context = FilterContext {
        sub_meta: &sub_meta,
        pub_meta: &pub_meta,
        channels: &channels,
    };
    if let Ok(id) = BuiltId::new(&context) {
        check_pieces(&id, content);
    }
    let Ok(filters) = Filters::from_names(names.iter().copied()) else {
        assert!(names.len() > throng_grip::filters::FILTERS_MAX);
        return;
    };
    if let Ok(Filtered::Send(sent)) = filters.apply(&context, content)
        && (filters.is_empty() || !content.contains(&b'%'))
    {
        assert_eq!(sent, content);
    }
    let wanted: Vec<String> = filters
        .iter()
        .filter(|filter| filter.is_content())
        .map(|filter| filter.name().to_owned())
        .collect();
    assert!(filters.match_content_filters(Some(&wanted)));
}

/// At every cut: what is not done of the head comes again in front of the tail.
fn check_pieces(id: &BuiltId, content: &[u8]) {
    let whole = render(id, &[content]);
    for cut in 0..=content.len() {
        let (head, tail) = content.split_at(cut);
        assert_eq!(render(id, &[head, tail]), whole, "cut at {cut}");
    }
}

/// Renders the pieces. Returns the output and the rest, or none for a fault.
fn render(id: &BuiltId, pieces: &[&[u8]]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut out, mut rest) = (Vec::new(), Vec::new());
    for piece in pieces {
        rest.extend_from_slice(piece);
        let done = id.render_piece(&rest, &mut out).ok()?;
        rest.drain(..done);
    }
    Some((out, rest))
}
