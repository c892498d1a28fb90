//! Sections of a configuration, in the order in which people read them, and what was meant by names
//! that are none.

use throng_types::nearest;

use crate::config::{Config, Namespace};
use crate::options::{
    AppOptions, Appwrite, AppwriteProject, Auth, Broker, ChannelOptions, Drain, Engine, Feed, Grip,
    GripRoute, History, Limits, Listen, Log, NamedApiKey, Proxy, ProxyBackend, PusherOptions,
    Stream, Tls, TlsSite, WebhookOptions, Websocket,
};
use crate::section::{OptionSpec, Section, Sections};

/// Number of times that a section may stand in the file, and the meaning of its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Once; absent, its defaults hold.
    Once,
    /// Once; absent, the feature is off.
    Optional,
    /// Any number of times, in double brackets.
    Repeated,
}

impl Shape {
    pub(crate) fn heading(self, name: &str) -> String {
        match self {
            Self::Once | Self::Optional => format!("[{name}]"),
            Self::Repeated => format!("[[{name}]]"),
        }
    }
}

pub(crate) fn sections() -> Vec<(Shape, Box<dyn Section>)> {
    vec![
        (Shape::Once, Box::new(Listen::default())),
        (Shape::Once, Box::new(Tls::default())),
        (Shape::Repeated, Box::new(TlsSite::default())),
        (Shape::Once, Box::new(Engine::default())),
        (Shape::Once, Box::new(Limits::default())),
        (Shape::Once, Box::new(Websocket::default())),
        (Shape::Once, Box::new(Stream::default())),
        (Shape::Once, Box::new(Auth::default())),
        (Shape::Repeated, Box::new(NamedApiKey::default())),
        (Shape::Once, Box::new(Drain::default())),
        (Shape::Once, Box::new(Broker::default())),
        (Shape::Once, Box::new(History::default())),
        (Shape::Once, Box::new(ChannelOptions::default())),
        (Shape::Repeated, Box::new(Namespace::default())),
        (Shape::Repeated, Box::new(Feed::default())),
        (Shape::Once, Box::new(Log::default())),
        (Shape::Optional, Box::new(Proxy::default())),
        (Shape::Repeated, Box::new(ProxyBackend::default())),
        (Shape::Optional, Box::new(Appwrite::default())),
        (Shape::Repeated, Box::new(AppwriteProject::default())),
        (Shape::Optional, Box::new(Grip::default())),
        (Shape::Repeated, Box::new(GripRoute::default())),
        (Shape::Once, Box::new(PusherOptions::default())),
        (Shape::Repeated, Box::new(AppOptions::default())),
        (Shape::Repeated, Box::new(WebhookOptions::default())),
    ]
}

/// The headings of the sections that stand at the top of a file, by name.
pub(crate) fn top_sections() -> Vec<(&'static str, Shape)> {
    sections()
        .into_iter()
        .map(|(shape, section)| (section.name(), shape))
        .filter(|(name, _)| !name.contains('.'))
        .collect()
}

/// The options that variables and flags can set: those of sections that stand once.
pub(crate) fn settable() -> Vec<OptionSpec> {
    sections()
        .into_iter()
        .filter(|(shape, _)| *shape != Shape::Repeated)
        .flat_map(|(_, section)| section.specs())
        .collect()
}

impl Config {
    pub(crate) fn once_mut(&mut self) -> [&mut dyn Section; 13] {
        [
            &mut self.listen,
            &mut self.tls,
            &mut self.engine,
            &mut self.limits,
            &mut self.websocket,
            &mut self.stream,
            &mut self.auth,
            &mut self.drain,
            &mut self.broker,
            &mut self.history,
            &mut self.channel,
            &mut self.log,
            &mut self.pusher,
        ]
    }

