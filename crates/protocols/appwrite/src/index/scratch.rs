//! Lists that matching fills for each event.

/// What one event needs, kept for the next.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) channels: Vec<u32>,
    pub(super) keys: Vec<u32>,
    pub(super) roles: Vec<u32>,
    pub(super) shapes: Vec<u32>,
    pub(super) role_sets: Vec<u32>,
    pub(super) key: String,
}

impl Scratch {
    pub(super) fn heap_bytes(&self) -> usize {
        let lists = [
            &self.channels,
            &self.keys,
            &self.roles,
            &self.shapes,
            &self.role_sets,
        ];
        lists
            .map(|list| list.capacity() * size_of::<u32>())
            .iter()
            .sum()
    }
}
