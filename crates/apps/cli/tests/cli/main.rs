//! The binary as its users start it.

mod fake;
mod program;
mod proxy;
mod script;
mod secrets;
mod serve;

#[test]
fn the_command_line_presents_itself() {
    script::play(include_str!("stories/command-line.txt"));
}

#[test]
fn mistakes_are_told_with_what_where_and_what_to_do() {
    script::play(include_str!("stories/mistakes.txt"));
}

#[test]
fn tokens_are_made_and_checked() {
    script::play(include_str!("stories/token.txt"));
}

#[test]
fn configurations_are_written_checked_and_imported() {
    script::play(include_str!("stories/config.txt"));
}

#[test]
fn clients_meet_every_kind_of_answer() {
    script::play(include_str!("stories/client.txt"));
}

#[test]
fn a_server_does_what_it_is_started_for() {
    script::play(include_str!("stories/server.txt"));
}
