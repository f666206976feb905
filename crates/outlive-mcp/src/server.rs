//! The handlers of MCP requests.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use outlive::{Cancel, Seat, SessionName, Store};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CompletionInfo, ContentBlock, CustomRequest, CustomResult, ErrorCode, ErrorData,
    GetTaskParams, GetTaskResult, Implementation, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, MetaObject, PaginatedRequestParams, ProgressNotificationParam,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
    Tool as Declared, ToolAnnotations, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Map, json};
use tokio::sync::{OnceCell, Semaphore};

use crate::Options;
use crate::answers::Answers;
use crate::arguments::{Arguments, shown};
use crate::jobs::{LONGEST_WAIT_MS, PATIENT_WAIT_MS};
use crate::profiles::Profile;
use crate::remote;
use crate::reply::{Failure, Reply};
use crate::resources;
use crate::scope::{self, Identity, Named, Scope};
use crate::tasks::{self, Begun};
use crate::tools::Tool;
use crate::work::Work;

/// How many calls of tools that wait run at the same time; more are queued.
const WAITING: usize = 128;

/// How many other calls run at the same time.
const WORKING: usize = 8;

/// Interval of progress notifications.
const PROGRESS: Duration = Duration::from_secs(10);

/// Parts of the names of clients that wait for 300 seconds and more by default. Others may count from the last progress, and are known by
/// the token that they send.
const PATIENT: [&str; 5] = ["claude-code", "codex", "gemini", "goose", "qwen"];

/// Parts of the names of clients whose calls may take ten minutes and more: none of theirs was ended within 640 s.
const ENDLESS: [&str; 1] = ["claude-code"];

/// Parts of the names of clients that count from the last progress.
const EXTENDED: [&str; 2] = ["opencode", "copilot"];

/// The tool of a design in which commands have ten minutes in the foreground, if the client takes that.
const LONG_FOREGROUND: (&str, u64) = ("bash", 600_000);

/// The tools that nearly every dialogue needs.
const ALWAYS_LOADED: [&str; 4] = ["run", "wait", "read_output", "kill"];

/// How long a client may take to answer `roots/list`.
const ROOTS: Duration = Duration::from_millis(1000);

/// The server of one connection.
pub(crate) struct Server {
    work: Arc<Work>,
    options: Options,
    answers: Answers,
    /// Set at the first call: only then may the server ask the client.
    scope: OnceCell<Arc<Scope>>,
    /// Held until the connection ends; the next new one may then go on in its place.
    seat: OnceLock<Seat>,
    origin: Origin,
    turns: Turns,
}

/// Where the client of a server is.
#[derive(Debug)]
pub(crate) enum Origin {
    /// It has started this process, in this directory, which may be gone.
    Parent { here: PathBuf },
    /// It came over HTTP: this process's directory and environment are not its own.
    Remote {
        /// The project's directory, if the client names it.
        directory: Option<PathBuf>,
        /// Tells clients apart that name no reader and have no session of the protocol.
        caller: String,
        /// Held, so that servers can be counted.
        #[expect(dead_code, reason = "held, not read")]
        living: Arc<()>,
    },
}

/// How many calls run at the same time; more are queued.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    waiting: Arc<Semaphore>,
    working: Arc<Semaphore>,
}

impl Turns {
    pub(crate) fn new(waiting: usize, working: usize) -> Self {
        Self { waiting: Arc::new(Semaphore::new(waiting)), working: Arc::new(Semaphore::new(working)) }
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self::new(WAITING, WORKING)
    }
}

impl Server {
    pub(crate) fn new(
        store: Arc<Store>,
        options: Options,
        origin: Origin,
        answers: Answers,
        turns: Turns,
    ) -> Self {
        let environment = options.environment.unwrap_or(store.config().mcp.env);
        Self {
            work: Arc::new(Work::new(store, environment, answers.clone(), options.profile)),
            options,
            answers,
            scope: OnceCell::new(),
            seat: OnceLock::new(),
            origin,
            turns,
        }
    }

