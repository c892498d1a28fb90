//! The whole configuration, and the questions that other crates ask it.

use std::net::SocketAddr;

use crate::kind::{Fault, Input, Kind, ListenAddress, Rule, Text};
use crate::options::{
    AppOptions, Appwrite, Auth, Broker, ChannelOptions, Drain, Engine, Feed, Grip, History, Limits,
    Listen, Log, Oidc, Proxy, PusherOptions, Stream, Tls, Trace, WebhookOptions, Websocket,
};
use crate::secret::{PRINTED, Secret, is_placeholder, is_published, signing_secret_fault};
use crate::section::{OptionSpec, Section};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub listen: Listen,
    pub tls: Tls,
    pub engine: Engine,
    pub limits: Limits,
    pub websocket: Websocket,
    pub stream: Stream,
    pub auth: Auth,
    pub drain: Drain,
    pub broker: Broker,
    pub history: History,
    /// `[channel]`: the options of channels without a namespace.
    pub channel: ChannelOptions,
    pub namespaces: Vec<Namespace>,
    pub feeds: Vec<Feed>,
    pub log: Log,
    pub trace: Trace,
    pub oidc: Option<Oidc>,
    pub proxy: Option<Proxy>,
    pub appwrite: Option<Appwrite>,
    pub grip: Option<Grip>,
    pub pusher: PusherOptions,
    /// `[[app]]`, followed by those of `pusher.apps_dir`.
    pub apps: Vec<AppOptions>,
    pub webhooks: Vec<WebhookOptions>,
}

impl Config {
    /// Whether the server runs in open mode: no keys, anonymous use not forbidden, and every
    /// address on loopback. The banner shows it.
    #[must_use]
    pub fn open_mode(&self) -> bool {
        self.unrestricted() && !self.exposed()
    }

    #[must_use]
    pub fn anonymous_allowed(&self) -> bool {
        self.auth.anonymous.unwrap_or_else(|| self.unrestricted())
    }

    /// Names of the ways in for clients that need neither a token nor `auth.anonymous`.
    #[must_use]
    pub fn ways_without_tokens(&self) -> Vec<&'static str> {
        let asks = { self.proxy.as_ref() }.is_some_and(|proxy| proxy.connect.is_some());
        let ways = [
            (asks, "proxy.connect"),
            (self.grip.is_some(), "GRIP's routes"),
            (!self.apps.is_empty(), "Pusher's apps"),
            (self.appwrite.is_some(), "Appwrite's projects"),
        ];
        let open = ways.iter().filter(|(is_open, _)| *is_open);
        open.map(|(_, name)| *name).collect()
    }

    /// Every address that takes connections from outside, with the option that names it.
    #[must_use]
    pub fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let clients = self.listen.client.iter();
        let mut all: Vec<_> = clients
            .map(|listener| ("listen.client", listener.address))
            .collect();
        all.push(("listen.api", self.listen.api.address));
        if let Some(grip) = &self.grip {
            all.extend(grip.addresses());
        }
        all
    }

    /// Whether all clients may do everything: open mode, or the same on purpose on an address that
    /// others reach.
    pub(crate) fn unrestricted(&self) -> bool {
        let keys = self.auth.client_keys() || self.auth.api_keys_set();
        !keys && self.auth.anonymous != Some(false) && (self.auth.insecure || !self.exposed())
    }

    /// Whether another machine can reach the client or API listener.
    pub(crate) fn exposed(&self) -> bool {
        let mut listeners = self.listeners();
        listeners.any(|listener| !is_loopback(&listener.address))
    }

    /// The addresses for clients, followed by that of the server API.
    pub fn listeners(&self) -> impl Iterator<Item = &ListenAddress> {
        self.listen.client.iter().chain([&self.listen.api])
    }
}

pub(crate) fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

impl Auth {
    #[must_use]
    pub fn client_keys(&self) -> bool {
        self.hmac_secret.is_some()
            || self.hmac_previous_secret.is_some()
            || self.rsa_public_key.is_some()
            || self.ecdsa_public_key.is_some()
            || self.eddsa_public_key.is_some()
            || self.jwks.is_some()
            || self.jwks_url.is_some()
            || self
                .files()
                .iter()
                .any(|file| !file.key.starts_with("api_key"))
    }

    #[must_use]
    pub fn api_keys_set(&self) -> bool {
        !self.api_keys.is_empty() || self.api_keys_file.is_some() || !self.named_api_keys.is_empty()
    }

