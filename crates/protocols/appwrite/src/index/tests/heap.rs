//! Sizes of an index: how much is in it, and the bytes that it keeps on the heap, by the sizes and
//! capacities of its parts.

use hashbrown::HashTable;

use super::super::intern::{Filters, Names};
use super::super::project::{Entry, Place, Project};
use super::super::storage::{Interned, Page, Posting, Scratch, Slot, Table};
use super::*;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) connections: usize,
    pub(super) projects: usize,
    /// Distinct combinations of roles, channels and queries.
    pub(super) profiles: usize,
    /// Distinct channels, counted in each project.
    pub(super) channels: usize,
    /// Distinct roles, counted in each project.
    pub(super) roles: usize,
}

impl Index {
    pub(super) fn sizes(&self) -> Sizes {
        let sum = |count: fn(&Project) -> usize| self.projects.iter().map(|(_, p)| count(p)).sum();
        Sizes {
            connections: self.connections.len(),
            projects: self.projects.len(),
            profiles: sum(|project| project.profiles.len()),
            channels: sum(|project| project.channels.len()),
            roles: sum(|project| project.roles.len()),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let projects = self
            .projects
            .iter()
            .map(|(_, project)| project.heap_bytes());
        self.connections.heap_bytes()
            + self.projects.heap_bytes()
            + self.filters.heap_bytes()
            + self.scratch.heap_bytes()
            + projects.sum::<usize>()
    }
}

fn table(table: &HashTable<u32>) -> usize {
    table.capacity() * (size_of::<u32>() + 1)
}

impl Project {
    fn heap_bytes(&self) -> usize {
        let role_sets = self.role_sets.iter();
        let role_sets = role_sets
            .map(|(_, set)| size_of_val::<[Place]>(&set.roles) + set.profiles.heap_bytes());
        let shapes = self.shapes.iter().map(|(_, shape)| {
            size_of_val::<[Entry]>(&shape.entries)
                + size_of_val::<[Place]>(&shape.channels)
                + size_of_val::<[Place]>(&shape.keys)
                + shape.profiles.heap_bytes()
        });
        let profiles = self
            .profiles
            .iter()
            .map(|(_, p)| p.connections.heap_bytes());
        let names = [&self.channels, &self.keys, &self.roles].map(names_bytes);
        self.name().len()
            + names.iter().sum::<usize>()
            + self.role_sets.heap_bytes()
            + self.shapes.heap_bytes()
            + self.profiles.heap_bytes()
            + role_sets.chain(shapes).chain(profiles).sum::<usize>()
    }
}

fn names_bytes(names: &Names) -> usize {
    let texts = { names.iter() }.map(|(_, name)| name.text.len() + name.groups.heap_bytes());
    names.heap_bytes() + texts.sum::<usize>()
}

impl Filters {
    fn heap_bytes(&self) -> usize {
        self.filters.heap_bytes() + self.judged.capacity() * size_of::<u32>()
    }
}

impl<T> Interned<T> {
    pub(in crate::index) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<T>>() + table(&self.by_hash)
    }
}

impl Posting {
    pub(in crate::index) fn heap_bytes(&self) -> usize {
        match self {
            Self::Many(all) => all.capacity() * size_of::<u32>(),
            _ => 0,
        }
    }
}

impl Ids {
    pub(in crate::index) fn heap_bytes(&self) -> usize {
        match self {
            Self::Many(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

impl Table {
    pub(in crate::index) fn len(&self) -> usize {
        self.rows().count()
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        let pages = self.pages.iter().flatten();
        pages.flat_map(|page| page.rows.iter().flatten())
    }

    pub(in crate::index) fn heap_bytes(&self) -> usize {
        let pages = self.pages.iter().flatten();
        let rows = pages.map(|page| size_of_val::<[_]>(&page.rows));
        let ids = self.rows().map(|row| row.ids.heap_bytes());
        self.pages.capacity() * size_of::<Option<Page>>() + rows.chain(ids).sum::<usize>()
    }
}

impl Scratch {
    fn heap_bytes(&self) -> usize {
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
