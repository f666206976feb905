//! The options of a job as arguments of `run`, made from their declarations.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use outlive::{JobChoices, JobOption, OPTIONS, OptionForm, Timestamp};

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
    option.set(choices, text.as_bytes(), Timestamp(outlive_sys::clock::wall_us()))
}

fn argument(option: &'static JobOption) -> Arg {
    // Leaked: clap wants a static name, and a process declares its options once.
    let flag: &'static str = option.flag().leak();
    let argument = Arg::new(option.name).long(flag).help(option.about).help_heading(option.surfaces.heading);
    let argument = argument.short(option.surfaces.short).value_name(option.placeholder);
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
