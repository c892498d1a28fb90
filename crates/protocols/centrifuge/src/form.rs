//! Messages of the server, written once for JSON and Protobuf.

use throng_types::{Epoch, Payload, Position};

/// A field's name in JSON, and its number in Protobuf.
pub(crate) type Key = (&'static str, u32);

/// A message under construction, in one of the two forms. Protobuf leaves out whatever is zero or
/// empty; JSON does so only where a method's name ends in `_if_any`.
pub(crate) trait Form: Sized {
    fn number(&mut self, key: Key, number: u64);

    fn flag_if_set(&mut self, key: Key, flag: bool);

    /// Writes a flag that JSON shows also while it is not set.
    fn flag(&mut self, key: Key, flag: bool);

    fn text(&mut self, key: Key, text: &str);

    fn texts(&mut self, key: Key, texts: &[&str]);

    /// Writes text that is JSON already.
    fn json_if_any(&mut self, key: Key, json: Option<&str>);

    fn data(&mut self, key: Key, payload: &Payload);

    /// Writes data for a subscriber with deltas: the patch if there is one. In JSON it is a text,
    /// which is the JSON of the data or a patch that makes it.
    fn delta(&mut self, key: Key, payload: &Payload, patch: Option<&[u8]>);

    /// Writes tags, which are kept as the JSON object that they came as.
    fn tags(&mut self, key: Key, tags: &str);

    fn epoch(&mut self, key: Key, epoch: Epoch);

    /// Writes a message inside this one, also an empty one.
    fn message(&mut self, key: Key, write: impl FnOnce(&mut Self));

    fn list<T>(&mut self, key: Key, items: &[T], write: impl Fn(&T, &mut Self));

    fn map<'t, T>(
        &mut self,
        key: Key,
        entries: impl Iterator<Item = (&'t str, T)>,
        write: impl Fn(T, &mut Self),
    );

    fn number_if_any(&mut self, key: Key, number: u64) {
        if number != 0 {
            self.number(key, number);
        }
    }

    fn text_if_any(&mut self, key: Key, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    fn position_if_any(&mut self, (epoch, offset): (u32, u32), position: Option<Position>) {
        if let Some(position) = position {
            self.epoch(("epoch", epoch), position.epoch);
            self.number_if_any(("offset", offset), position.offset);
        }
    }
}
