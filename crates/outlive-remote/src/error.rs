//! Why another outlive did not answer as it should.

use std::io;
use std::path::PathBuf;

use outlive::{Code, Failure};

/// Why a request to another outlive failed.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// There is no connection.
    #[error("{0} cannot be reached")]
    Unreachable(String, #[source] io::Error),
    /// The connection broke off, and what was asked for may have been done or not.
    #[error("the connection to {0} broke off")]
    Lost(String, #[source] io::Error),
    /// `ssh` ended without a connection; what it said.
    #[error("ssh {0}: {1}")]
    Ssh(String, String),
    /// outlive is not there, and was not copied there.
    #[error("{0}: {1}")]
    NotInstalled(String, String),
    /// A directory here cannot be read.
    #[error("cannot read {0}")]
    Directory(PathBuf, #[source] io::Error),
    /// A directory was not copied there; why, in the words of what was to copy it.
    #[error("{0} was not copied to {1}: {2}")]
    NotCopied(PathBuf, String, String),
    /// A directory can be copied to machines that are reached by SSH.
    #[error("{0} is not reached by SSH, and nothing can be copied there")]
    NotSsh(String),
    /// It answered with a failure of its own.
    #[error("{}", .0.text())]
    Refused(Box<Failure>),
    /// It answered with something that is not of this API.
    #[error("{0} does not speak as outlive does: {1}")]
    Strange(String, String),
}

impl RemoteError {
    /// Tells whether it is worth trying again: the network, or the other machine, may come back.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable(..) | Self::Lost(..) | Self::Ssh(..))
    }
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        let hint = match &error {
            RemoteError::Refused(failure) => return *failure.clone(),
            RemoteError::Unreachable(address, _)
                if address.starts_with("unix:") || address.starts_with("http:") =>
            {
                "a server must run there: outlive serve, or outlive serve --tcp"
            }
            RemoteError::Unreachable(..) | RemoteError::Ssh(..) => {
                "`ssh HOST true` must work without questions; jobs there go on meanwhile"
            }
            RemoteError::Lost(..) => {
                "jobs there go on; look what came of it with `list` or `show`, and try again"
            }
            RemoteError::NotInstalled(..) => {
                "install outlive there, or allow it to be copied: without `copy = false` in [hosts]"
            }
            RemoteError::Directory(..) => "give a directory that is there",
            RemoteError::NotCopied(..) => "`ssh HOST df -h .` shows whether there is room",
            RemoteError::NotSsh(_) => "give --cwd with a directory that is there",
            RemoteError::Strange(..) => "look whether it is outlive, and of which version: outlive version",
        };
        Self::new(Code::Unreachable, outlive::chain(&error)).hint(hint)
    }
}
