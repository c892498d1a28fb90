//! The load generator: agents, scenarios, importers, reports.
