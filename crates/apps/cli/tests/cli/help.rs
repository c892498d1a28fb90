//! The command line as it presents itself.

use crate::program::{run, telling, words};

#[test]
fn help_names_every_command() {
    let done = run(&["--help"]).expect(0);
    let listed: Vec<&str> = done
        .out
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let all = "serve upgrade publish subscribe tail top pushpin-publish reload health config \
               doctor bench token version completions reference man help";
    assert_eq!(listed, words(all));
    for name in listed {
        run(&["help", name]).expect(0).prints(&["Usage: throng"]);
    }
}

#[test]
fn usage_errors_end_with_two() {
    for arguments in [
        &["frob"][..],
        &["serve", "--frob"],
        &["publish"],
        &["token", "create"],
        &["completions", "frob"],
    ] {
        let done = run(arguments).expect(2);
        assert_eq!(done.out, "");
        done.says(&["error:", "--help"]);
    }
}

#[test]
fn the_version_is_the_same_everywhere() {
    let version = format!("throng {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["-V"]).expect(0).out, version);
    let long = run(&["--version"]).expect(0).out;
    assert!(long.starts_with(&version), "{long}");
    assert_eq!(run(&["version"]).expect(0).out, long);
    for part in ["commit:", "built for: Linux", "Centrifugo", "Redis", "TLS:"] {
        assert!(long.contains(part), "{part} is not in {long}");
    }
}

#[test]
fn shells_get_their_scripts() {
    for shell in ["bash", "zsh", "fish"] {
        telling(&format!("completions {shell} => 0 throng | subscribe"));
    }
}

#[test]
fn pages_are_made_from_the_code() {
    telling("reference config => 0 # Configuration\nreference exit-codes => 0 # Exit codes | 4");
}
