//! Questions that every shard must answer, and what has been answered so far.
//!
//! There is at most one for each connection of the API port, which bounds them.

use throng_hub::Asker;
use throng_session::{Question, Told};
use throng_types::Slots;

use crate::grip::GripNote;

/// A question on its way to another shard, or an answer on its way back.
#[derive(Debug)]
pub(crate) enum Note {
    /// Answer this.
    Ask { ticket: u32, question: Question },
    /// The answer.
    Told { ticket: u32, told: Told },
    /// About GRIP.
    Grip(GripNote),
}

struct Gather {
    asker: Asker,
    told: Vec<Told>,
    waiting: usize,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Gathers(Slots<Gather>);

impl Gathers {
    /// Begins to wait for so many answers.
    pub(crate) fn begin(&mut self, asker: Asker, waiting: usize) -> u32 {
        self.0.insert(Gather {
            asker,
            told: Vec::new(),
            waiting,
        })
    }

    /// Takes an answer; gives all of them once they are in.
    pub(crate) fn take(&mut self, ticket: u32, told: Told) -> Option<(Asker, Vec<Told>)> {
        let gather = self.0.get_mut(ticket)?;
        gather.told.push(told);
        if gather.told.len() < gather.waiting {
            return None;
        }
        self.0
            .remove(ticket)
            .map(|gather| (gather.asker, gather.told))
    }
}
