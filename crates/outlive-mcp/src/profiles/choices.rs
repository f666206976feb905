//! Where the designs differ, and what each profile does there: the rows of `docs/reference/profiles.md`.

macro_rules! choices {
    ($($field:ident: $question:literal,)*) => {
        /// What a profile does where the designs differ.
        #[derive(Debug)]
        pub(crate) struct Choices {
            $(pub(crate) $field: &'static str,)*
        }

        impl Choices {
            /// Returns each question with the profile's answer, in the order of the reference.
            pub(crate) fn rows(&self) -> Vec<(&'static str, &'static str)> {
                vec![$(($question, self.$field)),*]
            }
        }
    };
}

choices! {
    start_tool: "tool that starts",
    bash_output: "`bash_output`",
    process: "`process`",
    run_command: "`run_command`",
    id_form: "form of an id",
    id_parameter: "name of the parameter for an id",
    status_words: "words for a status",
    exit_zero: "exit code 0",
    timed_out: "after a timeout",
    default_timeout: "timeout by default",
    kill_grace: "time between the signals of a kill",
    kill_reach: "who is killed",
    kill_after_end: "kill of one that has ended",
    kill_signal: "choice of the signal",
    read_result: "what a read returns",
    streams: "streams",
    blank_lines: "blank lines",
    readable_output: "how much output can be read",
    filter: "filter",
    start_answer: "how long a start takes to answer",
    command_form: "form of a command",
    shell: "shell",
    environment: "environment",
    stdin: "standard input",
    terminal: "terminal",
    survives: "what survives",
    retention: "how long ended ones stay",
    limits: "how many",
    visibility: "who sees whose",
    session_meaning: "what \"session\" means",
    end_news: "news of an end",
    list_form: "form of the list",
    time_form: "form of a time",
    approval: "approval",
    refused_commands: "commands that are refused",
    id_matching: "matching of an id",
    platform: "platform",
    extra_scope: "out of scope there, in scope here",
    description: "description",
}
