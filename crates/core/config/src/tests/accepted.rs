//! Accepted configurations, the origins of values, and the texts that are made from the table.

use proptest::prelude::*;

use super::{load, load_all, refusals, sources, values};
use crate::sources::rows;
use crate::*;

#[test]
fn namespaces_have_options_of_their_own() {
    let loaded = load(
        "[channel]\nhistory_size = 1\nhistory_ttl = \"1s\"\n[[namespace]]\nname = \
         \"chat\"\nsubscribe = true\nslow_consumer = \"latest-only\"",
    );
    assert_eq!(loaded.config.channel.history_size, 1);
    let [chat] = &loaded.config.namespaces[..] else {
        panic!("it is one");
    };
    assert!(chat.name == "chat" && chat.options.subscribe && chat.options.history_size == 0);
    assert_eq!(chat.options.slow_consumer, SlowConsumer::LatestOnly);
}

#[test]
fn permissions_that_nobody_set_follow_open_mode() {
    let permissions = |file: &str| {
        let config = load(file).config;
        let options = &config.namespaces[0].options;
        assert_eq!(config.channel.publish, options.publish, "{file}");
        (
            options.anonymous_subscribe,
            options.anonymous_publish,
            options.publish && options.subscribe && options.history,
        )
    };
    let namespace = "[[namespace]]\nname = \"n\"\n";
    assert_eq!(permissions(namespace), (true, true, true));
    assert_eq!(
        permissions(&format!("{namespace}anonymous_publish = false")),
        (true, false, true)
    );
    for closed in [
        "anonymous = false",
        "hmac_secret = \"0123456789abcdef0123456789abcdef\"",
        "api_keys = [\"k\"]",
    ] {
        let file = format!("{namespace}anonymous_subscribe = true\n[auth]\n{closed}");
        assert_eq!(permissions(&file), (true, false, false), "{closed}");
    }
    assert!(Config::load(&Sources::default()).is_ok_and(|loaded| loaded.config.open_mode()));
}

#[test]
fn optional_sections_are_read_and_checked() {
    let none = load("").config;
    assert!(none.grip.is_none() && none.appwrite.is_none());
    for url in [
        "redis+cluster://a:1,b",
        "redis://a,rediss+cluster://u:p@b:1",
    ] {
        let loaded = load(&format!("[broker]\nkind = \"redis\"\nurl = \"{url}\"\n"));
        let broker = loaded.config.broker.url.as_ref();
        assert_eq!(broker.map(|url| url.expose()), Some(url));
    }

    let loaded = load_all(
        "[[grip.route]]\npath = \"/api\"\norigin = \"http://127.0.0.1:9000/\"\n[[grip.route]]\n\
         path = \"/\"\n\
         origin = [\"https://a\", \"http://b:1\"]\nresponse_timeout = \"2s\"",
        &[
            ("THRONG_APPWRITE_API", "http://127.0.0.1/v1"),
            ("THRONG_GRIP_ZMQ_PULL", "tcp://*:5560"),
        ],
        &[],
    );
    let grip = loaded
        .config
        .grip
        .as_ref()
        .expect("a route makes the section");
    assert_eq!(grip.routes[0].origin, ["http://127.0.0.1:9000/"]);
    assert_eq!(
        (
            grip.routes[1].origin.len(),
            grip.routes[1].response_timeout_ms
        ),
        (2, 2000)
    );
    assert_eq!(grip.zmq_pull, Some(([0, 0, 0, 0], 5560).into()));
    let appwrite = loaded
        .config
        .appwrite
        .as_ref()
        .expect("a variable makes the section");
    assert_eq!(appwrite.api.as_deref(), Some("http://127.0.0.1/v1"));
    assert_eq!(
        loaded.warnings,
        [
            "[appwrite] has no [[appwrite.project]]: name the projects whose clients may connect",
            "grip.zmq_pull: everyone who reaches 0.0.0.0:5560 may use it, since GRIP has no keys \
             for it; keep it inside your network",
        ]
    );
}