    /// The files that the caller reads and hands to [`Auth::take_file`].
    #[must_use]
    pub fn files(&self) -> Vec<AuthFile> {
        let own = [
            ("hmac_secret_file", &self.hmac_secret_file),
            ("hmac_previous_secret_file", &self.hmac_previous_secret_file),
            ("rsa_public_key_file", &self.rsa_public_key_file),
            ("ecdsa_public_key_file", &self.ecdsa_public_key_file),
            ("eddsa_public_key_file", &self.eddsa_public_key_file),
            ("jwks_file", &self.jwks_file),
            ("api_keys_file", &self.api_keys_file),
        ];
        let own = own.map(|(key, path)| (key.to_owned(), path));
        let named = self.named_api_keys.iter().enumerate();
        let named = named.map(|(at, it)| (format!("api_key[{at}].key_file"), &it.key_file));
        { own.into_iter().chain(named) }
            .filter_map(|(key, path)| {
                Some(AuthFile {
                    key,
                    path: path.clone()?,
                })
            })
            .collect()
    }

    /// Stores what a file held. White space around a secret does not count, since editors end
    /// files with a line break.
    ///
    /// # Errors
    /// A sentence for the user when the text is empty or is no PEM text where one belongs.
    pub fn take_file(&mut self, file: &AuthFile, text: &str) -> Result<(), String> {
        let option = file.key.strip_suffix("_file").unwrap_or(&file.key);
        let keys: Vec<&str>;
        let wrong = |why: &str| format!("auth.{}: {}: {why}", file.key, file.path);
        if option.starts_with("api_key") {
            keys = text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .collect();
            if keys.is_empty() {
                return Err(wrong("the file holds no key; put one on each line"));
            }
            if keys
                .iter()
                .any(|key| is_placeholder(key) || is_published(key))
            {
                return Err(wrong("one of the keys is the placeholder of an example"));
            }
            let is_it = |at: &usize| option == format!("api_key[{at}].key");
            match (0..self.named_api_keys.len()).find(is_it) {
                None => self.api_keys.extend(keys.into_iter().map(Secret::from)),
                Some(at) => match keys[..] {
                    [key] => self.named_api_keys[at].key = Some(key.into()),
                    _ => return Err(wrong("the file holds several keys; keep one of them")),
                },
            }
            return Ok(());
        }
        let is_secret = matches!(option, "hmac_secret" | "hmac_previous_secret");
        if is_secret && is_published(text) {
            return Err(wrong(PRINTED));
        }
        if is_secret
            && !self.short_hmac_secret
            && !text.trim().is_empty()
            && let Some(fault) = signing_secret_fault(text.trim())
        {
            return Err(wrong(fault));
        }
        self.set(option, &Input::Text(text.trim()))
            .map_err(|fault| wrong(&fault.message))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthFile {
    /// The option in `[auth]` that names it, such as `hmac_secret_file`.
    pub key: String,
    /// Path of the file; in the configuration file it counts from that file's folder.
    pub path: String,
}

impl Grip {
    /// The addresses on which GRIP backends publish, with the options that name them.
    fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        [
            ("grip.http_publish", self.http_publish),
            ("grip.zmq_pull", self.zmq_pull),
            ("grip.zmq_sub", self.zmq_sub),
            ("grip.zmq_command", self.zmq_command),
            ("grip.zmq_stats", self.zmq_stats),
            ("grip.prometheus", self.prometheus),
        ]
        .into_iter()
        .filter_map(|(key, address)| Some((key, address?)))
    }
}

/// One namespace: what stands before the first `:` of a channel name, and the options of its
/// channels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    /// 1 to 64 ASCII letters, digits, `-`, `_` and `.`.
    pub name: String,
    pub options: ChannelOptions,
}

const NAMESPACE_DOC: &str = "The options of channels whose names begin with the namespace and a \
                             colon: `chat:42` is in `chat`. Repeat the section for each \
                             namespace; a channel in an unknown namespace is refused.";
const NAME_DOC: &str = "The part of channel names before the first colon: 1 to 64 ASCII letters, \
                        digits, `-`, `_` and `.`.";
const NAME_RULE: Rule = Rule::ANY.example("\"chat\"");

impl Section for Namespace {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn doc(&self) -> String {
        NAMESPACE_DOC.to_owned()
    }

    fn specs(&self) -> Vec<OptionSpec> {
        let name =
            OptionSpec::of::<Text>("namespace", "name", &[NAME_DOC], NAME_RULE, &String::new());
        let options = self.options.specs().into_iter();
        let options = options.map(|spec| OptionSpec {
            section: "namespace",
            ..spec
        });
        std::iter::once(name).chain(options).collect()
    }

    fn set(&mut self, key: &str, given: &Input<'_>) -> Result<(), Fault> {
        if key == "name" {
            self.name = Text::read(given, &NAME_RULE)?;
            return Ok(());
        }
        self.options.set(key, given)
    }

    fn text(&self, key: &str) -> Option<String> {
        if key == "name" {
            return Text::write(&self.name);
        }
        self.options.text(key)
    }
}
