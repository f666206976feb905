//! The bytes of a log as they were printed, whole or in ranges.

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use outlive::{Failure, Output, Piece};
use tokio::sync::mpsc;

use super::gone;
use crate::access::Caller;
use crate::api::find;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// Pieces that are read ahead of a client: four of 256 KiB, and the reader waits.
const AHEAD: usize = 4;

/// Downloads a job's log as it was printed. Offsets are those of the job's whole output, also where its beginning was dropped.
#[utoipa::path(get, path = "/v1/jobs/{job}/log", tag = "output", security(("token" = ["view"])),
    params(("job" = String, Path, description = "Id, name, or the beginning of an id"),
        ("range" = Option<String>, Header, description = "One range of bytes")),
    responses((status = 200, description = "All that is kept", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, description = "The range", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 416, description = "Nothing of the range is kept")))]
pub(crate) async fn log(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asked = headers.get(RANGE).and_then(|range| range.to_str().ok()).map(str::to_owned);
    let (send, receive) = mpsc::channel::<Result<Bytes, std::io::Error>>(AHEAD);
    let (bounds, found) = {
        let caller = caller.clone();
        let reference = job.clone();
        work::quick(&shared, move |store| {
            let job = find(store, &caller, &reference)?;
            let output = Output::open(&job).map_err(|error| gone(&job, &error))?;
            Ok(((output.start(), output.end()), job.id().to_string()))
        })
        .await?
    };
    let range = asked.as_deref().map(|asked| range(asked, bounds));
    let (from, to) = match range {
        None | Some(Asked::All) => bounds,
        Some(Asked::Range(from, to)) => (from, to),
        Some(Asked::Nothing) => {
            let failure = Failure::usage(
                format!("bytes {} to {} are kept", bounds.0, bounds.1),
                "ask for a range within them",
            );
            let mut response =
                Problem::from(failure).with_status(StatusCode::RANGE_NOT_SATISFIABLE).into_response();
            set(response.headers_mut(), CONTENT_RANGE, format!("bytes */{}", bounds.1));
            return Ok(response);
        }
    };
    if method != Method::HEAD && from < to {
        let reference = found.clone();
        work::stream(&shared, move |store| {
            let Ok(mut output) = find(store, &caller, &reference)
                .and_then(|job| Output::open(&job).map_err(|error| gone(&job, &error)))
            else {
                return;
            };
            let mut position = from;
            while position < to {
                let sent = match output.piece(position) {
                    Ok(Some(Piece::Output { mut bytes, .. })) => {
                        bytes.truncate(usize::try_from(to - position).unwrap_or(usize::MAX));
                        position += bytes.len() as u64;
                        send.blocking_send(Ok(bytes.into()))
                    }
                    // It was dropped meanwhile: the length was promised, so the client must see that it broke off.
                    Ok(Some(Piece::Gone { .. }) | None) => {
                        send.blocking_send(Err(std::io::ErrorKind::UnexpectedEof.into())).ok();
                        return;
                    }
                    Err(error) => {
                        send.blocking_send(Err(error)).ok();
                        return;
                    }
                };
                // The client is gone.
                if sent.is_err() {
                    return;
                }
            }
        })?;
    }
    let pieces = futures_util::stream::unfold(receive, |mut receive| async move {
        receive.recv().await.map(|piece| (piece, receive))
    });
    let is_range = matches!(range, Some(Asked::Range(..)));
    let mut response = Body::from_stream(pieces).into_response();
    *response.status_mut() = if is_range { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let headers = response.headers_mut();
    set(headers, CONTENT_TYPE, "application/octet-stream".to_owned());
    set(headers, CONTENT_LENGTH, (to - from).to_string());
    set(headers, ACCEPT_RANGES, "bytes".to_owned());
    set(headers, CONTENT_DISPOSITION, format!("attachment; filename=\"{found}.log\""));
    if is_range {
        set(headers, CONTENT_RANGE, format!("bytes {from}-{}/{}", to - 1, bounds.1));
    }
    Ok(response)
}

fn set(headers: &mut HeaderMap, name: axum::http::HeaderName, value: String) {
    // Numbers and ids are always valid.
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// Not understood, and so ignored, as the standard wants.
    All,
    /// From, and up to but without.
    Range(u64, u64),
    Nothing,
}

fn range(text: &str, (start, end): (u64, u64)) -> Asked {
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Asked::All;
    };
    let (from, to) = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(from), Ok(last)) if last >= from => (from, last.saturating_add(1)),
        (Ok(from), Err(_)) if last.is_empty() => (from, end),
        (Err(_), Ok(count)) if first.is_empty() => (end.saturating_sub(count), end),
        _ => return Asked::All,
    };
    let (from, to) = (from.max(start), to.min(end));
    if from < to { Asked::Range(from, to) } else { Asked::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        for (text, expected) in [
            ("bytes=0-9", Asked::Range(2, 10)),
            ("bytes=5-", Asked::Range(5, 20)),
            ("bytes=-3", Asked::Range(17, 20)),
            ("bytes=-100", Asked::Range(2, 20)),
            ("bytes=5-100", Asked::Range(5, 20)),
            ("bytes=20-", Asked::Nothing),
            ("bytes=0-1", Asked::Nothing),
            ("bytes=9-5", Asked::All),
            ("bytes=1-2,4-5", Asked::All),
            ("lines=1-2", Asked::All),
        ] {
            assert_eq!(range(text, (2, 20)), expected, "{text}");
        }
    }
}