    /// Every section that is there, with the prefix of its values' paths, in reading order.
    pub(crate) fn present(&self) -> Vec<(String, Shape, &dyn Section)> {
        let mut all = Present::default();
        let sections: [&dyn Section; 11] = [
            &self.listen,
            &self.tls,
            &self.engine,
            &self.limits,
            &self.websocket,
            &self.stream,
            &self.auth,
            &self.drain,
            &self.broker,
            &self.history,
            &self.channel,
        ];
        for section in sections {
            all.add(Shape::Once, section);
        }
        all.add_list(&self.namespaces.0);
        all.add_list(&self.feeds);
        all.add(Shape::Once, &self.log);
        if let Some(proxy) = &self.proxy {
            all.add(Shape::Optional, proxy);
        }
        if let Some(appwrite) = &self.appwrite {
            all.add(Shape::Optional, appwrite);
        }
        if let Some(grip) = &self.grip {
            all.add(Shape::Optional, grip);
        }
        all.add(Shape::Once, &self.pusher);
        all.add_list(&self.apps);
        all.add_list(&self.webhooks);
        all.0
    }
}

#[derive(Default)]
struct Present<'a>(Vec<(String, Shape, &'a dyn Section)>);

impl<'a> Present<'a> {
    fn add(&mut self, shape: Shape, section: &'a dyn Section) {
        self.0.push((section.name().to_owned(), shape, section));
        for (_, list) in section.lists() {
            self.add_list(list);
        }
    }

    fn add_list(&mut self, list: &'a dyn Sections) {
        for (index, section) in list.all().into_iter().enumerate() {
            self.0
                .push((element(section.name(), index), Shape::Repeated, section));
        }
    }
}

/// The path of one of several sections with one name: `namespace[0]`.
pub(crate) fn element(name: &str, index: usize) -> String {
    format!("{name}[{index}]")
}

pub(crate) fn unknown_option(key: &str, heading: &str, known: &[&str]) -> String {
    let start = format!("unknown option {key:?} in {heading}");
    if let Some(meant) = nearest(key, known.iter().copied()) {
        return format!("{start}: did you mean {meant:?}?");
    }
    match home_of(key) {
        Some(home) => format!("{start}: it belongs in {home}"),
        None => format!("{start}: the options there are {}", known.join(", ")),
    }
}

pub(crate) fn unknown_top(key: &str, is_section: bool) -> String {
    let known = top_sections();
    let start = if is_section {
        format!("unknown section {key:?}")
    } else {
        format!("unknown option {key:?} outside any section")
    };
    if !is_section && let Some(home) = home_of(key) {
        return format!("{start}: put it under {home}");
    }
    if let Some(meant) = nearest(key, known.iter().map(|(name, _)| *name)) {
        return format!("{start}: did you mean {}?", heading_of(meant, &known));
    }
    let names: Vec<String> = known
        .iter()
        .map(|(name, shape)| shape.heading(name))
        .collect();
    format!("{start}: the sections are {}", names.join(", "))
}

pub(crate) fn unknown_variable(name: &str, known: &[String]) -> String {
    let hint = nearest(name, known.iter().map(String::as_str))
        .map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    format!("env {name} is no option and has no effect{hint}")
}

pub(crate) fn unknown_path(path: &str, known: &[String]) -> String {
    let hint = nearest(path, known.iter().map(String::as_str)).map_or_else(
        || "`throng config show` lists the options".to_owned(),
        |meant| format!("did you mean {meant:?}?"),
    );
    format!("unknown option {path:?}: {hint}")
}

fn heading_of(name: &str, known: &[(&str, Shape)]) -> String {
    let found = known.iter().find(|(other, _)| *other == name);
    found.map_or_else(|| format!("[{name}]"), |(name, shape)| shape.heading(name))
}

/// The heading of the only section that has a key, or the first of several.
fn home_of(key: &str) -> Option<String> {
    let all = sections();
    let (shape, section) = all
        .iter()
        .find(|(_, section)| section.specs().iter().any(|spec| spec.key == key))?;
    Some(shape.heading(section.name()))
}