#[test]
fn later_layers_win_and_are_remembered() {
    let file = "[engine]\nshards = 1\nbacklog = 10\n[listen]\nclient = \"127.0.0.1:1\"\n";
    let loaded = load_all(
        file,
        &[
            ("THRONG_ENGINE_SHARDS", "2"),
            ("THRONG_LISTEN_CLIENT", "127.0.0.1:2, [::1]:2"),
            ("THRONG_LISTEN_API", ""),
            ("PATH", "x"),
        ],
        &[("engine.shards", "3"), ("--shards", "4")],
    );
    let origin = |path| loaded.origins.get(path).to_string();
    assert_eq!(
        (loaded.config.engine.shards, origin("engine.shards")),
        (4, "flag --shards".to_owned())
    );
    assert_eq!(
        (loaded.config.engine.backlog, origin("engine.backlog")),
        (10, "throng.toml:3".to_owned())
    );
    assert_eq!(loaded.config.listen.client.len(), 2);
    assert_eq!(origin("listen.client"), "env THRONG_LISTEN_CLIENT");
    assert_eq!(origin("listen.api"), "default");
    let empty = "env THRONG_LISTEN_API is empty and counts as not set; unset it";
    assert_eq!(loaded.warnings, [empty]);

    let flags = [
        ("--listen", "127.0.0.1:3"),
        ("listen.client", "127.0.0.1:4"),
    ];
    let loaded = load_all(file, &[], &flags);
    assert_eq!(
        loaded.config.listen.client.len(),
        2,
        "a repeated flag makes a list"
    );

    assert_eq!(
        refusals(
            "[engine]\nshards = 999",
            &[("THRONG_ENGINE_SHARDS", "x")],
            &[
                ("engine.shard", "1"),
                ("engine.shards", ""),
                ("--shard", "1")
            ]
        ),
        [
            "throng.toml:2:10: engine.shards: expected a whole number from 0 to 64, found the \
             number 999",
            "env THRONG_ENGINE_SHARDS: engine.shards: expected a whole number from 0 to 64, \
             found \"x\"",
            "flag --set --shard: unknown option \"--shard\": `throng config show` lists the \
             options",
            "flag --set engine.shard: unknown option \"engine.shard\": did you mean \
             \"engine.shards\"?",
            "flag --set engine.shards: engine.shards: expected a whole number from 0 to 64, \
             found \"\"",
        ]
    );
}

#[test]
fn strange_variables_are_a_warning() {
    let variables = [
        ("THRONG_LISTEN_CLEINT", "x"),
        ("THRONG_CONFIG", "x"),
        ("THRONG_PORT_8000_TCP", "tcp://10.0.0.1:8000"),
        ("THRONG_SERVICE_HOST", "10.0.0.1"),
        ("THRONG_NAMESPACE_NAME", "x"),
    ];
    assert_eq!(
        load_all("", &variables, &[]).warnings,
        [
            "env THRONG_LISTEN_CLEINT is no option and has no effect; did you mean \
             THRONG_LISTEN_CLIENT?",
            "env THRONG_NAMESPACE_NAME is no option and has no effect",
        ]
    );
}

#[test]
fn origins_may_be_patterns_and_of_any_scheme() {
    let accepted = [
        "*",
        "https://A.example",
        "https://*.a.example",
        "http://localhost:*",
        "capacitor://localhost",
    ];
    for origin in accepted {
        let loaded = load(&format!("[auth]\nallowed_origins = [{origin:?}]"));
        assert_eq!(loaded.config.auth.allowed_origins, [origin.to_lowercase()]);
    }
}

#[test]
fn hosts_are_names() {
    for name in [
        "*",
        "push.Example.com",
        "*.in.example",
        "throng",
        "a_b-c.d.",
    ] {
        let loaded = load(&format!("[auth]\nallowed_hosts = [{name:?}]"));
        assert_eq!(loaded.config.auth.allowed_hosts, [name.to_lowercase()]);
    }
    for wrong in ["", "a:80", "http://a", "a/b", "*a", "a.*", ".a", "*.", "é"] {
        let problems = refusals(&format!("[auth]\nallowed_hosts = [{wrong:?}]"), &[], &[]);
        assert_eq!(problems.len(), 1, "{wrong}");
    }
}