    /// Determines once which jobs this client sees.
    async fn scope(&self, context: &RequestContext<RoleServer>) -> Arc<Scope> {
        let found = self.scope.get_or_init(|| async {
            let (directory, here, connection) = match &self.origin {
                Origin::Parent { here } => (root(context).await, here.clone(), None),
                Origin::Remote { directory, caller, .. } => {
                    let directory = match directory {
                        Some(directory) => Some(directory.clone()),
                        None => root(context).await,
                    };
                    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
                    let id = crate::http::session_of(context).unwrap_or_else(|| caller.clone());
                    (directory, home, Some(id))
                }
            };
            let is_remote = connection.is_some();
            let project = match directory.as_deref() {
                Some(directory) => scope::session_of(directory),
                None if is_remote => SessionName::default(),
                None => scope::session_of(&here),
            };
            let Identity { session, reader, seat } = self.identify(project, connection).await;
            if let Some(seat) = seat {
                self.seat.set(seat).ok();
            }
            let sees_all = self.options.all_sessions;
            let host = self.options.host.clone();
            Arc::new(Scope { session, sees_all, reader, directory, here, is_remote, host })
        });
        Arc::clone(found.await)
    }

    /// Determines who the client is, in a blocking thread: what others left may have to be moved.
    async fn identify(&self, project: SessionName, connection: Option<String>) -> Identity {
        let (session, reader) = (self.options.session.clone(), self.options.reader.clone());
        let named = Named { session, reader, connection };
        let (work, profile) = (Arc::clone(&self.work), self.options.profile);
        let (of, place) = (named.clone(), project.clone());
        let finding = tokio::task::spawn_blocking(move || scope::identify(&work.store, &of, profile, place));
        finding.await.unwrap_or_else(|_| {
            // Only if the server is ending.
            let session = named.session.unwrap_or(project);
            Identity { reader: named.reader.unwrap_or_else(|| session.clone()), session, seat: None }
        })
    }

    /// Runs `act` in a blocking thread.
    async fn work_on<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        act: impl FnOnce(&Work, &Scope) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let failed = || ErrorData::internal_error("the server is ending", None);
        let scope = self.scope(context).await;
        let turn = Arc::clone(&self.turns.working).acquire_owned().await.map_err(|_| failed())?;
        let work = Arc::clone(&self.work);
        let looking = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            act(&work, &scope)
        });
        looking.await.map_err(|_| failed())
    }

    /// Makes a result of a reply, whose actions run once the client has it.
    fn answer(&self, reply: Reply, context: &RequestContext<RoleServer>) -> CallToolResult {
        let result = result_of(&reply);
        self.answers.after(context, reply.after);
        result
    }

    /// Calls a tool in a blocking thread, and sends progress to a client that asked for it.
    async fn call(
        &self,
        tool: &'static Tool,
        arguments: Arguments,
        on: Option<String>,
        context: &RequestContext<RoleServer>,
    ) -> Reply {
        let turns = if tool.waits { &self.turns.waiting } else { &self.turns.working };
        let scope = self.scope(context).await;
        let Ok(turn) = Arc::clone(turns).acquire_owned().await else {
            return Failure::new("the server is ending").into();
        };
        let cancel = match Cancel::new() {
            Ok(cancel) => cancel,
            Err(error) => return Failure::of("the server has no descriptors left", &error).into(),
        };
        let longest_ms = self.longest_wait_ms(tool, context);
        let mut work = tokio::task::spawn_blocking({
            let (work, cancel) = (Arc::clone(&self.work), cancel.clone());
            move || {
                let _turn = turn;
                work.call(tool, arguments, on.as_deref(), &scope, &cancel, longest_ms)
            }
        });
        let token = context.meta.get_progress_token().filter(|_| tool.waits);
        let (mut sent, began) = (0, Instant::now());
        loop {
            let next = if sent == 0 && tool.name == "wait" { Duration::ZERO } else { PROGRESS };
            tokio::select! {
                biased;
                done = &mut work => {
                    return done.unwrap_or_else(|_| Failure::new(format!("{} failed inside outlive", tool.name)).into());
                }
                () = context.ct.cancelled() => {
                    cancel.cancel();
                    return Failure::new("cancelled").into();
                }
                () = self.answers.ended() => {
                    cancel.cancel();
                    return Failure::new("the client is gone").into();
                }
                () = tokio::time::sleep(next), if token.is_some() => {
                    if let Some(token) = token.clone() {
                        let param = ProgressNotificationParam::new(token, f64::from(sent))
                            .with_message(format!("{}: {} s", tool.name, began.elapsed().as_secs()));
                        // Progress may be lost: the answer comes anyway.
                        tokio::time::timeout(PROGRESS, context.peer.notify_progress(param)).await.ok();
                        sent += 1;
                    }
                }
            }
        }
    }
}

