//! A table of PostgreSQL from which rows are taken: an outbox.
//!
//! A batch is one transaction: the oldest rows are locked, published, deleted. A transaction's lock
//! on the table's name (`pg_try_advisory_xact_lock`) lets one node at a time read it, so rows of a
//! channel are published in the order of their ids. Rows that somebody else has locked are passed
//! over (`SKIP LOCKED`). Nothing is remembered between batches: ids are given out before rows are
//! committed, so "everything after this id" would miss rows.
//!
//! A notification only ends the wait for the next look at the table; it may be lost.
//!
//! The place of a row is its id and `xmin`, the transaction that made it, so that a table which
//! begins to count anew gives no place twice.

mod options;
mod session;

use std::fmt::Write as _;

use throng_peer::task::Net;
use throng_types::{Millis, Rng, SpanContext};

use self::options::{NAME_MAX, TAGS_MAX, literal};
use self::session::{Rows, Session};
use crate::event::Event;
use crate::source::{Fault, LOOK_MS, Setup, Source};

pub use options::PostgresFeedOptions;

/// Rows that are counted at most to say how many wait: counting all would read the whole table.
const LAG_MAX: u32 = 100_000;
/// Columns of a table (`MaxHeapAttributeNumber` of PostgreSQL).
const COLUMNS_MAX: usize = 1600;
/// The object id of the type `bytea` (`pg_type.dat` of PostgreSQL).
const BYTEA: u32 = 17;

/// Columns that a table may have.
const OPTIONAL: [&str; 2] = ["tags", SpanContext::FIELD];
/// Characters of a `traceparent` that are read, of which today's version has 55.
const TRACE_MAX: usize = 256;

/// A session, and the batch that it has under way.
pub(crate) struct Outbox {
    net: Net,
    session: Session,
    options: PostgresFeedOptions,
    batch_max: usize,
    /// Names of the columns [`OPTIONAL`], and `NULL` in place of those that the table lacks.
    optional: [&'static str; 2],
    locked: Vec<String>,
    /// Time at which the table is read even without a notification.
    look_at: Millis,
}

pub(crate) async fn connect(options: &PostgresFeedOptions, setup: Setup) -> Result<Outbox, Fault> {
    let batch_max = setup.batch_max;
    let net = setup.net;
    let mut session = Session::connect(&net, options, batch_max.max(COLUMNS_MAX)).await?;
    match prepare(&mut session, options, setup.rng).await {
        Ok(optional) => Ok(Outbox {
            look_at: net.now().mono,
            net,
            session,
            options: options.clone(),
            batch_max,
            optional,
            locked: Vec::new(),
        }),
        Err(fault) => {
            session.terminate();
            Err(fault)
        }
    }
}

/// Introduces us and looks at the table; gives its columns, as [`Outbox::optional`].
async fn prepare(
    session: &mut Session,
    options: &PostgresFeedOptions,
    mut rng: Rng,
) -> Result<[&'static str; 2], Fault> {
    session.introduce(options, &mut rng).await?;
    if let Some(channel) = &options.notify {
        session.ask(&format!("LISTEN {channel}")).await?;
    }
    let table = literal(&options.table);
    let columns = format!(
        "SELECT attname FROM pg_attribute \
         WHERE attrelid = {table}::regclass AND attnum > 0 AND NOT attisdropped"
    );
    let columns = session.ask(&columns).await?;
    let names: Vec<String> = columns.rows.iter().filter_map(|row| text(row, 0)).collect();
    let has = |column: &str| names.iter().any(|name| name == column);
    for needed in ["id", "channel", "data"] {
        if !has(needed) {
            let table = &options.table;
            return Err(Fault(format!("the table {table} has no column {needed:?}")));
        }
    }
    Ok(OPTIONAL.map(|column| if has(column) { column } else { "NULL" }))
}

impl Source for Outbox {
    async fn take(&mut self) -> Result<Vec<Event>, Fault> {
        let wait_ms = (self.look_at - self.now()).min(LOOK_MS);
        let is_notified = match self.options.notify {
            // What came with the last answers counts, too.
            Some(_) => self.session.wait(wait_ms).await?,
            None => {
                self.net.sleep(wait_ms).await;
                false
            }
        };
        let now = self.now();
        if !is_notified && now < self.look_at {
            return Ok(Vec::new());
        }
        self.look_at = now + self.options.poll_ms;
        let lock = format!(
            "BEGIN; SELECT pg_try_advisory_xact_lock(hashtext({}), hashtext(current_database()))",
            literal(&self.options.table)
        );
        let locked = self.session.ask(&lock).await?;
        let is_ours = locked.rows.first().and_then(|row| text(row, 0));
        if is_ours.as_deref() != Some("t") {
            self.session.ask("ROLLBACK").await?;
            return Ok(Vec::new());
        }
        let [tags, trace] = self.optional;
        let (table, count) = (&self.options.table, self.batch_max);
        let text_max = self.options.text_bytes_max;
        let select = format!(
            "SELECT id, xmin, left(channel::text, {NAME_MAX}), \
             CASE WHEN octet_length(data::text) > {text_max} THEN NULL ELSE data END, \
             left({tags}::text, {TAGS_MAX}), left({trace}::text, {TRACE_MAX}) FROM {table} \
             ORDER BY id LIMIT {count} FOR UPDATE SKIP LOCKED"
        );
        let found = self.session.ask(&select).await?;
        if found.rows.is_empty() {
            self.session.ask("ROLLBACK").await?;
            return Ok(Vec::new());
        }
        if found.rows.len() == count {
            self.look_at = self.now();
        }
        self.locked = found.rows.iter().filter_map(|row| text(row, 0)).collect();
        Ok(self.events(&found))
    }

