//! The configuration from outside: what is accepted, what is refused and in which words.

use proptest::prelude::*;

use crate::*;

fn sources(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
    let owned = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    Sources {
        file: (!file.is_empty()).then(|| ConfigFile {
            name: "throng.toml".to_owned(),
            text: file.to_owned(),
        }),
        env: owned(env),
        flags: owned(flags),
    }
}

#[track_caller]
fn load(file: &str) -> Loaded {
    load_all(file, &[], &[])
}

#[track_caller]
fn load_all(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Loaded {
    Config::load(&sources(file, env, flags)).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn refusals(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Vec<String> {
    match Config::load(&sources(file, env, flags)) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// A file and the problems that it has, all of them and in order.
#[track_caller]
fn check(file: &str, expected: &[&str]) {
    assert_eq!(refusals(file, &[], &[]), expected, "for the file\n{file}");
}

#[test]
fn strange_keys_are_named_with_what_was_meant() {
    check(
        "[websocket]\npign_interval = \"25s\"\n",
        &[
            "throng.toml:2:1: unknown option \"pign_interval\" in [websocket]: did you mean \"ping_interval\"?",
        ],
    );
    check(
        "[stream]\nping_interval = \"25s\"\n  zzzzzzzz = 1",
        &[
            "throng.toml:2:1: unknown option \"ping_interval\" in [stream]: it belongs in [websocket]",
            "throng.toml:3:3: unknown option \"zzzzzzzz\" in [stream]: the options there are keepalive_interval",
        ],
    );
    check(
        "[websokcet]\nping_interval = \"1s\"\n",
        &["throng.toml:1:2: unknown section \"websokcet\": did you mean [websocket]?"],
    );
    check(
        "[[namespaces]]\nname = \"x\"",
        &["throng.toml:1:3: unknown section \"namespaces\": did you mean [[namespace]]?"],
    );
    check(
        "client = \"127.0.0.1:1\"\n",
        &["throng.toml:1:1: unknown option \"client\" outside any section: put it under [listen]"],
    );
    check(
        "[wholly_else]\n",
        &[
            "throng.toml:1:2: unknown section \"wholly_else\": the sections are [listen], [engine], [limits], \
           [websocket], [stream], [auth], [drain], [channel], [[namespace]], [log], [appwrite], [grip]",
        ],
    );
    check(
        "[[namespace]]\nname = \"x\"\nrecover = true\n[[grip.route]]\npath = \"/\"\norigin = \"http://a\"\ntimeout = 1\n[grip]\nroutes = 1",
        &[
            "throng.toml:3:1: unknown option \"recover\" in [[namespace]]: did you mean \"recovery\"?",
            "throng.toml:7:1: unknown option \"timeout\" in [[grip.route]]: it belongs in [drain]",
            "throng.toml:9:1: unknown option \"routes\" in [grip]: did you mean \"route\"?",
        ],
    );
}

#[test]
fn wrong_shapes_say_how_to_write_it() {
    check(
        "[namespace]\nname = \"x\"\n",
        &[
            "throng.toml:1:1: namespace may stand several times: write it in double brackets, [[namespace]]",
        ],
    );
    check(
        "namespace = [1]\n",
        &[
            "throng.toml:1:14: namespace is a section: write [[namespace]], and its options below it",
        ],
    );
    check(
        "[[listen]]\n",
        &["throng.toml:1:1: [listen] can stand only once: write it in single brackets"],
    );
    check(
        "listen = 4\n",
        &["throng.toml:1:10: listen is a section: write [listen], and its options below it"],
    );
    check(
        "grip = false\n",
        &["throng.toml:1:8: grip is a section: write [grip], and its options below it"],
    );
    check(
        "[listen\nclient = 4\n[a",
        &[
            "throng.toml:1:8: not valid TOML: unclosed table, expected `]`",
            "throng.toml:3:3: not valid TOML: unclosed table, expected `]`",
        ],
    );
    check(
        "[listen]\napi = \"1\"\napi = \"2\"",
        &["throng.toml:3:1: not valid TOML: duplicate key"],
    );
}

#[test]
fn wrong_values_say_what_is_expected() {
    check(
        "[websocket]\nping_interval = 25\n",
        &[
            "throng.toml:2:17: websocket.ping_interval: expected a duration from \"1s\" to \"1h\" or \"0s\" (off), found the number 25",
        ],
    );
    check(
        "[engine]\nbacklog = 0\nshards = -1\nout_buffer_bytes_max = \"1k\"\nconnections_max = 1.5",
        &[
            "throng.toml:2:11: engine.backlog: expected a whole number from 1 to 65535, found the number 0",
            "throng.toml:3:10: engine.shards: expected a whole number from 0 to 256, found the number -1",
            "throng.toml:4:24: engine.out_buffer_bytes_max: expected a size from \"4KiB\" to \"1GiB\", found \"1k\"",
            "throng.toml:5:19: engine.connections_max: expected a whole number from 0 to 4294967295, found a number with a fraction",
        ],
    );
    check(
        "[listen]\nclient = [\"127.0.0.1:8000\",\n  \"localhost:9\"]\napi = true\n",
        &[
            "throng.toml:3:3: listen.client: expected an IP address with a port, such as \"127.0.0.1:8000\" or \"[::]:8000\", found \"localhost:9\"",
            "throng.toml:4:7: listen.api: expected an IP address with a port, such as \"127.0.0.1:8000\" or \"[::]:8000\", found true",
        ],
    );
    check(
        "[log]\nlevel = \"verbose\"\nformat = 1979-05-27\n",
        &[
            "throng.toml:2:9: log.level: expected one of \"error\", \"warn\", \"info\", \"debug\", \"trace\", found \"verbose\"",
            "throng.toml:3:10: log.format: expected one of \"text\", \"json\", found a date or time",
        ],
    );
    check(
        "[auth]\nallowed_origins = [\"https://a.b/\"]\ninsecure = \"yes\"\naudience = []\nissuer = {}",
        &[
            "throng.toml:2:20: auth.allowed_origins: expected a web origin such as \"https://app.example.com\", without a path, or \"*\", found \"https://a.b/\"",
            "throng.toml:3:12: auth.insecure: expected true or false, found \"yes\"",
            "throng.toml:4:12: auth.audience: expected a text that is not empty, found a list",
            "throng.toml:5:10: auth.issuer: expected a text that is not empty, found a section",
        ],
    );
}

#[test]
fn sizes_and_durations_of_zero_are_refused_where_they_would_stop_everything() {
    for option in options() {
        let zero = match option.kind.as_str() {
            "size" => "\"0B\"",
            "duration" => "\"0s\"",
            _ => continue,
        };
        if option.section.contains('.') {
            continue;
        }
        let file = format!("[{}]\n{} = {zero}\n", option.section, option.key);
        let allowed = matches!(
            option.path().as_str(),
            "websocket.ping_interval"
                | "stream.keepalive_interval"
                | "drain.timeout"
                | "drain.jitter"
                | "channel.history_ttl"
                | "namespace.history_ttl"
                | "appwrite.history"
        );
        if option.section != "namespace" {
            assert_eq!(refusals(&file, &[], &[]).is_empty(), allowed, "{file}");
        }
    }
}

#[test]
fn secrets_stay_out_of_messages_and_lists() {
    let pem = "-----BEGIN PRIVATE KEY-----hunter2";
    let wrong = [
        ("[auth]\nhmac_secret = [\"hunter2\"]\n".to_owned(), "a list"),
        (
            "[auth]\napi_keys = [\"\", \"hunter2\"]\n".to_owned(),
            "another text",
        ),
        (
            format!("[auth]\nrsa_public_key = \"{pem}\"\n"),
            "a private key",
        ),
        (
            "[appwrite]\nredis = \"http://:hunter2@host\"\n".to_owned(),
            "another text",
        ),
    ];
    for (file, found) in wrong {
        let problems = refusals(&file, &[], &[]).join("\n");
        assert!(problems.contains(&format!("found {found}")), "{problems}");
        assert!(!problems.contains("hunter2"), "{problems}");
    }
    let problems = refusals(
        "",
        &[("THRONG_APPWRITE_REDIS", "http://:hunter2@host")],
        &[],
    );
    assert_eq!(problems.len(), 1);
    assert!(!problems.concat().contains("hunter2"), "{problems:?}");

    let loaded = load(
        "[auth]\nhmac_secret = \"hunter2-hunter2-hunter2-hunter2-\"\napi_keys = [\"hunter2\", \"hunter2b\"]\n\
         [appwrite]\nredis = \"redis://:hunter2@host\"\n[grip]\nsig_key = \"hunter2\"\n",
    );
    let shown = loaded.show(false);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("api_keys = [\"********\"]"), "{shown}");
    assert!(!format!("{loaded:?}").contains("hunter2"));
    assert_eq!(loaded.show(true).matches("hunter2b").count(), 1);
}

#[test]
fn addresses_that_others_reach_need_keys() {
    let client = "listen.client: other machines can reach 0.0.0.0:8000, but clients need no key: \
        set auth.hmac_secret or a public key (auth.rsa_public_key, auth.ecdsa_public_key, \
        auth.eddsa_public_key), or auth.insecure = true to do without";
    let api = "listen.api: other machines can reach [::]:8001, but the server API needs no key: \
        set auth.api_keys, or auth.insecure = true to do without";
    let file = "[listen]\nclient = \"0.0.0.0:8000\"\napi = \"[::]:8001\"\n";
    let both = [
        format!("throng.toml:2:10: {client}"),
        format!("throng.toml:3:7: {api}"),
    ];
    check(file, &[&both[0], &both[1]]);
    check(&format!("{file}[auth]\napi_keys = [\"k\"]"), &[&both[0]]);
    check(
        &format!("{file}[auth]\nhmac_secret_file = \"f\""),
        &[&both[1]],
    );
    // A key that is given and wrong is one problem, not two.
    check(
        &format!("{file}[auth]\napi_keys = [\"k\"]\nhmac_secret = 1"),
        &["throng.toml:6:15: auth.hmac_secret: expected a text that is not empty, found a number"],
    );
    let by_flag = refusals("", &[], &[("listen.client", "0.0.0.0:8000")]);
    assert_eq!(by_flag, [format!("flag --listen: {client}")]);
    let by_variable = refusals("", &[("THRONG_LISTEN_API", "[::]:8001")], &[]);
    assert_eq!(by_variable, [format!("env THRONG_LISTEN_API: {api}")]);

    for keys in [
        "eddsa_public_key_file = \"f\"",
        "ecdsa_public_key = \"-----BEGIN PUBLIC KEY-----\"",
    ] {
        let loaded = load(&format!("{file}[auth]\napi_keys_file = \"f\"\n{keys}"));
        assert!(!loaded.config.open_mode() && !loaded.config.anonymous_allowed());
        assert_eq!(loaded.warnings, [""; 0]);
    }
    let loaded = load(&format!("{file}[auth]\ninsecure = true\n"));
    assert!(!loaded.config.open_mode() && loaded.config.anonymous_allowed());
    assert_eq!(
        loaded.warnings,
        [
            "auth.insecure: clients reach 0.0.0.0:8000 and no key checks them",
            "auth.insecure: everyone who reaches [::]:8001 may use the server API",
        ]
    );
    for loopback in ["127.0.0.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(
            load(&format!("[listen]\napi = \"{loopback}\""))
                .config
                .open_mode(),
            "{loopback}"
        );
    }
}

#[test]
fn combinations_that_cannot_work_are_refused() {
    check(
        "[listen]\nclient = []",
        &["throng.toml:2:10: listen.client is empty: name at least one address"],
    );
    check(
        "[listen]\nclient = [\"127.0.0.1:1\", \"127.0.0.1:1\"]\napi = \"127.0.0.1:1\"\n[grip]\nzmq_pull = \"tcp://127.0.0.1:1\"",
        &[
            "throng.toml:2:10: listen.client: 127.0.0.1:1 stands there twice",
            "throng.toml:3:7: listen.api: 127.0.0.1:1 is taken by listen.client; give each its own port",
            "throng.toml:5:12: grip.zmq_pull: 127.0.0.1:1 is taken by listen.client; give each its own port",
        ],
    );
    check(
        "[listen]\nclient = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\napi = \"127.0.0.1:0\"\n",
        &[],
    );
    check(
        "[auth]\nhmac_secret = \"a\"\nhmac_secret_file = \"b\"",
        &[
            "throng.toml:3:20: auth.hmac_secret_file: auth.hmac_secret is set too; keep one of the two",
        ],
    );
    check(
        "[websocket]\nping_interval = \"5s\"\n",
        &[
            "websocket.pong_timeout: \"8s\" has to be shorter than websocket.ping_interval, which is \"5s\"",
        ],
    );
    check("[websocket]\nping_interval = \"0s\"\n", &[]);
    check(
        "[limits]\nmessage_bytes_max = \"2MiB\"\n",
        &[
            "throng.toml:2:21: limits.message_bytes_max: a message of \"2MiB\" would not fit into any connection's queue; \
           raise engine.out_buffer_bytes_max, which is \"1MiB\"",
        ],
    );
}

#[test]
fn channels_are_checked_together() {
    let recovery = "recovery: there is nothing to recover from; set";
    for (options, missing) in [
        ("recovery = true", "history_size and history_ttl"),
        ("recovery = true\nhistory_size = 1", "history_ttl"),
        ("recovery = true\nhistory_ttl = \"1m\"", "history_size"),
    ] {
        check(
            &format!("[channel]\n{options}"),
            &[&format!(
                "throng.toml:2:12: channel.{recovery} {missing} above 0"
            )],
        );
    }
    check(
        "[channel]\nrecovery = true\nhistory_size = 1\nhistory_ttl = \"1m\"",
        &[],
    );
    check(
        "[[namespace]]\nhistory_size = 5\nhistory_ttl = \"1s\"\n[[namespace]]\nname = \"a b\"\n[[namespace]]\nname = \"x\"\n\
         [[namespace]]\nname = \"x\"\nrecovery = true\nslow_consumer = \"drop\"",
        &[
            "throng.toml:1:1: namespace[0] has no name: add name = \"…\"",
            "throng.toml:5:8: namespace[1].name: expected 1 to 64 ASCII letters, digits, \"-\", \"_\" or \".\", found \"a b\"",
            "throng.toml:9:8: namespace[3].name: the namespace \"x\" is there twice; join the two or rename one",
            "throng.toml:10:12: namespace[3].recovery: there is nothing to recover from; set history_size and history_ttl above 0",
            "throng.toml:11:17: namespace[3].slow_consumer: expected one of \"close\", \"drop-oldest\", \"latest-only\", found \"drop\"",
        ],
    );
    let loaded =
        load("[channel]\nhistory_size = 5\n[auth]\nanonymous = true\nhmac_secret = \"short\"");
    assert_eq!(
        loaded.warnings,
        [
            "auth.hmac_secret is shorter than 32 bytes and can be guessed; make one with `openssl rand -hex 32`",
            "channel keeps no history: history_ttl is 0",
            "auth.anonymous is true, but no channel has anonymous_subscribe = true: \
             clients without a token can connect and do nothing",
        ]
    );
}

#[test]
fn channels_find_their_options() {
    let loaded = load(
        "[channel]\nhistory_size = 1\nhistory_ttl = \"1s\"\n[[namespace]]\nname = \"chat\"\nsubscribe_token = true\nslow_consumer = \"latest-only\"",
    );
    let options = |name| {
        let channel = throng_types::ChannelName::new(name).expect("a channel name");
        loaded.config.channel_options(&channel)
    };
    assert_eq!(options("news").map(|options| options.history_size), Some(1));
    let chat = options("chat:42").expect("configured");
    assert!(chat.subscribe_token && chat.history_size == 0);
    assert_eq!(chat.slow_consumer, SlowConsumer::LatestOnly);
    assert_eq!(options("other:42"), None);
    assert_eq!(options(":42"), None);
    assert_eq!(loaded.config.namespaces.find("chat"), Some(chat));
}

#[test]
fn permissions_that_nobody_set_follow_open_mode() {
    let permissions = |file: &str| {
        let config = load(file).config;
        let options = config.namespaces.find("n").expect("configured");
        assert_eq!(config.channel.publish, options.publish, "{file}");
        (
            options.anonymous_subscribe,
            options.anonymous_publish,
            options.publish,
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
        "hmac_secret = \"s\"",
        "api_keys = [\"k\"]",
    ] {
        let file = format!("{namespace}anonymous_subscribe = true\n[auth]\n{closed}");
        assert_eq!(permissions(&file), (true, false, false), "{closed}");
    }
    assert!(Config::load(&Sources::default()).is_ok_and(|loaded| loaded.config.open_mode()));
}

#[test]
fn optional_sections_are_read_and_checked() {
    check(
        "[grip]\nzmq_sub = \"tcp://localhost:1\"\n[[grip.route]]\npath = \"x\"\n[[grip.route]]\norigin = \"127.0.0.1:9\"\n\
         [[grip.route]]\npath = \"/\"\norigin = []",
        &[
            "throng.toml:2:11: grip.zmq_sub: expected an address such as \"127.0.0.1:5561\", \"tcp://127.0.0.1:5560\" or \"tcp://*:5560\", found \"tcp://localhost:1\"",
            "throng.toml:3:1: grip.route[0] has no backend: add origin = [\"http://…\"]",
            "throng.toml:4:8: grip.route[0].path: expected a path that begins with \"/\", found \"x\"",
            "throng.toml:5:1: grip.route[1] has no path: add path = \"/\" or a longer one",
            "throng.toml:6:10: grip.route[1].origin: expected a URL that begins with http:// or https://, such as \"http://127.0.0.1:9000\", found \"127.0.0.1:9\"",
            "throng.toml:9:10: grip.route[2] has no backend: add origin = [\"http://…\"]",
        ],
    );
    check(
        "[appwrite]\nredis = \"x\"\n[[appwrite.project]]\n[[appwrite.project]]\nid = \"\"\n[[appwrite.project]]\nid = \"p\"\n[[appwrite.project]]\nid = \"p\"",
        &[
            "throng.toml:2:9: appwrite.redis: expected a URL such as \"redis://127.0.0.1:6379/0\" or \"rediss://user:password@host:6379\", found another text",
            "throng.toml:3:1: appwrite.project[0] has no id: add id = \"…\"",
            "throng.toml:5:6: appwrite.project[1].id: expected a text that is not empty, found \"\"",
            "throng.toml:9:6: appwrite.project[3].id: the project \"p\" is there twice",
        ],
    );
    let none = load("").config;
    assert!(none.grip.is_none() && none.appwrite.is_none());

    let loaded = load_all(
        "[[grip.route]]\npath = \"/api\"\norigin = \"http://127.0.0.1:9000/x\"\n[[grip.route]]\npath = \"/\"\n\
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
    assert_eq!(grip.routes[0].origin, ["http://127.0.0.1:9000/x"]);
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
            "grip.zmq_pull: everyone who reaches 0.0.0.0:5560 may use it, since GRIP has no keys for it; keep it inside your network",
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
        &[("engine.shards", "3"), ("engine.shards", "4")],
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
    assert_eq!(loaded.warnings, [""; 0]);

    let flags = [
        ("listen.client", "127.0.0.1:3"),
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
            &[("engine.shard", "1"), ("engine.shards", "")]
        ),
        [
            "throng.toml:2:10: engine.shards: expected a whole number from 0 to 256, found the number 999",
            "env THRONG_ENGINE_SHARDS: engine.shards: expected a whole number from 0 to 256, found \"x\"",
            "flag --set engine.shard: unknown option \"engine.shard\": did you mean \"engine.shards\"?",
            "flag --shards: engine.shards: expected a whole number from 0 to 256, found \"\"",
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
            "env THRONG_LISTEN_CLEINT is no option and has no effect; did you mean THRONG_LISTEN_CLIENT?",
            "env THRONG_NAMESPACE_NAME is no option and has no effect",
        ]
    );
}

/// A value other than the default that every kind of option accepts.
fn another(option: &OptionSpec) -> &'static str {
    match option.path().as_str() {
        "log.level" => return "debug",
        "log.format" => return "json",
        "websocket.pong_timeout" => return "7s",
        "limits.history_bytes_max" => return "7MiB",
        _ => {}
    }
    match option.kind.as_str() {
        "bool" if option.default.as_deref() == Some("false") => "true",
        "bool" => "false",
        "number" => "7",
        "duration" => "17s",
        "size" => "77KiB",
        "text" | "secret" | "list of secrets" => "a-long-text-that-guards-the-doors",
        "PEM text" => "-----BEGIN PUBLIC KEY-----",
        "address" | "list of addresses" => "127.0.0.7:777",
        "list of origins" => "https://a.example",
        "URL" if option.key == "redis" => "redis://a",
        "URL" => "http://a",
        "word" => "latest-only",
        other => panic!("{}: no value for the kind {other}", option.path()),
    }
}

#[test]
fn every_option_can_be_set_from_every_layer() {
    let once = options().into_iter().filter(|option| {
        !matches!(
            option.section,
            "namespace" | "grip.route" | "appwrite.project"
        )
    });
    for option in once {
        let path = option.path();
        let value = another(&option);
        let in_file = match option.kind.as_str() {
            "bool" | "number" => value.to_owned(),
            _ => format!("{value:?}"),
        };
        let recovery = if path == "channel.recovery" {
            "history_size = 1\nhistory_ttl = \"1s\"\n"
        } else {
            ""
        };
        let base = if recovery.is_empty() {
            String::new()
        } else {
            format!("[channel]\n{recovery}")
        };
        let section = if recovery.is_empty() {
            format!("[{}]\n", option.section)
        } else {
            base.clone()
        };
        let layers = [
            (
                load(&format!("{section}{} = {in_file}", option.key)),
                "throng.toml:".to_owned(),
            ),
            (
                load_all(&base, &[(&option.env(), value)], &[]),
                format!("env {}", option.env()),
            ),
            (
                load_all(&base, &[], &[(&path, value)]),
                "flag --".to_owned(),
            ),
        ];
        for (loaded, origin) in layers {
            let shown = loaded.values(true);
            let shown = shown
                .iter()
                .find(|shown| shown.path == path)
                .expect("it is shown");
            assert_ne!(shown.value, option.default, "{path}");
            let text = shown.value.clone().unwrap_or_default();
            assert!(text.contains(value), "{path} = {text}");
            assert!(
                shown.origin.to_string().starts_with(&origin),
                "{path}: {}",
                shown.origin
            );
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
            .filter(|rest| !rest.starts_with(' ') && !rest.is_empty());
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
                    "namespace" | "appwrite" | "appwrite.project" | "grip" | "grip.route"
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
                | "ecdsa_public_key_file"
                | "rsa_public_key_file"
                | "eddsa_public_key_file"
        )
    });
    let loaded = load(&everything);
    assert_eq!(
        loaded.config.namespaces.iter().count(),
        1,
        "examples are values that are accepted"
    );
    assert_eq!(loaded.config.grip.map(|grip| grip.routes.len()), Some(1));
}

#[test]
fn what_is_shown_reads_back() {
    let file = "[engine]\nshards = 3\n[auth]\nhmac_secret = \"tab\\there \\\"quoted\\\" \\\\ \\u0001 é\"\n\
        [[namespace]]\nname = \"a\"\npublish = true\n[[namespace]]\nname = \"b\"\n\
        [[appwrite.project]]\nid = \"p\"\nplatforms = [\"a\", \"b\"]\n[[grip.route]]\npath = \"/\"\norigin = \"http://a\"\n";
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
            option.default.is_some() || !option.example.is_empty(),
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
    let keys: Vec<&str> = files.iter().map(|file| file.key).collect();
    assert_eq!(
        keys,
        ["hmac_secret_file", "eddsa_public_key_file", "api_keys_file"]
    );
    assert_eq!(auth.take_file(&files[0], "secret\n"), Ok(()));
    assert_eq!(auth.hmac_secret.as_deref(), Some("secret"));
    assert_eq!(auth.take_file(&files[2], "one\n\n two \r\n"), Ok(()));
    let api_keys: Vec<&str> = auth.api_keys.iter().map(Secret::expose).collect();
    assert_eq!(api_keys, ["one", "two"]);
    assert_eq!(
        auth.take_file(&files[2], " \n"),
        Err("auth.api_keys_file: k: the file holds no key; put one on each line".to_owned())
    );
    assert_eq!(
        auth.take_file(&files[0], " \n"),
        Err(
            "auth.hmac_secret_file: s: expected a text that is not empty, found something else"
                .to_owned()
        )
    );
    let message = auth
        .take_file(&files[1], "MC4CAQ")
        .expect_err("no PEM text");
    assert!(
        message.starts_with("auth.eddsa_public_key_file: e: expected a public key as PEM text"),
        "{message}"
    );
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
                Just("["), Just("]"), Just("[["), Just("]]"), Just("\n"), Just(" = "), Just("\""), Just("."), Just("#"),
                Just("listen"), Just("namespace"), Just("grip"), Just("route"), Just("name"), Just("client"),
                Just("history_size"), Just("{"), Just("}"), Just(","), Just("1"), Just("-"), Just("é"), Just("\r\n"),
                Just("\"\"\""), Just("0x"), Just("1979-05-27"), Just("[[namespace]]\nname = \"x\"\n"), Just("true"),
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