/// A value other than the default, and the lines that such an option needs before it.
fn another(option: &OptionSpec) -> (&'static str, String) {
    let find = |name: &str| {
        let mut all = rows::<3>(include_str!("another.txt"));
        all.find(|[known, ..]| *known == name)
    };
    match find(&option.path()).or_else(|| find(&option.kind)) {
        Some([_, value, needs]) => (value, needs.replace("; ", "\n")),
        None => {
            assert_eq!(option.kind, "bool", "{}", option.path());
            let is_off = option.default.as_deref() == Some("false");
            (if is_off { "true" } else { "false" }, String::new())
        }
    }
}

#[test]
fn every_option_can_be_set_from_every_layer() {
    let once = options().into_iter().filter(|option| {
        !matches!(
            option.section,
            "namespace"
                | "feed"
                | "proxy.backend"
                | "grip.route"
                | "appwrite.project"
                | "tls.site"
                | "auth.api_key"
                | "app"
                | "webhook"
        )
    });
    for option in once {
        let path = option.path();
        let (value, needs) = another(&option);
        let in_file = match option.kind.as_str() {
            "bool" | "number" => value.to_owned(),
            _ => format!("{value:?}"),
        };
        let section = match needs.as_str() {
            "" => format!("[{}]", option.section),
            needs => needs.to_owned(),
        };
        let file = format!("{section}\n{} = {in_file}", option.key);
        for (loaded, origin) in [
            (load(&file), "throng.toml:".to_owned()),
            (
                load_all(&needs, &[(&option.env(), value)], &[]),
                format!("env {}", option.env()),
            ),
            (
                load_all(&needs, &[], &[(&path, value)]),
                "flag --".to_owned(),
            ),
        ] {
            let shown = values(&loaded);
            let shown = { shown.iter() }.find(|shown| shown.path == path);
            let shown = shown.expect("it is shown");
            assert_ne!(shown.value, option.default, "{path}");
            let text = shown.value.clone().unwrap_or_default();
            assert!(text.contains(value), "{path} = {text}");
            let found = shown.origin.to_string();
            assert!(found.starts_with(&origin), "{path}: {found}");
        }
    }
}

/// The commented file with the options switched on that `keep` picks.
fn uncommented(keep: impl Fn(&str, &str) -> bool) -> String {
    let mut section = String::new();
    let mut out = String::new();
    for line in init_text().lines() {
        let option = line
            .strip_prefix('#')
            .filter(|rest| !rest.starts_with([' ', ':']) && !rest.is_empty());
        let content = option.unwrap_or(line);
        if let Some(name) = content.strip_prefix('[') {
            name.trim_matches(['[', ']']).clone_into(&mut section);
        }
        let key = content.split(" = ").next().unwrap_or_default();
        out.push_str(if keep(&section, key) { content } else { line });
        out.push('\n');
    }
    out
}

#[test]
fn the_commented_file_holds_the_defaults() {
    let defaults = load("").config;
    assert_eq!(load(&init_text()).config, defaults, "as it is written");

    let with_defaults: Vec<OptionSpec> = options()
        .into_iter()
        .filter(|option| {
            option.default.is_some()
                && !matches!(
                    option.section,
                    "namespace"
                        | "feed"
                        | "appwrite"
                        | "appwrite.project"
                        | "grip"
                        | "grip.route"
                        | "oidc"
                        | "proxy"
                        | "proxy.backend"
                        | "tls.site"
                        | "auth.api_key"
                        | "app"
                        | "webhook"
                )
        })
        .collect();
    let text = uncommented(|section, key| {
        with_defaults
            .iter()
            .any(|option| option.section == section && option.key == key)
    });
    let loaded = load(&text);
    assert_eq!(loaded.config, defaults, "with every default switched on");
    for option in &with_defaults {
        assert!(
            matches!(loaded.origins.get(&option.path()), Origin::File { .. }),
            "{}",
            option.path()
        );
    }

    let everything = uncommented(|_, key| {
        !matches!(
            key,
            "hmac_secret_file"
                | "hmac_previous_secret_file"
                | "ecdsa_public_key_file"
                | "rsa_public_key_file"
                | "eddsa_public_key_file"
                | "jwks_file"
                | "key_file"
                | "api_client_authorities"
        )
    });
    let loaded = load(&everything);
    assert_eq!(
        loaded.config.namespaces.len(),
        1,
        "examples are values that are accepted"
    );
    assert_eq!(loaded.config.grip.map(|grip| grip.routes.len()), Some(1));
}

