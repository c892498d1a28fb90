//! What users of several nodes see, while all goes well and while it does not.

mod api;
mod faults;
mod nodes;
mod presence;
mod story;
