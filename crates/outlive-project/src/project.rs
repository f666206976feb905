//! A project: its name, its directory, its jobs and what they wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use outlive::{
    JobChoices, Labels, OwnLabel, Placement, QueueName, Request, SessionName, Signal, Store, Stream, hash,
};
use serde_json::{Map, Value};

use crate::error::ProjectError;
use crate::file::fault::{Fault, Source};
use crate::file::place::Hosts;
use crate::file::templates::Template;
use crate::file::{process_compose, procfile, read};
use crate::import;
use crate::up::record::Record;

/// The file of a project.
pub const FILE: &str = "outlive.toml";

/// A file beside it, for one user or machine: what it says takes precedence.
pub const LOCAL_FILE: &str = "outlive.local.toml";

/// A project, as its files say.
#[derive(Debug)]
pub struct Project {
    /// Its name: that of its directory, unless the file says another.
    pub name: String,
    /// The directory of its file.
    pub dir: PathBuf,
    /// The file.
    pub file: PathBuf,
    /// Its jobs, in the order of the file.
    pub jobs: Vec<ProjectJob>,
    /// How many jobs of a queue run at once, where the file says so.
    pub queues: BTreeMap<QueueName, u64>,
    /// What is started when it is asked for, in the order of the file.
    pub templates: Vec<Template>,
    /// The session of its jobs, where its file does not tell.
    pub(crate) session: Option<SessionName>,
    /// What a file of another program says that has no counterpart here, each in a sentence.
    pub warnings: Vec<String>,
}

/// One job of a project.
#[derive(Debug, Clone)]
pub struct ProjectJob {
    /// Its name in the project.
    pub name: String,
    /// What to run.
    pub run: Command,
    /// Where to run it, absolute.
    pub dir: PathBuf,
    /// Variables to add.
    pub env: BTreeMap<String, String>,
    /// Labels to attach.
    pub labels: Labels,
    /// Options of the job.
    pub choices: JobChoices,
    /// What must hold before it is started.
    pub after: Vec<After>,
    /// The port that it listens on.
    pub port: Option<Port>,
    /// The signal that asks it to end.
    pub stop: Option<Signal>,
    /// Patterns of files: when one changes, it is restarted.
    pub watch: Vec<String>,
    /// It is started only when one of these is asked for, or it by its name; none: always.
    pub profiles: Vec<String>,
    /// The job whose output it reads, and which of its streams.
    pub stdin_from: Option<(String, Stream)>,
    /// What an engine is asked for that places it; none: it is started where its store is.
    pub placement: Option<Placement>,
    /// The other machine that it runs on.
    pub there: Option<There>,
    /// Where it says a directory that is not there. Only to start it is a mistake then: a job before it may make the directory, and what
    /// runs is ended all the same.
    pub(crate) missing_dir: Option<Box<Fault>>,
}

impl ProjectJob {
    /// Returns a job of which no more is known than this.
    pub(crate) fn new(name: &str, run: Command, dir: &Path, env: BTreeMap<String, String>) -> Self {
        Self {
            name: name.to_owned(),
            run,
            dir: dir.to_owned(),
            env,
            labels: Labels::default(),
            choices: JobChoices::default(),
            after: Vec::new(),
            port: None,
            stop: None,
            watch: Vec::new(),
            profiles: Vec::new(),
            stdin_from: None,
            placement: None,
            there: None,
            missing_dir: None,
        }
    }
}

/// Which jobs of a project are asked for; without a word, all that belong to no profile.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// Jobs by their names.
    pub names: &'a [String],
    /// All jobs of these profiles.
    pub profiles: &'a [String],
}

/// Another machine that a job runs on.
#[derive(Debug, Clone, PartialEq)]
pub struct There {
    /// Its name in the configuration.
    pub host: String,
    /// The directory that is copied there before the start.
    pub sync: Option<PathBuf>,
    /// The job as a file there says it.
    pub(crate) definition: Map<String, Value>,
}

