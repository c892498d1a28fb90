//! The machinery behind the table of options: one entry makes the public field, its
//! documentation, its key, its variable, its check and its line in every generated text.
//!
//! Invariant: a section knows exactly the keys that its table has.

use serde_json::{Value, json};

use crate::kind::{Fault, Input, Kind, Rule};

#[derive(Clone, Debug)]
pub struct OptionSpec {
    /// The section's path: `listen`, `grip.route`.
    pub(crate) section: &'static str,
    pub(crate) key: &'static str,
    /// The kind of value: `duration`, `list of addresses`.
    pub(crate) kind: String,
    /// Effect of the option with its units, in sentences.
    pub(crate) doc: String,
    /// The default as TOML; none when the option is unset by default.
    pub(crate) default: Option<String>,
    /// Whether it takes several values.
    pub(crate) list: bool,
    pub(crate) rule: Rule,
    /// Describes values for people; see [`Kind::expected`].
    pub(crate) expected: fn(&Rule) -> String,
    /// Describes values for editors; see [`Kind::schema`].
    pub(crate) schema: fn(&Rule) -> Value,
}

impl OptionSpec {
    pub(crate) fn of<K: Kind>(
        section: &'static str,
        key: &'static str,
        docs: &[&str],
        rule: Rule,
        default: &K::Field,
    ) -> Self {
        Self {
            section,
            key,
            kind: K::name(),
            doc: match rule.restart {
                true => format!("{} A change needs a restart.", sentence(docs)),
                false => sentence(docs),
            },
            default: K::write(default).filter(|_| !rule.permission),
            list: K::LIST,
            rule,
            expected: K::expected,
            schema: K::schema,
        }
    }

    /// Its values, default and meaning as JSON Schema.
    pub(crate) fn schema(&self) -> Value {
        let mut schema = (self.schema)(&self.rule);
        let doc = format!("{} Expected: {}.", self.doc, (self.expected)(&self.rule));
        schema["description"] = doc.into();
        // As TOML they are JSON, too.
        let json = |toml: &str| serde_json::from_str::<Value>(toml).ok();
        let default = self.default.as_deref().filter(|text| *text != "\"\"");
        if let Some(default) = default.and_then(json) {
            schema["default"] = default;
        } else if let Some(example) = json(self.rule.example) {
            schema["examples"] = json!([example]);
        }
        schema
    }

    /// Path of the option, such as `listen.client`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// Whether it closes the server to strangers: a secret, a key, or the place of keys.
    pub(crate) fn closes(&self) -> bool {
        let names = ["secret", "key", "keys", "jwks", "file", "url"];
        let last = self.key.rsplit('_').next().unwrap_or_default();
        self.section == "auth" && self.key != "short_hmac_secret" && names.contains(&last)
    }

    /// The flag that sets it: its own if that was used, or the general one.
    pub(crate) fn flag_name(&self, own: bool) -> String {
        let flag = self.rule.flag.filter(|_| own);
        flag.map_or_else(|| format!("--set {}", self.path()), str::to_owned)
    }

    /// The variable that sets it, such as `THRONG_LISTEN_CLIENT`.
    #[must_use]
    pub fn env(&self) -> String {
        format!("THRONG_{}_{}", self.section, self.key)
            .replace('.', "_")
            .to_ascii_uppercase()
    }
}

/// A group of options that the loader can fill without knowing its type.
pub(crate) trait Section {
    /// The section's path, without brackets.
    fn name(&self) -> &'static str;
    fn doc(&self) -> String;
    fn specs(&self) -> Vec<OptionSpec>;
    /// Reads and stores one option; keys that [`Section::specs`] does not have change nothing.
    fn set(&mut self, key: &str, given: &Input<'_>) -> Result<(), Fault>;
    fn text(&self, key: &str) -> Option<String>;
    /// The sections inside it that repeat, by their keys.
    fn lists(&self) -> Vec<(&'static str, &dyn Sections)> {
        Vec::new()
    }
    fn lists_mut(&mut self) -> Vec<(&'static str, &mut dyn Sections)> {
        Vec::new()
    }
    /// Takes the values that need a restart from the section that a server runs with.
    fn keep_fixed(&mut self, running: &Self)
    where
        Self: Sized,
    {
        let _ = running;
    }
}

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

/// The sections of one kind, as many as its shape allows.
pub(crate) trait Sections {
    /// Returns the shape, and a section with its defaults.
    fn kind(&self) -> (Shape, Box<dyn Section>);
    /// Gives the one that the loader fills: the only one, or one more with its defaults.
    fn add(&mut self) -> &mut dyn Section;
    fn all(&self) -> Vec<&dyn Section>;
    /// Takes the values that are fixed at the start from those that run.
    fn keep(&mut self, running: &Self)
    where
        Self: Sized,
    {
        let _ = running;
    }
}

impl<S: Section + Default + 'static> Sections for S {
    fn kind(&self) -> (Shape, Box<dyn Section>) {
        (Shape::Once, Box::new(S::default()))
    }

