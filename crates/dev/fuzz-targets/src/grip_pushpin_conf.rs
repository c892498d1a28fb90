//! Pushpin's `pushpin.conf`: our own configuration takes it as the layer beneath or refuses it with
//! reasons that name lines that are there; line ends of Windows mean nothing.

use throng_config::{Config, ConfigFile, Origin, Sources};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"[global]\nport_offset=10\n[runner]\nservices=a,b\nhttp_port=7999\n\
      https_ports=127.0.0.1:443\n# no\n[proxy]\nroutesfile=\"routes\"\ndebug=true\n\
      x_forwarded_for=truncate:1,append\nsig_key=changeme\n",
    b"[handler]\npush_in_spec=tcp://127.0.0.1:5560\npush_in_sub_specs=tcp://127.0.0.1:5562\n\
      push_in_http_addr=127.0.0.1\npush_in_http_port=5561\npush_in_http_max_body_size=1000000\n\
      message_wait=5000\nid_cache_ttl=60\nconnection_subscription_max=20\n",
    b"[proxy]\r\naccept_pushpin_route=1\r\ncdn_loop=a\r\n; c\r\nunknown=1\r\n[what\r\nno \
      equals\r\n[stats]\r\nx=y\r\n",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn grip_pushpin_conf(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let lines = text.lines().count();
    let file = |name: &str, text: &str| {
        Some(ConfigFile {
            name: name.to_owned(),
            text: text.to_owned(),
        })
    };
    let load = |text: &str| {
        let loaded = Config::load(&Sources {
            pushpin: file("pushpin.conf", text),
            file: file("throng.toml", "[grip]\npushpin_conf = \"pushpin.conf\"\n"),
            ..Sources::default()
        });
        loaded.map(|loaded| (loaded.config, loaded.warnings))
    };
    let loaded = load(text);
    if let Err(problems) = &loaded {
        assert!(!problems.is_empty());
        for problem in problems {
            if let Origin::File { line, .. } = problem.origin {
                assert!((1..=lines).contains(&(line as usize)), "{problem:?}");
            }
        }
    }
    let with_returns = text.replace("\r\n", "\n").replace('\n', "\r\n");
    assert_eq!(load(&with_returns), loaded);
}