impl Server {
    /// Returns how long a call may wait, in milliseconds: as configured, else as long as the client is known to take.
    fn longest_wait_ms(&self, tool: &Tool, context: &RequestContext<RoleServer>) -> u64 {
        if let Some(longest) = self.work.store.config().mcp.longest_wait {
            return u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        }
        let client = context.client_info().map(|client| client.name.to_ascii_lowercase()).unwrap_or_default();
        longest_ms(tool.name, &client, context.meta.get_progress_token().is_some())
    }
}

/// Returns how long a call of a tool may wait with this client, in milliseconds.
fn longest_ms(tool: &str, client: &str, has_token: bool) -> u64 {
    let is_one_of = |parts: &[&str]| parts.iter().any(|part| client.contains(part));
    let (long, long_ms) = LONG_FOREGROUND;
    if tool == long && (is_one_of(&ENDLESS) || (has_token && is_one_of(&EXTENDED))) {
        long_ms
    } else if has_token || is_one_of(&PATIENT) {
        PATIENT_WAIT_MS
    } else {
        LONGEST_WAIT_MS
    }
}

/// Asks the client for its project's directory, if it offers that.
#[expect(deprecated, reason = "clients of the handshake era tell it this way")]
async fn root(context: &RequestContext<RoleServer>) -> Option<PathBuf> {
    let info = context.peer.peer_info()?;
    info.capabilities.roots.as_ref()?;
    let listed = tokio::time::timeout(ROOTS, context.peer.list_roots()).await.ok()?.ok()?;
    listed.roots.iter().filter_map(|root| scope::path_of_uri(&root.uri)).find(|path| path.is_dir())
}