    fn add(&mut self) -> &mut dyn Section {
        self
    }

    fn all(&self) -> Vec<&dyn Section> {
        vec![self]
    }

    fn keep(&mut self, running: &Self) {
        self.keep_fixed(running);
    }
}

impl<S: Section + Default + 'static> Sections for Option<S> {
    fn kind(&self) -> (Shape, Box<dyn Section>) {
        (Shape::Optional, Box::new(S::default()))
    }

    fn add(&mut self) -> &mut dyn Section {
        self.insert(S::default())
    }

    fn all(&self) -> Vec<&dyn Section> {
        self.iter().map(|section| section as &dyn Section).collect()
    }

    fn keep(&mut self, running: &Self) {
        if let (Some(new), Some(running)) = (self, running) {
            new.keep_fixed(running);
        }
    }
}

impl<S: Section + Default + 'static> Sections for Vec<S> {
    fn kind(&self) -> (Shape, Box<dyn Section>) {
        (Shape::Repeated, Box::new(S::default()))
    }

    fn add(&mut self) -> &mut dyn Section {
        let at = self.len();
        self.push(S::default());
        &mut self[at]
    }

    fn all(&self) -> Vec<&dyn Section> {
        self.iter().map(|section| section as &dyn Section).collect()
    }
}

/// Joins documentation lines into running text.
pub(crate) fn sentence(docs: &[&str]) -> String {
    let lines: Vec<&str> = docs.iter().map(|line| line.trim()).collect();
    lines.join(" ")
}

/// Declares a section: `field as "key": Type, Kind = default, rule, …;` for each option. The key
/// may be left out where it is the field's name, the default where it is that of the type. Rules
/// are the setters of [`Rule`]. `lists` are the sections inside it that repeat.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])+
        $name:literal $section:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident $(as $key:literal)?: $type:ty, $kind:ty $(= $default:expr)?
                    $(, $rule:ident $(($($value:expr),+))?)*;
            )+
        }
        $(lists {
            $(
                $(#[doc = $list_doc:literal])+
                $list_key:literal $list:ident: $list_type:ty;
            )+
        })?
    ) => {
        $(#[doc = $section_doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $section {
            $(
                $(#[doc = $doc])+
                pub $field: $type,
            )+
            $($(
                $(#[doc = $list_doc])+
                pub $list: Vec<$list_type>,
            )+)?
        }

        impl Default for $section {
            fn default() -> Self {
                Self {
                    $($field: $crate::section::or_default!($($default)?),)+
                    $($($list: Vec::new(),)+)?
                }
            }
        }

        impl $crate::section::Section for $section {
            fn name(&self) -> &'static str {
                $name
            }

            fn doc(&self) -> String {
                $crate::section::sentence(&[$($section_doc),+])
            }

            fn specs(&self) -> Vec<$crate::section::OptionSpec> {
                let default = Self::default();
                vec![$(
                    $crate::section::OptionSpec::of::<$kind>(
                        $name,
                        $crate::section::key!($field $($key)?),
                        &[$($doc),+],
                        $crate::section::rule!($($rule $(($($value),+))?)*),
                        &default.$field,
                    ),
                )+]
            }

            fn set(
                &mut self,
                key: &str,
                given: &$crate::kind::Input<'_>,
            ) -> Result<(), $crate::kind::Fault> {
                $(if key == $crate::section::key!($field $($key)?) {
                    let rule = $crate::section::rule!($($rule $(($($value),+))?)*);
                    self.$field = <$kind as $crate::kind::Kind>::read(given, &rule)?;
                })+
                Ok(())
            }

            fn text(&self, key: &str) -> Option<String> {
                $(if key == $crate::section::key!($field $($key)?) {
                    return <$kind as $crate::kind::Kind>::write(&self.$field);
                })+
                None
            }

            fn lists(&self) -> Vec<(&'static str, &dyn $crate::section::Sections)> {
                vec![$($(($list_key, &self.$list),)+)?]
            }

            fn lists_mut(&mut self) -> Vec<(&'static str, &mut dyn $crate::section::Sections)> {
                vec![$($(($list_key, &mut self.$list),)+)?]
            }

            fn keep_fixed(&mut self, running: &Self) {
                let _ = running;
                $(if const { $crate::section::rule!($($rule $(($($value),+))?)*).restart } {
                    self.$field.clone_from(&running.$field);
                })+
            }
        }
    };
}

/// Default of an option, or of its type.
macro_rules! or_default {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}

/// The key of an option: its own, or the name of the field.
macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

macro_rules! rule {
    ($($rule:ident $(($($value:expr),+))?)*) => {
        $crate::kind::Rule::ANY$(.$rule($($($value),+)?))*
    };
}

pub(crate) use {key, or_default, rule, section};
