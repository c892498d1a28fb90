//! The machinery behind the table of options: one entry makes the public field, its
//! documentation, its key, its variable, its check and its line in every generated text.
//!
//! Invariant: a section knows exactly the keys that its table has.

use crate::kind::{Fault, Given, Kind, Rule};

/// One option of the table.
#[derive(Clone, Debug)]
pub struct OptionSpec {
    /// The section's path: `listen`, `grip.route`.
    pub section: &'static str,
    /// The key inside the section.
    pub key: &'static str,
    /// The kind of value: `duration`, `list of addresses`.
    pub kind: String,
    /// Effect of the option with its units, in sentences.
    pub doc: String,
    /// The default as TOML; none when the option is unset by default.
    pub default: Option<String>,
    /// Text for the reference while it is unset, for options without a default.
    pub unset: &'static str,
    /// Whether its value is masked.
    pub secret: bool,
    /// Whether a running server keeps the value that it was started with.
    pub restart: bool,
    /// The command line flag that sets it, such as `--api`.
    pub flag: Option<&'static str>,
    /// Whether it takes several values.
    pub list: bool,
    /// A value to show where there is no default, as TOML.
    pub(crate) example: &'static str,
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
            default: if K::RESOLVED { None } else { K::write(default) },
            unset: rule.unset,
            secret: rule.secret,
            restart: rule.restart,
            flag: rule.flag,
            list: K::LIST,
            example: rule.example,
        }
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
        let flag = self.flag.filter(|_| own);
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
    /// Purpose of the section, in sentences.
    fn doc(&self) -> String;
    /// Every option in the order of the table.
    fn specs(&self) -> Vec<OptionSpec>;
    /// Reads and stores one option; keys that [`Section::specs`] does not have change nothing.
    fn set(&mut self, key: &str, given: &Given<'_>) -> Result<(), Fault>;
    /// The option's value as TOML.
    fn text(&self, key: &str) -> Option<String>;
    /// Takes the values that need a restart from the section that a server runs with.
    fn keep_fixed(&mut self, running: &Self)
    where
        Self: Sized,
    {
        let _ = running;
    }
}

/// Joins documentation lines into running text.
pub(crate) fn sentence(docs: &[&str]) -> String {
    let lines: Vec<&str> = docs.iter().map(|line| line.trim()).collect();
    lines.join(" ")
}

/// Declares a section: `"key" field: Type, Kind, default, Rule;` for each option.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])+
        $name:literal $section:ident {
            $(
                $(#[doc = $doc:literal])+
                $key:literal $field:ident: $type:ty, $kind:ty, $default:expr, $rule:expr;
            )+
        }
        $(lists {
            $(
                $(#[doc = $list_doc:literal])+
                $list:ident: $list_type:ty;
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
                pub $list: $list_type,
            )+)?
        }

        impl Default for $section {
            fn default() -> Self {
                Self {
                    $($field: $default,)+
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
                        $name, $key, &[$($doc),+], $rule, &default.$field,
                    ),
                )+]
            }

            fn set(
                &mut self,
                key: &str,
                given: &$crate::kind::Given<'_>,
            ) -> Result<(), $crate::kind::Fault> {
                match key {
                    $($key => self.$field = <$kind as $crate::kind::Kind>::read(given, &$rule)?,)+
                    _ => {}
                }
                Ok(())
            }

            fn text(&self, key: &str) -> Option<String> {
                match key {
                    $($key => <$kind as $crate::kind::Kind>::write(&self.$field),)+
                    _ => None,
                }
            }

            fn keep_fixed(&mut self, running: &Self) {
                let _ = running;
                $(if const { $rule.restart } {
                    self.$field.clone_from(&running.$field);
                })+
            }
        }
    };
}

pub(crate) use section;
