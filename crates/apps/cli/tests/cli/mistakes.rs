//! Seventeen mistakes that people make, and the messages they get: what is wrong, where, what to
//! do.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::program::{Running, run, throng, words};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

const SERVER: &str = r#"
[auth]
hmac_secret = "0123456789abcdef0123456789abcdef"
api_keys = ["the key of the server API"]

[[namespace]]
name = "news"
subscribe = true

[[namespace]]
name = "staff"
"#;

/// Mistakes: the name; exit code and arguments, in which words in capitals stand for what the test
/// has made; and what standard error must have.
const MISTAKES: &str = "\
wrong port: publishing to the clients' one
6 publish news:a x --api CLIENTS --api-key KEY
nothing at this path | is this the API port (by default 8001)
wrong port: subscribing at the API's one
6 subscribe news:a --server API
this is the API port | by default 8000
port taken
7 serve --listen TAKEN --api 127.0.0.1:0
cannot listen on | another program listens there | --listen
unknown option
4 config check FOLDER/unknown.toml
unknown.toml:2:1 | unknown option \"history_sise\" | did you mean \"history_size\"?
bad TOML
4 config check FOLDER/broken.toml
broken.toml:1: | not valid TOML
wrong type
4 config check FOLDER/type.toml
type.toml:2: | channel.recovery | expected true or false
missing key file
4 config check FOLDER/missing.toml
auth.hmac_secret_file | cannot read /nowhere/secret
unknown namespace
6 publish newz:a x --api API --api-key KEY
namespace is not configured | add a [[namespace]] with that name
unreachable server
5 publish a x --api http://127.0.0.1:1
http://127.0.0.1:1 | connection refused | is the server running?
expired token
6 subscribe news:a --server CLIENTS --token EXPIRED
token has expired | throng token create
no permission
6 subscribe staff:a --server CLIENTS --token TOKEN
no permission to subscribe to staff:a | docs/guides/channels.md
no API key
6 publish news:a x --api API
an API key is needed | --api-key KEY | THRONG_API_KEY
full disk for results
1 bench pub --url API --as centrifugo --key KEY --channels news:a --duration 1s --out FOLDER/full
full/manifest.json | No space left on device | --out DIR | --json
results cannot be written
1 bench pub --url API --channels news:a --out /dev/full/results
cannot make the folder /dev/full/results
bad scenario
2 bench run FOLDER/scenario.toml
scenario.toml: line 1: | `targets` is missing | as in `targets =
";

#[test]
fn each_mistake_is_told_with_what_where_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("server.toml", SERVER),
        ("unknown.toml", "[channel]\nhistory_sise = 4\n"),
        ("broken.toml", "[channel\n"),
        ("type.toml", "[channel]\nrecovery = \"yes\"\n"),
        (
            "missing.toml",
            "[auth]\nhmac_secret_file = \"/nowhere/secret\"\n",
        ),
        ("scenario.toml", "speed = \"fast\"\n"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    // A device that is always full.
    let full = folder.path().join("full");
    fs::create_dir(&full).unwrap();
    std::os::unix::fs::symlink("/dev/full", full.join("manifest.json")).unwrap();
    let path = folder.path().display().to_string();
    let config = format!("{path}/server.toml");
    let serving = ["serve", "--config", &config, "--listen", "127.0.0.1:0"];
    let more = ["--api", "127.0.0.1:0", "--log-format", "json"];
    let server = Running::start(&mut throng(&[&serving[..], &more].concat()));
    let line: Value = serde_json::from_str(&server.until_err("\"serving\"")).unwrap();
    let address = |name: &str| line[name].as_str().unwrap().to_owned();
    let token = |ttl: &str| {
        let made = [
            "token", "create", "--user", "ann", "--secret", SECRET, "--ttl", ttl,
        ];
        run(&made).expect(0).out.trim().to_owned()
    };
    let (good, expired) = (token("1h"), token("1s"));
    let check = ["token", "check", "--secret", SECRET, &expired];
    while run(&check).code == Some(0) {}
    let lines: Vec<&str> = MISTAKES.lines().collect();
    for mistake in lines.chunks(3) {
        let [name, arguments, says] = mistake else {
            panic!("three lines each: {mistake:?}");
        };
        let (code, arguments) = arguments.split_once(' ').unwrap();
        let says: Vec<&str> = says.split(" | ").collect();
        let arguments: Vec<String> = words(arguments)
            .into_iter()
            .map(|word| match word {
                "KEY" => "the key of the server API".to_owned(),
                "API" => format!("http://{}", address("api")),
                "CLIENTS" => format!("http://{}", address("clients")),
                "TAKEN" => address("clients"),
                "TOKEN" => good.clone(),
                "EXPIRED" => expired.clone(),
                word => word.replace("FOLDER", &path),
            })
            .collect();
        println!("{name}");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(&arguments).expect(code.parse().unwrap()).says(&says);
        documented(name, &says);
    }
    let url = format!("ws://{}/ws?channel=news:a", address("clients"));
    let few = "ulimit -n 40; exec \"$0\" bench sub --clients 100 --url \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", few, env!("CARGO_BIN_EXE_throng"), &url]);
    let says = [
        "may open 40 descriptors and the run needs 164",
        "LimitNOFILE",
        "throng doctor --role loadgen",
    ];
    Running::start(&mut shell).wait().expect(13).says(&says);
    documented("no descriptors", &says);
    // A page of a wrong origin. The server's answer is what a browser shows.
    let url = format!(
        "http://{}/sse?channel=news:a&token={good}",
        address("clients")
    );
    let asked = Command::new("curl")
        .args(["-s", "-H", "Origin: https://elsewhere.example", &url])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stdout);
    assert!(
        said.contains("https://elsewhere.example") && said.contains("auth.allowed_origins"),
        "{said}"
    );
    documented("wrong origin", &["may not connect", "auth.allowed_origins"]);
}

/// The page for people has a row for the mistake, with the same words.
#[track_caller]
fn documented(mistake: &str, says: &[&str]) {
    const PAGE: &str = include_str!("../../../../../docs/guides/mistakes.md");
    let start = format!("| {mistake} |");
    let row = PAGE.lines().find(|line| line.starts_with(&start));
    let row = row.unwrap_or_else(|| panic!("no row for {mistake:?}"));
    for part in says {
        // What a test chose.
        let part = part.replace("http://127.0.0.1:1", "http://127.0.0.1:8001");
        assert!(row.contains(&part), "{part:?} is missing in {row}");
    }
}

#[test]
fn programs_can_read_what_is_wrong_with_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("throng.toml");
    let file = file.to_str().unwrap();
    fs::write(file, "[channel]\nrecovery = \"yes\"\n").unwrap();
    let done = run(&["config", "check", "--json", file]).expect(4);
    let told: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(told["good"], false, "{told}");
    assert!(
        told["problems"][0]
            .as_str()
            .unwrap()
            .contains("channel.recovery")
    );
    fs::write(file, "").unwrap();
    let done = run(&["config", "check", "--json", file]).expect(0);
    let told: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(told["good"], true, "{told}");
    assert!(told["access"][0].as_str().unwrap().contains("open mode"));
}

#[test]
fn manual_pages_are_made_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    run(&["man", folder.path().to_str().unwrap()]).expect(0);
    for page in ["throng.1", "throng-serve.1", "throng-token-create.1"] {
        let text = fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
}
