//! `outlive template`: jobs with parameters, started when they are asked for.

use std::process::ExitCode;

use outlive_project::Project;

use crate::args::Template;
use crate::commands::Context;
use crate::commands::project::{file_of, load};
use crate::commands::run::announce;
use crate::failure::Failure;
use crate::render::{note, one_line, print, print_json};

pub(crate) fn run(context: &Context, arguments: &Template) -> Result<ExitCode, Failure> {
    match arguments {
        Template::List { project } => list(context, &load(context, project)?),
        Template::Show { name, project } => {
            let project = load(context, project)?;
            let template = project.template(name)?;
            if context.is_json {
                return print_json(template);
            }
            print(&shown(template));
            Ok(ExitCode::SUCCESS)
        }
        Template::Run { name, set, project } => {
            let given = set.iter().cloned().collect();
            let request =
                Project::fill_template(&file_of(project)?, &context.store.config().hosts, name, &given)?;
            let started = context.store.start(&request.reader(context.reader.clone()))?;
            started.warning.iter().for_each(|warning| note(&format!("outlive: warning: {warning}")));
            announce(context, &started.job, started.pid)
        }
    }
}

fn list(context: &Context, project: &Project) -> Result<ExitCode, Failure> {
    if context.is_json {
        return print_json(&project.templates);
    }
    if project.templates.is_empty() {
        note(
            "there are no templates; write one: [templates.test] and below it run = \"make test {{target}}\"",
        );
    }
    let width = project.templates.iter().map(|template| template.name.len()).max().unwrap_or(0);
    for template in &project.templates {
        let params = template.params.iter().map(|(name, default)| parameter(name, default.as_deref()));
        let params = params.collect::<Vec<_>>().join(" ");
        let about = template.about.as_deref().unwrap_or(&template.run);
        print(&format!("{}\n", one_line(&format!("{:width$}  {about}  {params}", template.name)).trim_end()));
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(template: &outlive_project::Template) -> String {
    let mut text = format!("{}\n", template.name);
    if let Some(about) = &template.about {
        text += &format!("  {}\n", one_line(about));
    }
    text += &format!("  run: {}\n", one_line(&template.run));
    for (name, default) in &template.params {
        text += &match default {
            Some(default) => format!("  {name}: {default:?} unless it is given\n"),
            None => format!("  {name}: must be given, --set {name}=VALUE\n"),
        };
    }
    text
}

fn parameter(name: &str, default: Option<&str>) -> String {
    match default {
        Some(default) => format!("[{name}={default}]"),
        None => format!("{name}=…"),
    }
}
