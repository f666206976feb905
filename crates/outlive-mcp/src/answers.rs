//! Where answers go, and what is done once the client has one.

use rmcp::RoleServer;
use rmcp::service::RequestContext;

use crate::http::Deliveries;
use crate::reply::After;
use crate::stdio::Outgoing;

/// The way to the client.
#[derive(Clone)]
pub(crate) enum Answers {
    Stdio(Outgoing),
    Http(Deliveries),
}

impl Answers {
    /// Runs the actions once the client has the answer of this request; never if it does not get one.
    pub(crate) fn after(&self, context: &RequestContext<RoleServer>, after: Vec<After>) {
        match self {
            Self::Stdio(outgoing) => outgoing.after(&context.id, after),
            Self::Http(deliveries) => deliveries.after(context, after),
        }
    }

    /// Waits until the actions of all answers that the client may already have are done.
    pub(crate) fn finish_writes(&self) {
        match self {
            Self::Stdio(outgoing) => outgoing.finish_writes(),
            Self::Http(deliveries) => deliveries.finish(),
        }
    }

    /// Waits until no request can follow, and calls that only wait may stop.
    pub(crate) async fn ended(&self) {
        match self {
            Self::Stdio(outgoing) => outgoing.ended().await,
            // Each request ends with its own connection, and is cancelled by that.
            Self::Http(_) => std::future::pending().await,
        }
    }
}
