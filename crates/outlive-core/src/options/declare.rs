//! The types, tables and setters that the declaration of the options expands to.

use crate::options::kinds::Form;
use crate::options::{JobChoices, JobOptions};
use crate::timestamp::Timestamp;

/// An option, for front ends that offer or show all of them.
#[derive(Debug)]
pub struct JobOption {
    /// The builder's method and the key of `[job]`.
    pub name: &'static str,
    /// Where it is in `spec.json`.
    pub field: &'static [&'static str],
    /// Stands for its value in help.
    pub placeholder: &'static str,
    /// The form of its value, for front ends that take no text.
    pub form: Form,
    /// Where it is offered beside `run`.
    pub surfaces: Surfaces,
    /// Its help.
    pub about: &'static str,
    pub(super) set: fn(&mut JobChoices, &[u8], Timestamp) -> Result<(), String>,
    pub(super) text: fn(&JobOptions) -> String,
    pub(super) json: fn(&JobOptions) -> serde_json::Value,
}

/// Where an option is offered.
#[derive(Debug, Clone, Copy)]
pub struct Surfaces {
    /// The heading in the help of `run`.
    pub heading: Option<&'static str>,
    /// `[job]` of `config.toml` has a key for it.
    pub in_config: bool,
    /// The name and description of the parameter of MCP's `run`.
    pub mcp: Option<(&'static str, &'static str)>,
    /// The letter of `run`.
    pub short: Option<char>,
    /// `show` has a row and a field for it, which it makes from this declaration alone.
    pub in_show: bool,
}

/// Every option is one of `outlive run`.
pub(super) const RUN: Surfaces =
    Surfaces { heading: None, in_config: false, mcp: None, short: None, in_show: false };

impl Surfaces {
    pub(super) const fn under(self, heading: &'static str) -> Self {
        Self { heading: Some(heading), ..self }
    }

    pub(super) const fn config(self) -> Self {
        Self { in_config: true, ..self }
    }

    pub(super) const fn mcp(self, name: &'static str, about: &'static str) -> Self {
        Self { mcp: Some((name, about)), ..self }
    }

    pub(super) const fn short(self, letter: char) -> Self {
        Self { short: Some(letter), ..self }
    }

    pub(super) const fn show(self) -> Self {
        Self { in_show: true, ..self }
    }
}

/// Returns a hash of the names of the options: starter and keeper must have the same ones.
pub(crate) const fn fingerprint(options: &[JobOption]) -> u32 {
    let mut hash = 0x811c_9dc5;
    let mut option = 0;
    while option < options.len() {
        let name = options[option].name.as_bytes();
        let mut at = 0;
        while at < name.len() {
            hash = (hash ^ name[at] as u32).wrapping_mul(0x0100_0193);
            at += 1;
        }
        option += 1;
    }
    hash
}

impl JobOption {
    /// Returns the flag of `run`, without the dashes before it.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Sets it from text as people write it; relative times count from `now`.
    ///
    /// # Errors
    ///
    /// If the text makes no sense: the message says what to write.
    pub fn set(&self, choices: &mut JobChoices, text: &[u8], now: Timestamp) -> Result<(), String> {
        (self.set)(choices, text, now)
    }

    /// Returns the decided value as people write it.
    pub fn text(&self, options: &JobOptions) -> String {
        (self.text)(options)
    }

    /// Returns the decided value as it is in `spec.json`.
    pub fn json(&self, options: &JobOptions) -> serde_json::Value {
        (self.json)(options)
    }
}

