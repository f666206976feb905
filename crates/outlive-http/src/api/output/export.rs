//! What a job printed, as a file for other programs: a recording, a text or a page.

use std::io::{self, BufWriter, Write};

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use outlive::{ExportForm, Failure};
use serde::Deserialize;
use tokio::sync::mpsc;
use utoipa::IntoParams;

use crate::access::Caller;
use crate::api::find;
use crate::extract::Params;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// A piece that is sent, and how many are written ahead of a client.
const PIECE: usize = 64 << 10;
const AHEAD: usize = 4;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Form {
    /// `cast`: a recording with its times, for asciinema and its players; `txt`: the rows that a terminal would have left; `html`: a page
    /// with these rows in their colours
    form: String,
}

/// Downloads what a job printed as a recording, a text or a page, as `outlive export` writes it.
#[utoipa::path(get, path = "/v1/jobs/{job}/export", tag = "output", security(("token" = ["view"])),
    params(("job" = String, Path, description = "Id, name, or the beginning of an id"), Form),
    responses((status = 200, description = "The file", body = Vec<u8>, content_type = "application/octet-stream")))]
pub(crate) async fn export(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Params(wanted): Params<Form>,
) -> Result<Response, Problem> {
    let form = match wanted.form.as_str() {
        "cast" => ExportForm::Cast,
        "txt" => ExportForm::Text,
        "html" => ExportForm::Html,
        other => {
            return Err(Failure::usage(format!("there is no form {other:?}"), "cast, txt or html").into());
        }
    };
    let looking = caller.clone();
    let id = work::quick(&shared, move |store| Ok(find(store, &looking, &job)?.id().to_string())).await?;
    let (pieces, receive) = mpsc::channel(AHEAD);
    let name = format!("attachment; filename=\"{id}.{}\"", wanted.form);
    work::stream(&shared, move |store| {
        // It was there a moment ago: one that is gone now is as empty as it looks.
        let Ok(job) = find(store, &caller, &id) else { return };
        let mut file = BufWriter::with_capacity(PIECE, Pieces(&pieces));
        let written = job.export(&job.state(store), form, &mut file).and_then(|_| file.flush());
        if let Err(error) = written {
            // The client must see that it broke off; one that has gone does not.
            pieces.blocking_send(Err(error)).ok();
        }
    })?;
    let pieces = futures_util::stream::unfold(receive, |mut receive| async move {
        receive.recv().await.map(|piece| (piece, receive))
    });
    // A file to be kept, never a page of this site: what a job printed is in it.
    let headers = [(CONTENT_TYPE, "application/octet-stream".to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// Hands on what is written, and waits while the client is slow.
struct Pieces<'a>(&'a mpsc::Sender<io::Result<Bytes>>);

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