/// Returns the declaration of a tool for `tools/list`.
pub(crate) fn declaration(tool: &Tool) -> Declared {
    let hints = tool.hints;
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(hints.open_world);
    let declared = Declared::new(tool.name, tool.description, tool.schema()).with_annotations(annotations);
    match ALWAYS_LOADED.contains(&tool.name) {
        // A client that loads tools by a search has these without one.
        true => {
            declared.with_meta(MetaObject(Map::from_iter([("anthropic/alwaysLoad".to_owned(), true.into())])))
        }
        false => declared,
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_completions()
            .enable_tasks()
            .build();
        let about = Implementation::new("outlive", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(about)
            .with_instructions(self.options.profile.instructions)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let hosts: Vec<&str> = self.work.store.config().hosts.keys().map(String::as_str).collect();
        let is_native = std::ptr::eq(self.options.profile, <&'static Profile>::default());
        let declare = |tool: &Tool| {
            let mut declared = declaration(tool);
            if tool.name == "run" && is_native && !hosts.is_empty() {
                remote::with_hosts(Arc::make_mut(&mut declared.input_schema), &hosts);
            }
            declared
        };
        Ok(ListToolsResult::with_all_items(self.options.profile.tools.iter().copied().map(declare).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Declared> {
        self.options.profile.tool(name).map(declaration)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = self.work_on(&context, resources::list).await?;
        Ok(ListResourcesResult::with_all_items(listed))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.clone();
        let contents = self.work_on(&context, move |work, scope| resources::read(work, scope, &uri)).await?;
        let missing = || {
            let message =
                format!("there is no resource {:?}; outlive://jobs lists the jobs", shown(&request.uri));
            ErrorData::resource_not_found(message, Some(json!({"uri": request.uri})))
        };
        Ok(ReadResourceResult::new(vec![contents.ok_or_else(missing)?]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let beginning = request.argument.value;
        let is_id = request.argument.name == "id";
        let find = move |work: &Work, scope: &Scope| match is_id {
            true => resources::complete(work, scope, &beginning),
            false => Vec::new(),
        };
        let ids = self.work_on(&context, find).await?;
        Ok(CompleteResult::new(CompletionInfo::new(ids).unwrap_or_default()))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let id = request.task_id.clone();
        let (result, after) = self
            .work_on(&context, move |work, scope| tasks::get(work, &id, scope))
            .await?
            .ok_or_else(|| no_task(&request.task_id))?;
        self.answers.after(&context, after);
        Ok(result)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let message = format!("task {:?} asks for nothing", shown(&request.task_id));
        Err(ErrorData::invalid_params(message, None))
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let id = request.task_id.clone();
        match self.work_on(&context, move |work, scope| tasks::cancel(work, &id, scope)).await? {
            true => Ok(()),
            false => Err(no_task(&request.task_id)),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let message = format!("there is no method {:?}", shown(&request.method));
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let profile = self.options.profile;
        let Some(tool) = profile.tool(&request.name) else {
            let names: Vec<&str> = profile.tools.iter().map(|tool| tool.name).collect();
            let message =
                format!("there is no tool {:?}; there are {}", shown(&request.name), names.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        crate::log(&format!("{} is called", tool.name));
        let mut values = request.arguments.unwrap_or_default();
        let hosts = &self.work.store.config().hosts;
        let on = remote::take_on(profile, tool, !hosts.is_empty(), &mut values);
        let arguments = profile.arguments(tool, values);
        let takes_tasks = context.client_capabilities().is_some_and(|known| known.supports_tasks());
        // A wait on another machine is a call there, whose answer is the end of it.
        let is_here = !remote::is_remote(&arguments, hosts);
        if takes_tasks && is_here && tool.name == "wait" && arguments.check().is_ok() {
            match self.work_on(&context, move |work, scope| tasks::begin(work, arguments, scope)).await? {
                Begun::Task(task) => return Ok(task.into()),
                Begun::Answer(reply) => return Ok(self.answer(reply, &context).into()),
            }
        }
        let reply = self.call(tool, arguments, on, &context).await;
        Ok(self.answer(reply, &context).into())
    }
}

pub(crate) fn result_of(reply: &Reply) -> CallToolResult {
    let texts = std::iter::once(reply.text()).chain(reply.messages.iter().cloned());
    let content = texts.map(ContentBlock::text).collect();
    let result =
        if reply.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    match reply.meta.is_empty() {
        true => result,
        false => result.with_meta(Some(MetaObject(reply.meta.clone()))),
    }
}

fn no_task(id: &str) -> ErrorData {
    ErrorData::invalid_params(format!("there is no task {:?}", shown(id)), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_as_long_as_its_client_takes() {
        for (tool, client, has_token, seconds) in [
            ("wait", "somebody", false, 45),
            ("wait", "somebody", true, 200),
            ("wait", "claude-code", true, 200),
            ("bash", "somebody", true, 200),
            ("bash", "codex-mcp-client", true, 200),
            ("bash", "claude-code", false, 600),
            ("bash", "opencode", true, 600),
            ("bash", "opencode", false, 45),
        ] {
            assert_eq!(longest_ms(tool, client, has_token), seconds * 1000, "{tool} {client} {has_token}");
        }
    }
}