/// What a job runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A line for a shell.
    Line(String),
    /// A program and its arguments.
    Argv(Vec<String>),
}

/// The port of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// One that is free, the same each time for a job of a project in a directory.
    Auto,
    /// This one.
    Fixed(u16),
}

/// What is waited for before a job is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After {
    /// The other job.
    pub job: String,
    /// What must hold of it.
    pub milestone: Milestone,
}

impl std::fmt::Display for After {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}@{}", self.job, self.milestone.word())
    }
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Milestone {
    /// Its command was executed.
    Started,
    /// It is ready, as its file says.
    Ready,
    /// It is ready, if it says when, and a check of its health has succeeded.
    Healthy,
    /// It has ended, in whatever way.
    Completed,
    /// It has ended with 0.
    Succeeded,
}

impl Milestone {
    pub(crate) const ALL: [Self; 5] =
        [Self::Started, Self::Ready, Self::Healthy, Self::Completed, Self::Succeeded];

    /// Returns the word after the `@`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Ready => "ready",
            Self::Healthy => "healthy",
            Self::Completed => "completed",
            Self::Succeeded => "succeeded",
        }
    }
}

impl Project {
    /// Finds the file of the project that a directory belongs to: in it, or in the nearest one above it.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn find(dir: &Path) -> Result<PathBuf, ProjectError> {
        let mut files = dir.ancestors().map(|dir| dir.join(FILE));
        let file = files.find(|file| file.exists()).ok_or_else(|| ProjectError::None(dir.to_owned()))?;
        if file.is_file() { Ok(file) } else { Err(ProjectError::NoFile(file)) }
    }

    /// Reads a project: its file, and the local one beside it; or a Procfile or a file of process-compose, and `.env` beside it. Its
    /// jobs may be on these machines.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or has a mistake.
    pub fn load(file: &Path, hosts: &Hosts) -> Result<Self, ProjectError> {
        let file = file.canonicalize().map_err(|error| ProjectError::Read(file.to_owned(), error))?;
        let dir = file.parent().unwrap_or(Path::new("/")).to_owned();
        if procfile::is_one(&file) || process_compose::is_one(&file) {
            let missing = || ProjectError::Read(file.clone(), io::ErrorKind::NotFound.into());
            let text = source(file.clone())?.ok_or_else(missing)?;
            let variables = source(dir.join(".env"))?;
            return match procfile::is_one(&file) {
                true => Ok(procfile::project(file, dir, &text, variables.as_ref())?),
                false => process_compose::project(file, dir, &text, variables.as_ref()),
            };
        }
        if import::is_importable(&file) {
            return Err(ProjectError::ToImport(file));
        }
        let sources = [source(file.clone())?, source(dir.join(LOCAL_FILE))?];
        let sources: Vec<Source> = sources.into_iter().flatten().collect();
        read::project(file, dir, &sources, hosts)
    }

    /// Reads a project, and makes the request of one of its templates with these parameters.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or has a mistake, or the template cannot be filled in.
    pub fn fill_template(
        file: &Path,
        hosts: &Hosts,
        name: &str,
        given: &BTreeMap<String, String>,
    ) -> Result<Request, ProjectError> {
        let project = Self::load(file, hosts)?;
        project.template(name)?;
        let sources = [source(project.file.clone())?, source(project.dir.join(LOCAL_FILE))?];
        let sources: Vec<Source> = sources.into_iter().flatten().collect();
        let (project, job) = read::filled(project.file, project.dir, &sources, hosts, (name, given))?;
        let ports = match job.port {
            Some(Port::Fixed(port)) => BTreeMap::from([(job.name.clone(), port)]),
            _ => BTreeMap::new(),
        };
        Ok(job.request(&project, &ports))
    }

    /// Reads the project of a session: the one that was brought up in it, or that another machine defined in it.
    ///
    /// # Errors
    ///
    /// If its file cannot be read or has a mistake.
    pub fn of_session(store: &Store, session: &SessionName) -> Result<Option<Self>, ProjectError> {
        let defined = store.session_dir(session).join(FILE);
        let file = match Record::read(store, session) {
            Some(record) => record.file,
            None if defined.is_file() => defined,
            None => return Ok(None),
        };
        Self::load(&file, &store.config().hosts).map(|project| Some(project.in_session(session)))
    }

    pub(crate) fn in_session(self, session: &SessionName) -> Self {
        Self { session: Some(session.clone()), ..self }
    }

    /// Finds a template by its name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn template(&self, name: &str) -> Result<&Template, ProjectError> {
        self.templates.iter().find(|template| template.name == name).ok_or_else(|| {
            let names = self.templates.iter().map(|template| template.name.as_str());
            let similar = outlive::nearest(name, names).map(str::to_owned);
            ProjectError::UnknownTemplate { name: name.to_owned(), file: self.file.clone(), similar }
        })
    }

    /// Makes a project without jobs, with the name of its directory.
    pub(crate) fn empty(file: PathBuf, dir: PathBuf) -> Self {
        let name = dir.file_name().map_or("project".into(), |name| name.to_string_lossy().into_owned());
        Self {
            name,
            dir,
            file,
            jobs: Vec::new(),
            queues: BTreeMap::new(),
            templates: Vec::new(),
            session: None,
            warnings: Vec::new(),
        }
    }

    /// Returns the session of its jobs. Another copy of the project, as in another worktree, has another.
    pub fn session(&self) -> SessionName {
        if let Some(session) = &self.session {
            return session.clone();
        }
        let letters =
            self.name.chars().map(|c| if c.is_ascii_alphanumeric() || "_.".contains(c) { c } else { '-' });
        let word: String = letters.skip_while(|c| !c.is_ascii_alphanumeric()).take(48).collect();
        let word = if word.is_empty() { "project".to_owned() } else { word };
        // A Procfile beside an outlive.toml is another project.
        let place = if self.file.ends_with(FILE) { &self.dir } else { &self.file };
        let place = hash(place.as_os_str().as_encoded_bytes());
        let name = format!("{word}-{:08x}", (place ^ (place >> 32)) & 0xffff_ffff);
        SessionName::parse(&name).expect("it has only what a name may have")
    }

    /// Finds a job by its name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn job(&self, name: &str) -> Result<&ProjectJob, ProjectError> {
        self.jobs.iter().find(|job| job.name == name).ok_or_else(|| {
            let names = self.jobs.iter().map(|job| job.name.as_str());
            let similar = outlive::nearest(name, names).map(str::to_owned);
            ProjectError::Unknown { name: name.to_owned(), file: self.file.clone(), similar }
        })
    }

    /// Lists the jobs that are asked for and all that they wait for, in the order of the file.
    ///
    /// # Errors
    ///
    /// If a name is that of no job or profile, or nothing is asked for.
    pub fn with_dependencies(&self, asked: &Asked<'_>) -> Result<Vec<&ProjectJob>, ProjectError> {
        let Asked { names, profiles } = asked;
        let known: BTreeSet<&String> = self.jobs.iter().flat_map(|job| &job.profiles).collect();
        let known: Vec<String> = known.into_iter().cloned().collect();
        let file = self.file.clone();
        if let Some(name) = profiles.iter().find(|name| !known.contains(name)) {
            return Err(ProjectError::UnknownProfile { name: name.clone(), file, known });
        }
        let mut open: Vec<&ProjectJob> = names.iter().map(|name| self.job(name)).collect::<Result<_, _>>()?;
        let is_chosen = |job: &&ProjectJob| {
            job.profiles.iter().any(|profile| profiles.contains(profile))
                || (names.is_empty() && job.profiles.is_empty())
        };
        open.extend(self.jobs.iter().filter(is_chosen));
        if open.is_empty() {
            return Err(ProjectError::NothingAsked { file, known });
        }
        let wanted = self.closure(open);
        Ok(self.jobs.iter().filter(|job| wanted.contains(job.name.as_str())).collect())
    }

    /// Names these jobs and all that they come after, directly or through others.
    fn closure<'a>(&'a self, mut open: Vec<&'a ProjectJob>) -> BTreeSet<&'a str> {
        let mut names = BTreeSet::new();
        while let Some(job) = open.pop() {
            if names.insert(job.name.as_str()) {
                open.extend(job.after.iter().filter_map(|after| self.job(&after.job).ok()));
            }
        }
        names
    }

    /// Groups the names of the jobs by how many others must come before them: those of one group do not wait for each other.
    pub fn levels(&self) -> Vec<Vec<&ProjectJob>> {
        let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
        // There is no circle, so that after as many rounds as there are jobs nothing changes any more.
        for _ in &self.jobs {
            for job in &self.jobs {
                let above =
                    job.after.iter().map(|after| depths.get(after.job.as_str()).map_or(0, |depth| depth + 1));
                depths.insert(&job.name, above.max().unwrap_or(0));
            }
        }
        let deepest = depths.values().max().map_or(0, |deepest| deepest + 1);
        let of_depth = |depth| self.jobs.iter().filter(|job| depths[job.name.as_str()] == depth).collect();
        (0..deepest).map(of_depth).collect()
    }
}