    async fn done(&mut self) -> Result<(), Fault> {
        let mut sql = format!("DELETE FROM {} WHERE id IN (", self.options.table);
        for (n, id) in std::mem::take(&mut self.locked).iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            let _ = write!(sql, "{comma}{}", literal(id));
        }
        sql.push_str("); COMMIT");
        self.session.ask(&sql).await.map(drop)
    }

    async fn put_back(&mut self) -> Result<(), Fault> {
        self.locked.clear();
        self.look_at = self.now();
        self.session.ask("ROLLBACK").await.map(drop)
    }

    async fn lag(&mut self) -> Result<Option<u64>, Fault> {
        let table = &self.options.table;
        let sql = format!("SELECT count(*) FROM (SELECT FROM {table} LIMIT {LAG_MAX}) AS waiting");
        let found = self.session.ask(&sql).await?;
        let count = found.rows.first().and_then(|row| text(row, 0));
        Ok(count.and_then(|count| count.parse().ok()))
    }

    async fn leave(self) {
        self.session.terminate();
    }
}

impl Outbox {
    fn now(&self) -> Millis {
        self.net.now().mono
    }

    fn events(&self, found: &Rows) -> Vec<Event> {
        let is_bytes = found.types.get(3) == Some(&BYTEA);
        let event = |row: &Vec<Option<Vec<u8>>>| Event {
            place: format!(
                "{} {} {}",
                self.options.name,
                text(row, 0).unwrap_or_default(),
                text(row, 1).unwrap_or_default()
            ),
            channel: text(row, 2),
            key: None,
            data: row
                .get(3)
                .cloned()
                .flatten()
                .and_then(|data| match is_bytes {
                    true => bytea(&data),
                    false => Some(data),
                }),
            tags: text(row, 4),
            trace: text(row, 5).and_then(|it| SpanContext::sampled(&it)),
            is_too_long: false,
        };
        found.rows.iter().map(event).collect()
    }
}

fn text(row: &[Option<Vec<u8>>], column: usize) -> Option<String> {
    let value = row.get(column)?.as_deref()?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// `\x` and two digits a byte (PostgreSQL's documentation, "bytea Hex Format").
fn bytea(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_prefix(b"\\x")?;
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(bytea(b"\\x00ff41"), Some(vec![0, 255, b'A']));
        assert_eq!(bytea(b"\\x"), Some(Vec::new()));
        assert_eq!(bytea(b"\\xzz"), None);
        assert_eq!(bytea(b"abc"), None);
        assert_eq!(literal("it's"), "'it''s'");
    }
}
