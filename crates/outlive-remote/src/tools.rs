//! The tools of the MCP server there, called as a client of the era without handshakes does: one request, one answer.

use serde_json::{Map, Value, json};

use crate::client::{Client, with_query};
use crate::error::RemoteError;

/// The version of the protocol.
const VERSION: &str = "2026-07-28";

/// For whom a tool is called.
#[derive(Debug, Clone)]
pub struct ToolCaller<'a> {
    /// What this machine's user calls that one: ids in the answer begin with it.
    pub host: &'a str,
    /// The session of its jobs.
    pub session: &'a str,
    /// What this reader has received is not repeated.
    pub reader: &'a str,
    /// The caller takes waits of some minutes.
    pub is_patient: bool,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAnswer {
    /// The text for the model.
    pub text: String,
    /// The tool failed.
    pub is_error: bool,
}

impl Client {
    /// Calls a tool there.
    ///
    /// # Errors
    ///
    /// If there is no answer. After [`RemoteError::Lost`] it is not known whether the tool did its work.
    pub fn call_tool(
        &self,
        caller: &ToolCaller<'_>,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<ToolAnswer, RemoteError> {
        let texts = [("host", caller.host), ("session", caller.session), ("reader", caller.reader)];
        let path = with_query("/mcp", &texts.map(|(name, value)| (name, value.to_owned())));
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": { "name": "outlive", "version": env!("CARGO_PKG_VERSION") },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        if caller.is_patient {
            meta["progressToken"] = 1.into();
        }
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let headers = [
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", VERSION),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", tool),
        ];
        let connection = self.connect()?;
        let name = connection.name().to_owned();
        let text = connection.ask("POST", &path, &headers, Some(&body))?.1.text()?;
        answer(&text).ok_or_else(|| RemoteError::Strange(name, outlive::one_line(&text)))
    }
}

/// Finds the answer among the messages of a body: one as JSON, or several as events.
fn answer(text: &str) -> Option<ToolAnswer> {
    let messages = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let mut parsed = messages.filter_map(|message| serde_json::from_str::<Value>(message).ok());
    let message = parsed.find(|message| message.get("result").is_some() || message.get("error").is_some())?;
    if let Some(error) = message.get("error") {
        let text = error["message"].as_str().unwrap_or_default().to_owned();
        return Some(ToolAnswer { text, is_error: true });
    }
    let result = &message["result"];
    let parts = result["content"].as_array()?.iter().filter_map(|part| part["text"].as_str());
    let is_error = result["isError"].as_bool().unwrap_or(false);
    Some(ToolAnswer { text: parts.collect::<Vec<_>>().join("\n"), is_error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_alone_or_after_progress() {
        let result =
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}],"isError":false}}"#;
        let expected = Some(ToolAnswer { text: "a".to_owned(), is_error: false });
        assert_eq!(answer(result), expected);
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;
        assert_eq!(
            answer(&format!("id: 0\nretry: 3000\n\ndata: {progress}\n\ndata: {result}\n\n")),
            expected
        );
        let refused = answer(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#);
        assert_eq!(refused, Some(ToolAnswer { text: "no".to_owned(), is_error: true }));
        assert_eq!(answer(""), None);
    }
}