fn source(path: PathBuf) -> Result<Option<Source>, ProjectError> {
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(Source { path, text })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ProjectError::Read(path, error)),
    }
}

impl ProjectJob {
    /// Tells whether it says when it is ready.
    pub fn can_be_ready(&self) -> bool {
        self.port.is_some() || self.is_ready_otherwise()
    }

    /// Tells whether it says when it is ready in another way than by its port.
    fn is_ready_otherwise(&self) -> bool {
        let JobChoices { ready_on, ready_port, ready_http, ready_command, ready_notify, .. } = &self.choices;
        ready_on.is_some()
            || ready_port.is_some()
            || ready_http.is_some()
            || ready_command.is_some()
            || *ready_notify == Some(true)
    }

    /// Returns the request to start it; `ports` are those of all jobs. It gets its own as `$PORT`, and that of a job that it comes after,
    /// directly or through others, as `$DB_PORT`.
    pub(crate) fn request(&self, project: &Project, ports: &BTreeMap<String, u16>) -> Request {
        let request = match &self.run {
            Command::Line(line) => Request::shell(line),
            Command::Argv(argv) => Request::argv(argv),
        };
        let mut choices = self.choices.clone();
        let own = ports.get(&self.name).copied();
        if own.is_some() && !self.is_ready_otherwise() {
            choices.ready_port = Some(own);
        }
        let before = project.closure(vec![self]).into_iter().filter(|name| *name != self.name);
        let others = before.filter_map(|job| {
            let name = job.to_ascii_uppercase().replace(['-', '.'], "_");
            Some((format!("{name}_PORT"), ports.get(job)?.to_string()))
        });
        let given = others.chain(own.map(|port| ("PORT".to_owned(), port.to_string())));
        // What the file says takes precedence.
        let given = given.filter(|(name, _)| !self.env.contains_key(name));
        let added: BTreeMap<String, String> = given.chain(self.env.clone()).collect();
        let project_dir = project.dir.to_string_lossy();
        let request =
            request.session(project.session()).cwd(&self.dir).own_label(OwnLabel::Project, project_dir);
        let request = added.into_iter().fold(request, |request, (name, value)| request.env(name, value));
        let request = self.labels.iter().fold(request, |request, (name, value)| request.label(name, value));
        let request = match &self.placement {
            // The limit is then the engine's.
            Some(placement) => {
                let memory_bytes = choices.memory.take().flatten();
                request.placed_by(Placement { memory_bytes, ..placement.clone() })
            }
            None => request,
        };
        request.options(choices).name(self.name.as_str()).restart_on_change(self.watch.iter())
    }
}
