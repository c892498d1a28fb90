//! `docs/GRIP.md`, made from the dialogues.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::script::{Dialogue, KINDS};
use crate::verdict::Everywhere;

const HEAD: &str = "\
<!-- Written by tests/grip/tests/dialogues from the recordings; see docs/TESTING.md. -->

# GRIP, beside Pushpin

Throng speaks GRIP as Pushpin 1.41 does. Recorded dialogues in `tests/grip/dialogues` say what \
that means: every byte
to the client, the origin and the publisher. One program plays them against Debian's `pushpin` \
(1.36) and against Throng. The test
fails if either does something else than what is recorded.

Both have the same routes. Pushpin runs as its package configures it, but without a limit on \
messages a second. The test does not compare
the order of header fields, `Date`, random numbers, ports, and where a body is cut into chunks. \
Items of one channel keep their order;
items of different channels that come in one request may leave in another order.

";

/// Differences that no dialogue can show: Pushpin's behaviour, Throng's, and the reason.
const FURTHER: &[[&str; 3]] = &[
    [
        "refuses a client's own WebSocket events on routes with `over_http`",
        "on all routes whose requests are signed",
        "on purpose: a backend that trusts the signature may read them on any path",
    ],
    [
        "passes `Grip_Sig`, `X_Forwarded_For`, `Meta_User` and the like",
        "drops them",
        "on purpose: backends that read `_` as `-` take them for the proxy's",
    ],
    [
        "passes fields that `Connection` names, and `Upgrade` of an answer that is no 101",
        "drops them, except those in which proxies describe the client",
        "on purpose: RFC 9110 sections 7.6.1 and 7.8",
    ],
    [
        "passes `Forwarded` of any client",
        "drops it unless it comes from `listen.trusted_proxies`, or signed with `upstream_key`",
        "on purpose: a stranger would say who it is, and that it came by TLS",
    ],
    [
        "counts bytes and messages by route in `report` packets (`client-header-bytes-received` \
         and eleven more), and blocks by `message_block_size`",
        "`report` packets have connections, minutes and items; `/metrics` counts bytes, for all \
         routes together",
        "on purpose: Pushpin estimates them, and counting would cost time for every piece of \
         every answer",
    ],
    [
        "drops statistics for a reader by ZeroMQ PUB for whom 200,000 packets wait",
        "drops them beyond 1 MiB, and counts them",
        "on purpose: a reader that does not read costs memory",
    ],
    [
        "looks at no `Host` on the ports for publishing and for Prometheus",
        "with `grip.pushpin_conf` the same, but for requests with `Origin`, `Sec-Fetch-…` or a \
         `User-Agent` that begins with `Mozilla/`; else addresses, `localhost` and \
         `auth.allowed_hosts`, and 421 for other names",
        "on purpose: a web page can give its own name this server's address, and publish",
    ],
    [
        "takes channel names of any length",
        "up to 2,048 bytes",
        "on purpose: a name costs memory",
    ],
    [
        "takes Content-Length up to 2^64 - 1",
        "up to 2^63 - 1, else 413",
        "on purpose: many backends read it as a signed number",
    ],
    [
        "waits for a client's body, and for a backend that reads nothing, as long as the \
         connection lives",
        "408 for a client that sends less than 1 KiB in `limits.head_timeout`, 504 for a \
         backend that takes nothing for its `response_timeout`, or for a minute if that is 0; a \
         client that takes nothing of an answer for five minutes is cut off",
        "on purpose: each holds a place among `grip.requests_max`",
    ],
    [
        "uses the good lines of a routes file that has bad ones",
        "does so at the start; while it runs, a file with any fault changes nothing",
        "on purpose: nobody wants a half-written file to take effect",
    ],
];

fn path() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).expect("tests/grip is two below");
    root.join("docs/GRIP.md")
}

pub(crate) fn write(all: &[Dialogue], everywhere: &Everywhere) {
    fs::write(path(), text(all, everywhere)).expect("the page can be written");
}

pub(crate) fn check(all: &[Dialogue], everywhere: &Everywhere) {
    let written = fs::read_to_string(path()).unwrap_or_default();
    assert!(
        written == text(all, everywhere),
        "docs/GRIP.md is not what the dialogues say; THRONG_RECORD=1 writes it"
    );
}

/// The reasons of a dialogue, each once.
fn reasons(dialogue: &Dialogue) -> Vec<&str> {
    let mut out = Vec::new();
    for difference in dialogue.differences() {
        let reason = difference.reason.unwrap_or_default();
        if !out.contains(&reason) {
            out.push(reason);
        }
    }
    out
}

fn text(all: &[Dialogue], everywhere: &Everywhere) -> String {
    let same = all.iter().filter(|dialogue| reasons(dialogue).is_empty());
    let mut out = format!(
        "{HEAD}There are {} dialogues. In {} of them Throng does the same as Pushpin. Each \
         difference has a reason, which begins with:\n\n",
        all.len(),
        same.count()
    );
    for (kind, meaning) in KINDS {
        writeln!(out, "- `{}`: {meaning}", kind.trim_end()).expect("text");
    }
    out.push_str(
        "\nThese differences can be in any dialogue, and are not counted below:\n\n| Pushpin | \
                  Throng | reason |\n|---|---|---|\n",
    );
    for standing in &everywhere.standing {
        let lines = |lines: &[String]| match lines.is_empty() {
            true => "nothing".to_owned(),
            false => format!("`{}`", cell(&lines.join("` `"))),
        };
        writeln!(
            out,
            "| {} | {} | {} |",
            lines(&standing.pushpin),
            lines(&standing.throng),
            cell(&standing.reason)
        )
        .expect("text");
    }
    // A reason that many dialogues share stands once.
    let mut shared: Vec<&str> = Vec::new();
    for reason in all.iter().flat_map(reasons) {
        let users = all
            .iter()
            .filter(|dialogue| reasons(dialogue).contains(&reason));
        if users.count() > 2 && !shared.contains(&reason) {
            shared.push(reason);
        }
    }
    if !shared.is_empty() {
        out.push_str("\nReasons that many dialogues share:\n\n");
        for (at, reason) in shared.iter().enumerate() {
            writeln!(out, "{}. {}", at + 1, cell(reason)).expect("text");
        }
    }
    out.push_str("\n| dialogue | what happens | Throng | reasons |\n|---|---|---|---|\n");
    for dialogue in all {
        let reasons = reasons(dialogue);
        let verdict = if reasons.is_empty() {
            "same"
        } else {
            "differs"
        };
        let reasons: Vec<String> = reasons
            .iter()
            .map(
                |reason| match shared.iter().position(|other| other == reason) {
                    Some(at) => format!("({})", at + 1),
                    None => cell(reason),
                },
            )
            .collect();
        writeln!(
            out,
            "| [{0}](../tests/grip/dialogues/{0}.txt) | {1} | {verdict} | {2} |",
            dialogue.name,
            cell(&dialogue.about.join(" ")),
            reasons.join("<br>")
        )
        .expect("text");
    }
    out.push_str("\n## What else differs\n\n| Pushpin | Throng | reason |\n|---|---|---|\n");
    for row in FURTHER {
        writeln!(out, "| {} |", row.map(cell).join(" | ")).expect("text");
    }
    out.push_str(&crate::options::tables());
    out
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