#[test]
fn what_is_shown_reads_back() {
    let file = "[engine]\nshards = 3\n[auth]\nhmac_secret = \"tab\\there \\\"quoted\\\" \\\\ \
                \\u0001 é, and long enough\"\n\
        [[namespace]]\nname = \"a\"\npublish = true\n[[namespace]]\nname = \"b\"\n\
        [[appwrite.project]]\nid = \"p\"\nplatforms = [\"a\", \"b\"]\n[[grip.route]]\npath = \
        \"/\"\norigin = \"http://a\"\n";
    let loaded = load(file);
    let shown = loaded.show(true);
    assert_eq!(load(&shown).config, loaded.config, "{shown}");
    assert!(
        shown.contains("[engine]\nshards = 3                     # throng.toml:2\n"),
        "{shown}"
    );
}

#[test]
fn options_are_named_once_and_documented() {
    let all = options();
    let mut names: Vec<String> = all.iter().map(OptionSpec::path).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all.len());
    let mut variables: Vec<String> = all.iter().map(OptionSpec::env).collect();
    variables.sort();
    variables.dedup();
    assert_eq!(variables.len(), all.len(), "two options share a variable");
    let reference = reference_text();
    for option in &all {
        assert!(
            option.doc.ends_with('.'),
            "{}: {}",
            option.path(),
            option.doc
        );
        assert!(
            reference.contains(&format!("| `{}` | {} |", option.key, option.kind)),
            "{}",
            option.path()
        );
        assert!(
            option.default.is_some() || !option.rule.example.is_empty(),
            "{} needs an example",
            option.path()
        );
    }
    assert_eq!(all[0].env(), "THRONG_LISTEN_CLIENT");
    for line in reference.lines().filter(|line| line.starts_with('|')) {
        assert!(
            matches!(line.matches(" |").count(), 4 | 5) || line.starts_with("|---"),
            "{line}"
        );
    }
}

#[test]
fn files_are_taken_by_the_option_that_names_them() {
    let mut auth = load(
        "[auth]\nhmac_secret_file = \"s\"\neddsa_public_key_file = \"e\"\napi_keys_file = \"k\"\n",
    )
    .config
    .auth;
    let files = auth.files();
    let keys: Vec<&str> = files.iter().map(|file| &*file.key).collect();
    assert_eq!(
        keys,
        ["hmac_secret_file", "eddsa_public_key_file", "api_keys_file"]
    );
    let secret = "0123456789abcdef0123456789abcdef";
    assert_eq!(auth.take_file(&files[0], &format!("{secret}\n")), Ok(()));
    assert_eq!(auth.hmac_secret.as_deref(), Some(secret));
    assert_eq!(auth.take_file(&files[2], "one\n\n two \r\n"), Ok(()));
    let api_keys: Vec<&str> = auth.api_keys.iter().map(Secret::expose).collect();
    assert_eq!(api_keys, ["one", "two"]);
}

