//! What a run of the server is made of: sizes, channels and keys, drawn from the seed.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use throng_auth::{Algorithm, NewToken, SigningKey, sign};
use throng_config::{Config, ConfigFile, Sources};

use crate::net::Net;

const SECRET: &str = "a secret of the simulator's own, long enough for anybody";
/// The key of the server API.
pub(crate) const API_KEY: &str = "the-key-of-the-api";

/// History and delivery settings of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    pub(crate) name: &'static str,
    /// Publications and milliseconds; zero keeps none.
    pub(crate) history: (u64, u64),
    /// Deliveries may be dropped for slow clients.
    pub(crate) lossy: bool,
    /// Subscribing needs a token of its own.
    pub(crate) private: bool,
}

impl Channel {
    /// Whether the channel has presence, as channels of namespaces do.
    pub(crate) fn is_listed(&self) -> bool {
        self.name.contains(':')
    }
}

const fn channel(name: &'static str, history: (u64, u64), lossy: bool) -> Channel {
    Channel {
        name,
        history,
        lossy,
        private: false,
    }
}

/// The channels of a run: those of the server's own clients, then GRIP's and Appwrite's.
pub(crate) const CHANNELS: [Channel; 13] = [
    channel("plain", (0, 0), false),
    channel("other", (0, 0), false),
    channel("hist:a", (40, 600_000), false),
    channel("hist:b", (40, 600_000), false),
    channel("small:a", (4, 3_000), false),
    channel("drop:a", (40, 600_000), true),
    channel("drop:b", (40, 600_000), true),
    channel("last:a", (0, 0), true),
    Channel {
        private: true,
        ..channel("priv:a", (30, 60_000), false)
    },
    channel("grip-a", (0, 0), false),
    channel("grip-b", (0, 0), false),
    channel("files", (0, 0), false),
    channel("documents", (0, 0), false),
];
/// Channels open to all clients, with the private one behind them.
pub(crate) const OPEN: usize = 8;
pub(crate) const PRIVATE: usize = 8;
pub(crate) const GRIP: usize = 9;
pub(crate) const APPWRITE: usize = 11;
/// The channels of a run in which all clients are in the same few.
const FEW: [usize; 3] = [0, 2, 5];

/// The listeners of a shard, by number.
pub(crate) const PORT_CLIENT: u8 = 0;
pub(crate) const PORT_API: u8 = 1;
pub(crate) const PORT_GRIP: u8 = 2;
pub(crate) const PORT_PULL: u8 = 3;
pub(crate) const PORT_SUB: u8 = 4;

/// Messages per second that a connection may send in stingy runs.
const STINGY: u32 = 5;

/// The sizes and faults of one run, all drawn from its seed.
pub(crate) struct Setup {
    pub(crate) shards: usize,
    pub(crate) clients: usize,
    pub(crate) publishers: usize,
    /// Requests that a publisher has open at most.
    pub(crate) pipelined: usize,
    /// Clients that do more with GRIP's backend than listen.
    pub(crate) visitors: usize,
    /// Bytes of deliveries that may wait for one connection.
    pub(crate) queue_bytes_max: usize,
    /// Above so many waiting bytes nothing is read from a connection.
    pub(crate) unread_above_bytes: usize,
    /// Bytes that the kernel takes for one connection.
    pub(crate) kernel_bytes: usize,
    /// Times in a hundred that a client's step cuts its connection.
    pub(crate) cut_percent: usize,
    /// Times in a hundred that a step of the clock is a leap.
    pub(crate) leap_percent: usize,
    /// The step at which the drain begins, if there is one.
    pub(crate) drain_at: Option<usize>,
    /// History may go before its time, because few bytes of it are kept.
    pub(crate) tight: bool,
    /// Whether the server API often ends connections and subscriptions.
    pub(crate) meddling: bool,
    /// Whether one publication goes to several channels at once. Then protocols that do not name
    /// the channel have one channel only, so that each publication can be assigned.
    pub(crate) broadcasts: bool,
    /// Delay in ms by which publications are gathered in channels with a namespace.
    pub(crate) delay_ms: u64,
    crowded: bool,
    /// Clients may send little: a client over the limit is closed, and comes again.
    pub(crate) stingy: bool,
    /// Bytes that may wait for all connections of a shard together.
    pub(crate) queued_bytes_max: usize,
    /// The server hands over to other processes now and then. Then all connections can move.
    pub(crate) hands_over: bool,
}

