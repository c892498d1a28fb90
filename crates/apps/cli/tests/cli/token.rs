//! `throng token`.

use std::fs;

use serde_json::{Value, json};

use crate::program::{Running, failing, run, run_with, throng, words};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn made(arguments: &[&str]) -> String {
    let done = run(&[&["token", "create"], arguments].concat()).expect(0);
    assert_eq!(done.err, "");
    done.out.trim_end().to_owned()
}

#[test]
fn what_create_makes_is_accepted_by_check() {
    let asked = words("--user ann --ttl 90s --allow-subscribe chat:* --allow-publish chat:1");
    let told = ["--secret", SECRET, "--info", "{\"name\": \"Ann\"}"];
    let token = made(&[&asked[..], &told].concat());
    let done = run(&["token", "check", &token, "--secret", SECRET, "--json"]).expect(0);
    let told: Value = serde_json::from_str(&done.out).unwrap();
    let claims = &told["claims"];
    assert_eq!(told["valid"], true);
    assert_eq!(claims["sub"], "ann");
    assert_eq!(claims["info"], json!({"name": "Ann"}));
    assert_eq!(
        claims["allow"],
        json!({"subscribe": ["chat:*"], "publish": ["chat:1"]})
    );
    assert_eq!(
        claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(),
        90
    );
    run(&["token", "check", &token, "--secret", SECRET])
        .expect(0)
        .prints(&["is good: user \"ann\" may connect"]);
    run_with(
        &["token", "check", "-", "--secret", SECRET],
        format!("{token}\n").as_bytes(),
    )
    .expect(0);

    let made_for_all = words("--user= --ttl never --channel a --secret");
    let token = made(&[&made_for_all[..], &[SECRET]].concat());
    run(&["token", "check", &token, "--secret", SECRET])
        .expect(0)
        .prints(&["an anonymous user may subscribe to \"a\", for ever"]);
}

#[test]
fn a_bad_token_ends_with_one_and_says_why() {
    let token = made(&["--user", "ann", "--secret", SECRET]);
    for (token, part) in [
        (token.as_str(), "its signature was not made with this key"),
        ("nonsense", "malformed"),
        ("", "malformed"),
        // {"alg":"none"} and {}
        ("eyJhbGciOiJub25lIn0.e30.", "algorithm"),
    ] {
        run(&["token", "check", token, "--secret", "another"])
            .expect(1)
            .prints(&["not accepted", part]);
    }
    // Signed with the secret, and expired in 1970: {"sub":"a","exp":1}.
    let past = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIiwiZXhwIjoxfQ.\
                JI9AiUjmlEGJQo9RtZv2-H-3rI28UYxQGV9-D0Rqopk";
    let done = run(&["token", "check", past, "--secret", SECRET, "--json"]).expect(1);
    let told: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(told["claims"]["exp"], 1);
    assert_eq!(told["valid"], false);
}

#[test]
fn keys_come_from_flags_files_or_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let file = key.to_str().unwrap();
    fs::write(&key, format!("{SECRET}\n")).unwrap();
    let token = made(&["--user", "a", "--key-file", file]);
    run(&["token", "check", &token, "--key-file", file]).expect(0);
    run(&["token", "check", &token, "--secret", SECRET]).expect(0);

    let config = folder.path().join("throng.toml");
    fs::write(
        &config,
        format!("[auth]\nhmac_secret_file = {file:?}\naudience = \"us\"\nissuer = \"me\"\n"),
    )
    .unwrap();
    let config = config.to_str().unwrap();
    let token = made(&["--user", "a", "--config", config]);
    run(&["token", "check", &token, "--config", config])
        .expect(0)
        .prints(&["\"aud\": \"us\"", "\"iss\": \"me\""]);
    let other = made(&["--user", "a", "--secret", SECRET]);
    run(&["token", "check", &other, "--config", config])
        .expect(1)
        .prints(&["audience"]);
    let mut command = throng(&["token", "check", &other]);
    Running::start(command.env("THRONG_AUTH_HMAC_SECRET", SECRET))
        .wait()
        .expect(0);

    let pem = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
    fs::write(&key, pem).unwrap();
    let create = "token create --user a";
    let (short, known) = (&SECRET[1..], "change-me-to-32-characters-or-more");
    failing(&format!(
        "{create} => 2 --secret | --key-file
token check {token} => 2 no key
{create} --key-file /no/such => 1 /no/such
{create} --key-file {file} => 1 public key
{create} --secret s --ttl 5 => 2 or never
{create} --secret s --info {{ => 2 not JSON
{create} --secret {short} => 1 --secret | openssl rand
{create} --secret {known} => 1 --secret | openssl rand"
    ));
}

/// An Ed25519 key made for this test alone, by `openssl genpkey -algorithm ed25519`.
#[test]
fn a_private_key_signs_what_its_public_key_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let (private, public) = (folder.path().join("private"), folder.path().join("public"));
    fs::write(&private, PRIVATE).unwrap();
    fs::write(&public, PUBLIC).unwrap();
    let (private, public) = (private.to_str().unwrap(), public.to_str().unwrap());
    let token = made(&["--user", "a", "--key-file", private]);
    run(&["token", "check", &token, "--key-file", public]).expect(0);
    run(&["token", "check", &token, "--key-file", private])
        .expect(1)
        .says(&["--key-file"]);
    run(&["token", "check", &token, "--secret", SECRET])
        .expect(1)
        .prints(&["no key here"]);
}

const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINR9xrqx4lSoQ1sr2MRnxN67oEsQXco+ShGhW6VPv8zC\n\
    -----END PRIVATE KEY-----\n";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEA4hA3U8yI9XMk+nmTef3YfIgHr5jsdmDEHyuNNspOzKI=\n\
    -----END PUBLIC KEY-----\n";
