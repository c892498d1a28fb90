//! GRIP dialogues: what Debian's `pushpin` does with the same bytes, and where Throng does
//! otherwise.
//!
//! Each file in `tests/grip/dialogues` is a script (what the client, the origin and the publisher
//! send) with everything that came out of Pushpin. Where Throng differs, its lines stand beside
//! Pushpin's with a reason. One program plays each script against both servers at the same time.
//! The test fails if Pushpin does not do what is recorded, if Throng does neither that nor the
//! listed difference, or if a listed difference is gone.
//!
//! ```console
//! $ cargo test -p throng-grip-tests --test dialogues                     # plays and compares
//! $ THRONG_RECORD=1 cargo test -p throng-grip-tests --test dialogues     # plays and writes anew
//! $ THRONG_DIALOGUES=stream cargo test -p throng-grip-tests --test dialogues   # names with that
//! ```
//!
//! Recording keeps the reasons of differences that are still there, and writes `! reason?` where
//! one is missing; a file with that in it fails until it is replaced. It writes `docs/GRIP.md` too,
//! which the test keeps up to date.
//!
//! The format of a file is described in [`script`], what is not compared in [`normal`].

mod client;
mod http;
mod normal;
mod options;
mod origin;
mod page;
mod play;
mod script;
mod sites;
mod stats;
mod text;
mod verdict;

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;

use script::Dialogue;
use sites::Addresses;
use verdict::{Everywhere, Outcome};

/// Pushpins that are asked again what one did not do as recorded.
const CHANCES: usize = 3;

/// Name of the differences found in every dialogue, in the format of one.
const EVERYWHERE: &str = "everywhere";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dialogues")
}

/// All dialogues by name, and what holds for all of them.
fn dialogues() -> (Vec<Dialogue>, Dialogue) {
    let files = fs::read_dir(folder()).expect("the folder of the dialogues");
    let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    files.sort();
    let mut all: Vec<Dialogue> = files.iter().map(|file| Dialogue::read(file)).collect();
    let everywhere = all.iter().position(|dialogue| dialogue.name == EVERYWHERE);
    let everywhere = all.remove(everywhere.expect("what holds for all"));
    (all, everywhere)
}

/// Scripts with an origin for each, and the lines of a routes file that lead to them.
fn cast<'d>(dialogues: &[&'d Dialogue]) -> (Vec<(&'d Dialogue, TcpListener)>, String) {
    let cast: Vec<_> = dialogues
        .iter()
        .map(|&dialogue| (dialogue, origin::bind()))
        .collect();
    let lines = cast.iter();
    let routes = lines
        .map(|(dialogue, origin)| dialogue.routes(origin))
        .collect();
    (cast, routes)
}

/// Plays them all at once.
fn play(cast: Vec<(&Dialogue, TcpListener)>, to: &Addresses) -> Vec<Outcome> {
    thread::scope(|scope| {
        let plays: Vec<_> = cast
            .into_iter()
            .map(|(dialogue, origin)| {
                let play = scope.spawn(move || play::play(dialogue, to, origin));
                (dialogue, play)
            })
            .collect();
        let outcomes = plays.into_iter();
        outcomes
            .map(|(dialogue, play)| {
                let outcome = play.join();
                outcome.unwrap_or_else(|_| panic!("{}: see above", dialogue.name))
            })
            .collect()
    })
}

fn play_with_pushpin(dialogues: &[&Dialogue]) -> (Vec<Outcome>, Vec<String>) {
    let (cast, routes) = cast(dialogues);
    let pushpin = sites::pushpin(&routes);
    (play(cast, &pushpin.addresses), pushpin.server.complaints())
}

fn play_with_throng(dialogues: &[&Dialogue]) -> Vec<Outcome> {
    let (cast, routes) = cast(dialogues);
    let throng = sites::throng(&routes);
    play(cast, &throng.addresses)
}

#[test]
fn pushpin_and_throng_do_what_is_recorded() {
    let wanted = env::var("THRONG_DIALOGUES").unwrap_or_default();
    let is_recording = env::var_os("THRONG_RECORD").is_some();
    let (mut all, everywhere) = dialogues();
    let known = verdict::known_reasons(&all);
    let mut everywhere = Everywhere::new(&everywhere);
    let chosen = |dialogue: &&Dialogue| dialogue.name.contains(&wanted);
    let scripts: Vec<&Dialogue> = all.iter().filter(chosen).collect();
    let (reference, ours) = thread::scope(|scope| {
        let reference = scope.spawn(|| play_with_pushpin(&scripts));
        let ours = scope.spawn(|| play_with_throng(&scripts));
        (reference.join(), ours.join())
    });
    let (Ok((reference, mut complaints)), Ok(ours)) = (reference, ours) else {
        panic!("see above");
    };
    let mut pairs: Vec<_> = reference.into_iter().zip(ours).collect();
    // Pushpin loses a request now and then when many come at once, so what it did not do as
    // recorded is asked of another one. Throng gets no second chance.
    let is_odd = |at: &usize, pairs: &[(Outcome, Outcome)]| {
        let mut pair = pairs[*at].clone();
        everywhere.clone().strike(scripts[*at], &mut pair);
        !verdict::is_recorded(scripts[*at], &pair.0)
    };
    for _ in 0..CHANCES {
        let odd: Vec<usize> = (0..pairs.len()).filter(|at| is_odd(at, &pairs)).collect();
        if odd.is_empty() {
            break;
        }
        let again: Vec<&Dialogue> = odd.iter().map(|&at| scripts[at]).collect();
        let (outcomes, more) = play_with_pushpin(&again);
        complaints.extend(more);
        for (at, outcome) in odd.into_iter().zip(outcomes) {
            pairs[at].0 = outcome;
        }
    }
    for (script, pair) in scripts.iter().zip(&mut pairs) {
        everywhere.strike(script, pair);
    }
    let mut faults = Vec::new();
    if is_recording {
        let names: Vec<String> = scripts.iter().map(|script| script.name.clone()).collect();
        for (name, (reference, ours)) in names.iter().zip(&pairs) {
            let dialogue = all.iter_mut().find(|dialogue| dialogue.name == *name);
            let dialogue = dialogue.expect("it was played");
            verdict::record(dialogue, reference, ours, &known);
            dialogue.write(&folder());
        }
        page::write(&all, &everywhere);
        faults.extend(all.iter().flat_map(Dialogue::faults));
    } else {
        for (script, (reference, ours)) in scripts.iter().zip(&pairs) {
            faults.extend(verdict::compare(script, reference, ours));
        }
    }
    if wanted.is_empty() {
        faults.extend(everywhere.unused());
    }
    assert!(
        faults.is_empty(),
        "\n{}\nPushpin complained:\n{}\n",
        faults.join("\n"),
        complaints.join("\n")
    );
}

#[test]
fn every_difference_has_a_reason_and_the_page_lists_it() {
    let (all, everywhere) = dialogues();
    let files = all.iter().chain([&everywhere]);
    let faults: Vec<String> = files.flat_map(Dialogue::faults).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    // While recording the other test writes the page.
    if env::var_os("THRONG_RECORD").is_none() {
        page::check(&all, &Everywhere::new(&everywhere));
    }
}