proptest! {
    #[test]
    fn any_file_is_survived(text in ".*") {
        let _ = Config::load(&sources(&text, &[], &[]));
    }

    /// Pieces of real files in any order find more than random characters do.
    #[test]
    fn any_heap_of_pieces_is_survived(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("["), Just("]"), Just("[["), Just("]]"), Just("\n"), Just(" = "), Just("\""),
                Just("."), Just("#"), Just("listen"), Just("namespace"), Just("grip"),
                Just("route"), Just("name"), Just("client"), Just("history_size"), Just("{"),
                Just("}"), Just(","), Just("1"), Just("-"), Just("é"), Just("\r\n"),
                Just("\"\"\""), Just("0x"), Just("1979-05-27"),
                Just("[[namespace]]\nname = \"x\"\n"), Just("true"),
            ],
            0..40,
        )
    ) {
        let _ = Config::load(&sources(&pieces.concat(), &[], &[]));
    }

    #[test]
    fn any_variable_and_flag_is_survived(which in 0_usize..80, text in ".*") {
        let all = options();
        let option = &all[which % all.len()];
        let _ = Config::load(&sources("", &[(&option.env(), &text)], &[(&option.path(), &text)]));
    }
}

#[test]
fn relative_paths_in_the_file_count_from_its_folder() {
    let text = "[auth]\nhmac_secret_file = \"s\"\napi_keys_file = \"/k\"\n\
                [grip]\nroutes_file = \"../routes\"\npushpin_conf = \"pushpin.conf\"\n";
    let mut sources = sources(text, &[("THRONG_AUTH_RSA_PUBLIC_KEY_FILE", "r")], &[]);
    if let Some(file) = &mut sources.file {
        file.name = "etc/throng/throng.toml".to_owned();
    }
    let config = Config::load(&sources).unwrap().config;
    let files = config.auth.files().into_iter().map(|file| file.path);
    assert_eq!(
        files.collect::<Vec<_>>(),
        ["etc/throng/s", "r", "/k"],
        "variables count from where the command runs"
    );
    let grip = config.grip.unwrap();
    assert_eq!(grip.routes_file.as_deref(), Some("etc/throng/../routes"));
    assert_eq!(
        Config::named_files(&sources).0.as_deref(),
        Some("etc/throng/pushpin.conf")
    );
}

#[test]
fn apps_come_from_the_file_and_from_a_folder() {
    let app = |id: &str| format!("id = \"{id}\"\nkey = \"k{id}\"\nsecret = \"s\"\n");
    let file = |name: &str, text: String| ConfigFile {
        name: name.to_owned(),
        text,
    };
    let named = sources("[pusher]\napps_dir = \"a\"\n", &[], &[]);
    assert_eq!(Config::named_files(&named), (None, Some("a".to_owned())));
    let mut sources = sources(&format!("[[app]]\n{}", app("1")), &[], &[]);
    sources.apps = vec![file("a/2.toml", app("2")), file("a/3.toml", app("3"))];
    let loaded = Config::load(&sources).expect("good");
    let ids: Vec<&str> = loaded.config.apps.iter().map(|app| &*app.id).collect();
    assert_eq!(ids, ["1", "2", "3"]);
    let shown = loaded.show(true);
    assert!(shown.contains("# a/3.toml:2\n"), "{shown}");
    // Each fault has its file and its line.
    sources.apps = vec![
        file("a/2.toml", app("1")),
        file("a/3.toml", format!("{}colour = 1\n", app("3"))),
        file("a/4.toml", "id = ".to_owned()),
        file("a/5.toml", "\nclient_events = 7\n".to_owned()),
    ];
    let problems = Config::load(&sources).expect_err("refused");
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for text in [
        "a/2.toml:1:6: app[1].id: another app has the id \"1\" too",
        "a/2.toml:2:7: app[1].key: another app has the key \"k1\" too",
        "a/3.toml:4:1: unknown option \"colour\" in [[app]]",
        "a/4.toml:1:6: not valid TOML",
        "a/5.toml:1:1: app[3] has no id",
        "a/5.toml:2:17: app[3].client_events: ",
    ] {
        assert!(
            told.iter().any(|line| line.starts_with(text)),
            "{text}: {told:#?}"
        );
    }
}
