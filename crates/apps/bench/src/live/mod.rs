//! A run while it goes on, as text, a screen or a page. Each takes snapshots; none of them changes the run.

mod lines;

pub use lines::Lines;