/// Makes from the declaration: the structures of decided values, with their defaults, JSON and wire form; the structure of what
/// a caller chose; the table of all options; and `job_option_setters!`, the methods of a builder.
macro_rules! job_options {
    (
        pub struct JobOptions {
            $( #[doc = $about:literal] $name:ident: $kind:ty as $field:ident = $default:expr,
                $placeholder:literal, $surfaces:expr; )*
        }
        $(
            $(#[$attribute:meta])*
            pub struct $Group:ident in $group:ident as $key:literal {
                $( #[doc = $member_about:literal] $member:ident: $member_kind:ty as $member_field:ident,
                    $member_placeholder:literal, $member_surfaces:expr; )*
            }
        )*
    ) => {
        /// The decided values of all options.
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct JobOptions {
            $(
                #[doc = $about]
                #[serde(default, skip_serializing_if = "Field::is_left_out")]
                pub $field: <$kind as kinds::Kind>::Value,
            )*
            $(
                #[doc = concat!("See [`", stringify!($Group), "`].")]
                #[serde(default, rename = $key, skip_serializing_if = "Field::is_left_out")]
                pub $group: $Group,
            )*
        }

        $(
            #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
            $(#[$attribute])*
            // With a condition or limit of a later version, the whole group counts as not understood.
            #[serde(default, deny_unknown_fields)]
            pub struct $Group {
                $(
                    #[doc = $member_about]
                    #[serde(skip_serializing_if = "Field::is_left_out")]
                    pub $member_field: <$member_kind as kinds::Kind>::Value,
                )*
            }

            impl Field for $Group {
                fn write(&self, writer: crate::wire::Writer) -> crate::wire::Writer {
                    $( let writer = self.$member_field.write(writer); )*
                    writer
                }

                fn read(reader: &mut crate::wire::Reader<'_>) -> Result<Self, crate::wire::WireError> {
                    Ok(Self { $( $member_field: Field::read(reader)?, )* })
                }

                fn is_left_out(&self) -> bool {
                    *self == Self::default()
                }
            }
        )*

        impl Default for JobOptions {
            fn default() -> Self {
                Self { $( $field: $default, )* $( $group: $Group::default(), )* }
            }
        }

        impl Field for JobOptions {
            fn write(&self, writer: crate::wire::Writer) -> crate::wire::Writer {
                $( let writer = self.$field.write(writer); )*
                $( let writer = self.$group.write(writer); )*
                writer
            }

            fn read(reader: &mut crate::wire::Reader<'_>) -> Result<Self, crate::wire::WireError> {
                Ok(Self { $( $field: Field::read(reader)?, )* $( $group: Field::read(reader)?, )* })
            }
        }

        /// What a caller chose; `None` where it chose nothing.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct JobChoices {
            $( #[doc = $about] pub $name: Option<<$kind as kinds::Kind>::Value>, )*
            $($( #[doc = $member_about] pub $member: Option<<$member_kind as kinds::Kind>::Value>, )*)*
        }

        impl JobChoices {
            /// Adds other choices, which take precedence.
            pub fn extend(&mut self, other: Self) {
                $( self.$name = other.$name.or(self.$name.take()); )*
                $($( self.$member = other.$member.or(self.$member.take()); )*)*
            }
        }

        impl From<&JobOptions> for JobChoices {
            /// Chooses every value as it was decided.
            fn from(options: &JobOptions) -> Self {
                Self {
                    $( $name: Some(options.$field.clone()), )*
                    $($( $member: Some(options.$group.$member_field.clone()), )*)*
                }
            }
        }

        impl JobOptions {
            /// Applies what a caller chose.
            pub fn apply(&mut self, choices: &JobChoices) {
                $(
                    if let Some(value) = &choices.$name {
                        self.$field.clone_from(value);
                    }
                )*
                $($(
                    if let Some(value) = &choices.$member {
                        self.$group.$member_field.clone_from(value);
                    }
                )*)*
            }
        }

        /// Every option, in the order in which help lists them.
        pub const OPTIONS: &[JobOption] = &[
            $( JobOption {
                name: stringify!($name),
                field: &[stringify!($field)],
                placeholder: $placeholder,
                form: <$kind as kinds::Kind>::FORM,
                surfaces: $surfaces,
                about: $about.trim_ascii(),
                set: |choices, text, now| {
                    choices.$name = Some(<$kind as kinds::Kind>::parse(text, now)?);
                    Ok(())
                },
                text: |options| <$kind as kinds::Kind>::format(&options.$field),
                json: |options| serde_json::json!(options.$field),
            }, )*
            $($( JobOption {
                name: stringify!($member),
                field: &[$key, stringify!($member_field)],
                placeholder: $member_placeholder,
                form: <$member_kind as kinds::Kind>::FORM,
                surfaces: $member_surfaces,
                about: $member_about.trim_ascii(),
                set: |choices, text, now| {
                    choices.$member = Some(<$member_kind as kinds::Kind>::parse(text, now)?);
                    Ok(())
                },
                text: |options| <$member_kind as kinds::Kind>::format(&options.$group.$member_field),
                json: |options| serde_json::json!(options.$group.$member_field),
            }, )*)*
        ];

        /// The methods of a builder that has [`JobChoices`] in its field `choices`; the items of `options::kinds` must be in scope.
        #[macro_export]
        macro_rules! job_option_setters {
            () => {
                $(
                    #[doc = $about]
                    pub fn $name(mut self, value: impl Into<<$kind as Kind>::Given>) -> Self {
                        self.choices.$name = Some(<$kind as Kind>::take(value.into()));
                        self
                    }
                )*
                $($(
                    #[doc = $member_about]
                    pub fn $member(mut self, value: impl Into<<$member_kind as Kind>::Given>) -> Self {
                        self.choices.$member = Some(<$member_kind as Kind>::take(value.into()));
                        self
                    }
                )*)*
            };
        }
    };
}
