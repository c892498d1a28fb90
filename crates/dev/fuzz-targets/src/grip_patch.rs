//! `body-patch` on a held body: the result is JSON, or the body as it was, and is never larger than
//! a patch of that length can pay for.
//!
//! Input: the held body, a NUL byte, the operations.

use throng_grip::item::patch_body;

use crate::pieces::{is_json, parts};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"{\"a\":{\"b\":[1,2,3]},\"c\":\"x\"}\n\0[{\"op\":\"add\",\"path\":\"/a/b/-\",\"value\":4},\
      {\"op\":\"replace\",\"path\":\"/c\",\"value\":{\"d\":null}},\
      {\"op\":\"remove\",\"path\":\"/a/b/0\"}]",
    b"[1,{\"x/y\":2}]\r\n\0[{\"op\":\"test\",\"path\":\"/1/x~1y\",\"value\":2},\
      {\"op\":\"copy\",\"from\":\"/1\",\"path\":\"/0\"},{\"op\":\"move\",\"from\":\"/0\",\
      \"path\":\"/-\"}]",
    b"[1]\0[{\"op\":\"copy\",\"from\":\"/\",\"path\":\"/-\"},{\"op\":\"copy\",\"from\":\"/\",\
      \"path\":\"/-\"},{\"op\":\"add\",\"path\":\"/\",\"value\":[]}]",
    b"[1]\0[{\"op\":\"copy\",\"from\":\"/\",\"path\":\"/0\"},\
      {\"op\":\"add\",\"path\":\"/0/0\",\"value\":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}]",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn grip_patch(input: &[u8]) {
    let [held, operations] = parts::<2>(input);
    let Ok(operations) = serde_json::from_slice::<Vec<serde_json::Value>>(operations) else {
        return;
    };
    let patched = patch_body(held, &operations);
    assert!(
        patched.len() <= 3_000_000 + 6 * input.len(),
        "{} bytes",
        patched.len()
    );
    if patched != held {
        assert!(is_json(&patched) && is_json(held));
        assert_eq!(patched.ends_with(b"\n"), held.ends_with(b"\n"));
    }
    assert_eq!(patch_body(held, &operations), patched);
}
