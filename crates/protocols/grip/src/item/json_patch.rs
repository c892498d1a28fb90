//! `body-patch`: a held response's JSON body with a few changes.
//!
//! The operations are those of RFC 6902 with Pushpin's differences, which its users'
//! patches rely on: a path must begin with `/` and `/` alone is the whole document, `add`
//! at an index of an array replaces that element, and only `-` appends.
//!
//! Invariants
//! - A document nests at most [`DEPTH_MAX`] levels, so that walking it does not use up the stack.
//! - Beyond what arrived, a patch makes at most [`COPIED_BYTES_MAX`] bytes: a row of `copy` doubles
//!   a document each time.

use serde_json::Value;

/// The deepest nesting of a document, as many levels as are read from JSON.
const DEPTH_MAX: usize = 128;
/// Bytes of JSON that all `copy` of one patch may add: ten times the largest body that is held.
const COPIED_BYTES_MAX: usize = 1_000_000;

/// Reason for which an operation does not fit a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchError {
    /// The operation is no object, or lacks a text field.
    Incomplete,
    Unknown,
    NoSuchPlace,
    TestFailed,
    /// The operation moves a place into itself.
    IntoItself,
    /// The document would nest deeper than [`DEPTH_MAX`].
    TooDeep,
    /// Copies have added more than [`COPIED_BYTES_MAX`].
    TooLarge,
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

/// Applies operations in their order. On an error, which has the index of its operation, `document`
/// holds what the operations before it made.
pub(super) fn apply_patch(
    document: &mut Value,
    operations: &[Value],
) -> Result<(), (usize, PatchError)> {
    let mut copied_bytes = 0;
    for (index, operation) in operations.iter().enumerate() {
        apply(document, operation, &mut copied_bytes).map_err(|fault| (index, fault))?;
    }
    Ok(())
}

fn apply(
    document: &mut Value,
    operation: &Value,
    copied_bytes: &mut usize,
) -> Result<(), PatchError> {
    use PatchError::{Incomplete, NoSuchPlace};

    let text = |field| operation.get(field).and_then(Value::as_str);
    let value = || operation.get("value").cloned();
    let (Some(kind), Some(path)) = (text("op"), text("path")) else {
        return Err(Incomplete);
    };
    let bears = |value: &Value| {
        let levels = path.matches('/').count() + depth(value);
        let fits = levels <= DEPTH_MAX;
        fits.then_some(()).ok_or(PatchError::TooDeep)
    };
    match kind {
        "add" => {
            let value = value().ok_or(Incomplete)?;
            bears(&value)?;
            put(document, path, value).ok_or(NoSuchPlace)
        }
        "replace" => {
            let value = value().ok_or(Incomplete)?;
            bears(&value)?;
            *find(document, path).ok_or(NoSuchPlace)? = value;
            Ok(())
        }
        "remove" => take(document, path).map(drop).ok_or(NoSuchPlace),
        "copy" => {
            let from = text("from").ok_or(Incomplete)?;
            let found = find(document, from).ok_or(NoSuchPlace)?;
            bears(found)?;
            *copied_bytes += weight(found);
            if *copied_bytes > COPIED_BYTES_MAX {
                return Err(PatchError::TooLarge);
            }
            let value = found.clone();
            put(document, path, value).ok_or(NoSuchPlace)
        }
        "move" => {
            let from = text("from").ok_or(Incomplete)?;
            if path
                .strip_prefix(from)
                .is_some_and(|rest| rest.starts_with('/'))
            {
                return Err(PatchError::IntoItself);
            }
            let value = take(document, from).ok_or(NoSuchPlace)?;
            bears(&value)?;
            put(document, path, value).ok_or(NoSuchPlace)
        }
        "test" => {
            let value = value().ok_or(Incomplete)?;
            let found = find(document, path).is_some_and(|found| *found == value);
            found.then_some(()).ok_or(PatchError::TestFailed)
        }
        _ => Err(PatchError::Unknown),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// About how many bytes of JSON a value is.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(list) => 2 + list.iter().map(|value| 1 + weight(value)).sum::<usize>(),
        Value::Object(map) => {
            let entries = map.iter();
            2 + entries
                .map(|(name, value)| name.len() + 4 + weight(value))
                .sum::<usize>()
        }
        _ => 4,
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