impl Setup {
    /// Draws a run with hand-overs, in which all connections can move.
    pub(crate) fn draw_handing_over(net: &Net, steps: usize) -> Self {
        Self {
            visitors: 0,
            hands_over: true,
            ..Self::draw(net, steps)
        }
    }

    pub(crate) fn draw(net: &Net, steps: usize) -> Self {
        let queue_bytes_max = net.pick(&[1500, 4000, 20_000, 200_000]);
        // A client that reads no answers is cut off once twice the queue waits.
        let pipelined_max = (queue_bytes_max / 1000).clamp(3, 60);
        Self {
            shards: net.between(1, 4),
            clients: net.between(3, 10),
            publishers: net.between(1, 2),
            pipelined: net.pick(&[3, pipelined_max]),
            visitors: net.between(0, 5),
            queue_bytes_max,
            unread_above_bytes: net.pick(&[300, 5000, 256 << 10]),
            kernel_bytes: net.pick(&[50, 300, 2000, 30_000]),
            cut_percent: net.pick(&[0, 1, 4, 12]),
            leap_percent: net.pick(&[0, 0, 2, 6]),
            drain_at: net.percent(20).then(|| net.between(steps / 2, steps - 1)),
            tight: net.percent(20),
            meddling: net.percent(30),
            broadcasts: net.percent(50),
            delay_ms: net.pick(&[0, 0, 1, 30]),
            crowded: net.percent(40),
            stingy: false,
            queued_bytes_max: usize::MAX,
            hands_over: false,
        }
    }

    /// Some channel of the server's own clients; with `open` one that takes no token of its own.
    pub(crate) fn draw_channel(&self, open: bool, net: &Net) -> usize {
        if self.crowded {
            return net.pick(&FEW);
        }
        net.below(OPEN + usize::from(!open))
    }

    /// The configuration, as an operator would write it.
    pub(crate) fn config(&self, net: &Net) -> Config {
        let messages = if self.stingy { STINGY } else { 0 };
        let mut text = include_str!("server.toml").replace("MESSAGES", &messages.to_string());
        let channels = CHANNELS[..=PRIVATE].iter().map(|channel| {
            let slow = match (channel.lossy, channel.history.0) {
                (false, _) => "close",
                (true, 0) => "latest-only",
                (true, _) => "drop-oldest",
            };
            let more = format!(
                "slow_consumer = \"{slow}\"\nanonymous_subscribe = {}\n\
                 anonymous_publish = true\npublish = true\n\
                 history = true\nmax_delay = \"{}ms\"\npresence = true\n\
                 allow_presence_for_subscriber = true\nallow_presence_for_client = true\n\
                 allow_presence_for_anonymous = true\n",
                !channel.private, self.delay_ms
            );
            (channel.name, channel.history, more)
        });
        append_namespaces(channels, &mut text);
        let mut config = load(text);
        if self.tight {
            // Less than an operator may choose, to reach the end of it.
            config.limits.history_bytes_max = net.pick(&[1000, 4000]);
        }
        config
    }
}

/// Appends the namespace of each channel, once: by the channel's name, its history, and what else
/// the namespace has.
pub(crate) fn append_namespaces<'c>(
    channels: impl Iterator<Item = (&'c str, (u64, u64), String)>,
    text: &mut String,
) {
    let mut known = BTreeSet::new();
    for (channel, (size, ttl_ms), more) in channels {
        let Some((name, _)) = channel.split_once(':') else {
            continue;
        };
        if !known.insert(name) {
            continue;
        }
        let _ = write!(text, "[[namespace]]\nname = \"{name}\"\n{more}");
        if size > 0 {
            let _ = write!(
                text,
                "history_size = {size}\nhistory_ttl = \"{ttl_ms}ms\"\nrecovery = true\n"
            );
        }
    }
}

/// Loads a configuration that is good.
pub(crate) fn load(text: String) -> Config {
    let file = ConfigFile {
        name: "sim.toml".to_owned(),
        text,
    };
    let loaded = Config::load(&Sources {
        file: Some(file),
        ..Sources::default()
    });
    match loaded {
        Ok(loaded) => loaded.config,
        Err(problems) => panic!("the configuration: {problems:?}"),
    }
}

/// A token for a connection (`channel` is `None`) or for a subscription.
pub(crate) fn token(
    user: &str,
    channel: Option<&str>,
    channels: Vec<&str>,
    exp: Option<u64>,
) -> String {
    let claims = NewToken {
        sub: user,
        exp,
        channel,
        channels,
        ..NewToken::default()
    };
    let key = SigningKey::HmacSecret(SECRET.as_bytes());
    sign(&claims, Algorithm::Hs256, key).expect("a good key")
}
