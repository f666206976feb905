//! The options of a job as arguments of `run`, made from their declarations.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use outlive::{JobChoices, JobOption, OPTIONS, OptionForm, Timestamp};

use crate::local_time;

/// Options that the help begins with.
const FIRST: [&str; 2] = ["name", "pty"];

const DAY_US: u64 = 86_400 * 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct OptionArguments(pub(crate) JobChoices);

impl Args for OptionArguments {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OptionArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Self::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in OPTIONS {
            if let Some(text) = matches.get_one::<OsString>(option.name) {
                set(option, &mut self.0, text)
                    .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, error))?;
            }
        }
        Ok(())
    }
}

fn set(option: &JobOption, choices: &mut JobChoices, text: &OsString) -> Result<(), String> {
    let now = Timestamp(outlive_sys::clock::wall_us());
    let given = option.set(choices, text.as_bytes(), now);
    // A time by the clock on the wall: the core knows no time zone.
    match given.is_err().then(|| until_local(text, now)).flatten() {
        Some(until) => option.set(choices, until.as_bytes(), now),
        None => given,
    }
}

/// Reads `until=05:00` as the next such time, and `until='2026-11-15 05:00'`; none: it is something else.
fn until_local(text: &OsString, now: Timestamp) -> Option<String> {
    let time = text.to_str()?.strip_prefix("until=")?;
    // The last such time before this time tomorrow is the next one.
    let tomorrow = Timestamp(now.0.saturating_add(DAY_US));
    let is_clock = time.starts_with(|c: char| c.is_ascii_digit()) && time.contains(':');
    let time = is_clock.then(|| local_time::parse(time, tomorrow).ok()).flatten()?;
    Some(format!("until={time}"))
}

fn argument(option: &'static JobOption) -> Arg {
    // Leaked: clap wants a static name, and a process declares its options once.
    let flag: &'static str = option.flag().leak();
    let argument = Arg::new(option.name).long(flag).help(option.about).help_heading(option.surfaces.heading);
    let argument = argument.short(option.surfaces.short).value_name(option.placeholder);
    // What is used most stands first.
    let argument = match FIRST.iter().position(|name| *name == option.name) {
        Some(place) => argument.display_order(place),
        None => argument,
    };
    let checked = OsStringValueParser::new()
        .try_map(|text| set(option, &mut JobChoices::default(), &text).map(|()| text));
    match option.form {
        OptionForm::Words(words) => {
            let word = PossibleValuesParser::new(words).map(OsString::from);
            argument.value_parser(word).hide_possible_values(true)
        }
        OptionForm::Flag => {
            argument.num_args(0..=1).require_equals(true).default_missing_value("true").value_parser(checked)
        }
        OptionForm::Number { .. } => argument.allow_negative_numbers(true).value_parser(checked),
        OptionForm::Text => argument.value_parser(checked),
    }
}
