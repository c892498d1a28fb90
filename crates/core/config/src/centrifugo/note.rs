//! Notes beside the translated file.

/// Consequence of a value that could not be taken over unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Clients may do more than with Centrifugo.
    Wider,
    /// Clients may do less, until an option is set or support is added.
    Narrower,
    /// The feature is missing here.
    Missing,
    /// The feature is there, but works differently.
    Changed,
}

/// A sentence on one option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImportNote {
    /// Consequence of the missing counterpart.
    pub effect: Effect,
    /// Name of the option in the file.
    pub option: String,
    /// A sentence without a full stop.
    pub text: String,
}

/// Notes on one configuration.
#[derive(Default)]
pub(super) struct Notes(Vec<ImportNote>);

impl Notes {
    pub(super) fn add(&mut self, effect: Effect, option: &str, text: impl Into<String>) {
        self.0.push(ImportNote {
            effect,
            option: option.to_owned(),
            text: text.into(),
        });
    }

    /// All notes, the most important first, without duplicates.
    pub(super) fn all(mut self) -> Vec<ImportNote> {
        self.0.sort();
        self.0.dedup();
        self.0
    }
}
