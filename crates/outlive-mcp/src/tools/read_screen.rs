//! `read_screen`: read a job's terminal screen.

use super::{Call, Hints, Kind, Parameter, Tool};
use crate::jobs;
use crate::reply::{Failure, Reply};

pub(crate) static TOOL: Tool = Tool {
    name: "read_screen",
    title: "See a job's screen",
    description: "See what stands on the screen of a job that runs in a terminal (TUI, full-screen program). Jobs of this version have no terminal yet: use read_output, which shows what a terminal would have left on the page.",
    parameters: &[Parameter::required("job", Kind::Text, "Id or name")],
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    waits: false,
    call,
};

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let reference = call.arguments.required("job", "read_screen job=web")?;
    let job = jobs::find(call, &reference)?;
    let id = job.id();
    Err(Failure::new(format!("{id} has no screen: it runs on pipes, and this version has no terminals"))
        .next(format!("read_output job={id} lines=40 shows what a terminal would have left on the page")))
}
