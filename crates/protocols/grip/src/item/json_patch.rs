//! `body-patch`: a held response's JSON body with a few changes.
//!
//! The operations are those of RFC 6902 with Pushpin's differences, which its users'
//! patches rely on: a path must begin with `/` and `/` alone is the whole document, `add`
//! at an index of an array replaces that element, and only `-` appends.

use serde_json::Value;

/// Why a patch does not fit a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchFault {
    /// An operation is not an object, or lacks a text field.
    #[error("operation {0} is incomplete")]
    Incomplete(usize),
    /// An operation that nobody knows.
    #[error("operation {0} is unknown")]
    Unknown(usize),
    /// A path leads nowhere.
    #[error("operation {0} has a path that leads nowhere")]
    NoSuchPlace(usize),
    /// `test` found something else.
    #[error("operation {0} found another value")]
    TestFailed(usize),
    /// `move` into what is moved.
    #[error("operation {0} moves a place into itself")]
    IntoItself(usize),
}

/// The body that results from a patch. If the held body is not JSON, or the patch does not
/// fit it, the held body is sent as it is, as Pushpin does. A line end is kept.
#[must_use]
pub fn patch_body(held: &[u8], operations: &[Value]) -> Vec<u8> {
    let Ok(mut document) = serde_json::from_slice(held) else {
        return held.to_vec();
    };
    if apply_patch(&mut document, operations).is_err() {
        return held.to_vec();
    }
    let mut out = document.to_string().into_bytes();
    if held.ends_with(b"\r\n") {
        out.extend_from_slice(b"\r\n");
    } else if held.ends_with(b"\n") {
        out.push(b'\n');
    }
    out
}

/// Applies operations in their order. On an error `document` holds what the operations
/// before it made.
pub fn apply_patch(document: &mut Value, operations: &[Value]) -> Result<(), PatchFault> {
    for (index, operation) in operations.iter().enumerate() {
        apply(document, operation, index)?;
    }
    Ok(())
}

fn apply(document: &mut Value, operation: &Value, index: usize) -> Result<(), PatchFault> {
    let incomplete = PatchFault::Incomplete(index);
    let nowhere = PatchFault::NoSuchPlace(index);
    let text = |field| operation.get(field).and_then(Value::as_str);
    let value = || operation.get("value").cloned();
    let (Some(kind), Some(path)) = (text("op"), text("path")) else {
        return Err(incomplete);
    };
    match kind {
        "add" => put(document, path, value().ok_or(incomplete)?).ok_or(nowhere),
        "replace" => {
            let value = value().ok_or(incomplete)?;
            *find(document, path).ok_or(nowhere)? = value;
            Ok(())
        }
        "remove" => take(document, path).map(drop).ok_or(nowhere),
        "copy" => {
            let from = text("from").ok_or(incomplete)?;
            let value = find(document, from).ok_or_else(|| nowhere.clone())?.clone();
            put(document, path, value).ok_or(nowhere)
        }
        "move" => {
            let from = text("from").ok_or(incomplete)?;
            if path
                .strip_prefix(from)
                .is_some_and(|rest| rest.starts_with('/'))
            {
                return Err(PatchFault::IntoItself(index));
            }
            let value = take(document, from).ok_or_else(|| nowhere.clone())?;
            put(document, path, value).ok_or(nowhere)
        }
        "test" => {
            let value = value().ok_or(incomplete)?;
            let found = find(document, path).is_some_and(|found| *found == value);
            found.then_some(()).ok_or(PatchFault::TestFailed(index))
        }
        _ => Err(PatchFault::Unknown(index)),
    }
}

/// The steps of a path; none for the whole document.
fn steps(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/')?;
    if path.is_empty() {
        return Some(Vec::new());
    }
    path.split('/')
        .map(|step| (!step.is_empty()).then(|| step.replace("~1", "/").replace("~0", "~")))
        .collect()
}

fn find<'d>(document: &'d mut Value, path: &str) -> Option<&'d mut Value> {
    steps(path)?
        .iter()
        .try_fold(document, |value, step| child(value, step))
}

fn child<'d>(value: &'d mut Value, step: &str) -> Option<&'d mut Value> {
    match value {
        Value::Object(map) => map.get_mut(step),
        Value::Array(list) => list.get_mut(step.parse::<usize>().ok()?),
        _ => None,
    }
}

/// The container around a place, and the last step into it. None for the whole document.
fn parent<'d>(document: &'d mut Value, path: &str) -> Option<(&'d mut Value, String)> {
    let mut steps = steps(path)?;
    let last = steps.pop()?;
    let parent = steps
        .iter()
        .try_fold(document, |value, step| child(value, step))?;
    Some((parent, last))
}

fn put(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if path == "/" {
        *document = value;
        return Some(());
    }
    let (parent, last) = parent(document, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(last, value);
        }
        Value::Array(list) if last == "-" => list.push(value),
        Value::Array(list) => *list.get_mut(last.parse::<usize>().ok()?)? = value,
        _ => return None,
    }
    Some(())
}

fn take(document: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = parent(document, path)?;
    match parent {
        Value::Object(map) => map.remove(&last),
        Value::Array(list) => {
            let at = last.parse::<usize>().ok().filter(|&at| at < list.len())?;
            Some(list.remove(at))
        }
        _ => None,
    }
}
