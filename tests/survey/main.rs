//! Asks its user three questions, as many command-line tools do, with a library of its own (`requestty`).
//!
//! The library asks the terminal where the cursor is (`CSI 6 n`) before it draws a question, and fails where no answer comes
//! within two seconds.

use requestty::{Answer, Question};

/// On a machine that is busy with other things an answer may be late, so a question is asked so often.
const ATTEMPTS: usize = 5;

fn ask(question: impl Fn() -> Question<'static>) -> requestty::Result<Answer> {
    let mut asked = requestty::prompt_one(question());
    for _ in 1..ATTEMPTS {
        if asked.is_ok() {
            break;
        }
        asked = requestty::prompt_one(question());
    }
    asked
}

fn main() -> requestty::Result<()> {
    let name = ask(|| Question::input("name").message("Project name").build())?;
    let language =
        ask(|| Question::select("language").message("Language").choices(["C", "Go", "Rust"]).build())?;
    let is_sure = ask(|| Question::confirm("sure").message("Make it").build())?;
    let name = name.as_string().unwrap_or_default();
    let language = language.as_list_item().map(|item| item.text.clone()).unwrap_or_default();
    println!("made: {name} in {language}, {}", is_sure.as_bool().unwrap_or_default());
    Ok(())
}
