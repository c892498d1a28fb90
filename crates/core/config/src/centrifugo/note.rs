//! What is told beside the translated file.

/// What it means that a value could not be taken over as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Somebody may do more than with Centrifugo.
    Wider,
    /// Somebody may do less, until something is set or built.
    Narrower,
    /// Something is not there.
    Missing,
    /// It is there, and otherwise.
    Changed,
}

/// A sentence on one option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImportNote {
    /// What it means.
    pub effect: Effect,
    /// The option, as the file calls it.
    pub option: String,
    /// A sentence without a full stop.
    pub text: String,
}

/// Those of one configuration.
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

    /// What matters most first.
    pub(super) fn all(mut self) -> Vec<ImportNote> {
        self.0.sort();
        self.0.dedup();
        self.0
    }
}
