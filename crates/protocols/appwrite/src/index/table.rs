//! Connections by key, in pages that come and go.

use super::ids::Ids;

/// Rows of one page: 256 of them keep a page near ten kilobytes.
const PAGE_ROWS: usize = 256;

/// What the index keeps of one connection.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) project: u32,
    pub(super) profile: u32,
    /// Where it stands in its profile's list.
    pub(super) place: u32,
    pub(super) ids: Ids,
}

#[derive(Debug)]
struct Page {
    rows: Box<[Option<Row>]>,
    used: usize,
}

/// Rows by key. Keys are a table's slots, so pages fill up; an empty page is given back, and
/// growing never copies.
#[derive(Debug, Default)]
pub(super) struct Table {
    pages: Vec<Option<Page>>,
    len: usize,
}

impl Table {
    pub(super) fn get(&self, key: u32) -> Option<&Row> {
        let (page, row) = split(key);
        self.pages.get(page)?.as_ref()?.rows[row].as_ref()
    }

    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut Row> {
        let (page, row) = split(key);
        self.pages.get_mut(page)?.as_mut()?.rows[row].as_mut()
    }

    pub(super) fn insert(&mut self, key: u32, row: Row) {
        let (page, at) = split(key);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| Page {
            rows: std::iter::repeat_with(|| None).take(PAGE_ROWS).collect(),
            used: 0,
        });
        if page.rows[at].replace(row).is_none() {
            page.used += 1;
            self.len += 1;
        }
    }

    pub(super) fn remove(&mut self, key: u32) -> Option<Row> {
        let (at, row) = split(key);
        let page = self.pages.get_mut(at)?.as_mut()?;
        let row = page.rows[row].take()?;
        page.used -= 1;
        self.len -= 1;
        if page.used == 0 {
            self.pages[at] = None;
            while matches!(self.pages.last(), Some(None)) {
                self.pages.pop();
            }
            if self.pages.is_empty() {
                self.pages = Vec::new();
            }
        }
        Some(row)
    }

    /// The key behind the last page.
    pub(super) fn end(&self) -> u32 {
        (self.pages.len() * PAGE_ROWS) as u32
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let pages = self.pages.iter().flatten();
        let rows: usize = pages
            .map(|page| {
                let ids = page.rows.iter().flatten().map(|row| row.ids.heap_bytes());
                size_of_val::<[_]>(&page.rows) + ids.sum::<usize>()
            })
            .sum();
        self.pages.capacity() * size_of::<Option<Page>>() + rows
    }
}

fn split(key: u32) -> (usize, usize) {
    let key = key as usize;
    (key / PAGE_ROWS, key % PAGE_ROWS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_stays_small() {
        assert!(
            size_of::<Option<Row>>() <= 40,
            "{}",
            size_of::<Option<Row>>()
        );
    }

    #[test]
    fn pages_come_and_go() {
        let row = || Row {
            project: 0,
            profile: 0,
            place: 0,
            ids: Ids::default(),
        };
        let mut table = Table::default();
        for key in [0, 255, 256, 10_000] {
            table.insert(key, row());
        }
        assert_eq!(table.len(), 4);
        assert!(table.get(255).is_some() && table.get(257).is_none());
        assert!(table.get(u32::MAX).is_none());
        for key in [10_000, 0, 255, 256] {
            assert!(table.remove(key).is_some());
            assert!(table.remove(key).is_none());
        }
        assert_eq!((table.len(), table.heap_bytes()), (0, 0));
    }
}
