//! Routes: which request goes to which origin, and how.
//!
//! `route` has the structs, `line` cuts a line of Pushpin's `routes` file into words, `file`
//! reads the words, and `table` selects. Never: reads files or connects.

mod file;
mod line;
mod route;
mod table;
#[cfg(test)]
mod tests;

pub use file::{RouteFault, RouteFaultKind, RoutesFile, parse_route_line, parse_routes};
pub use line::LineFault;
pub use route::{BadOrigin, BadTarget, Domain, OwnRoute, Protocol, Route, Target, TargetAddress};
pub use table::{DuplicateRoute, Routes};
