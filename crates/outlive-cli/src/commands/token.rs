//! `outlive token`: make, list and revoke the tokens of programs that ask over TCP.

use std::collections::BTreeMap;
use std::process::ExitCode;

use outlive_http::{TokenError, TokenObject, Tokens};
use serde::Serialize;

use crate::args::Token;
use crate::commands::Context;
use crate::failure::{Failure, report};
use crate::local_time;
use crate::render::{note, print, print_json, table, width};

#[derive(Serialize)]
struct Created {
    name: String,
    token: String,
}

pub(crate) fn run(context: &Context, arguments: Token) -> Result<ExitCode, Failure> {
    let tokens = Tokens::of(&context.store).map_err(TokenError::from)?;
    match arguments {
        Token::Create { name, scope, life } => {
            let token = tokens.create(name.as_str(), scope, context.session.clone(), life)?;
            if context.is_json {
                return print_json(&Created { name: name.to_string(), token });
            }
            print(&format!("{token}\n"));
            note("outlive: it is shown only now; send it as `Authorization: Bearer …`");
            Ok(ExitCode::SUCCESS)
        }
        Token::List => list(context, &tokens),
        Token::Revoke { names } => revoke(context, &tokens, names),
    }
}

fn list(context: &Context, tokens: &Tokens) -> Result<ExitCode, Failure> {
    let is_seen =
        |token: &&outlive_http::Token| context.session.is_none() || token.session == context.session;
    let all = tokens.list().map_err(TokenError::from)?;
    let objects: Vec<TokenObject> = all.iter().filter(is_seen).map(outlive_http::Token::object).collect();
    if context.is_json {
        return print_json(&objects);
    }
    if objects.is_empty() {
        note("no tokens; outlive token create NAME --scope view makes one");
        return Ok(ExitCode::SUCCESS);
    }
    let header = ["NAME", "SCOPE", "SESSION", "MADE", "ENDS"].map(str::to_owned).to_vec();
    let row = |token: &TokenObject| {
        vec![
            token.name.clone(),
            token.scope.word().to_owned(),
            token.session.as_ref().map_or("all".to_owned(), ToString::to_string),
            local_time::of_object(&token.created_at),
            token.expires_at.as_deref().map_or("when revoked".to_owned(), local_time::of_object),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(objects.iter().map(row)).collect();
    print(&table(&rows, width(), |_, _, cell| cell.into()));
    Ok(ExitCode::SUCCESS)
}

fn revoke(context: &Context, tokens: &Tokens, names: Vec<String>) -> Result<ExitCode, Failure> {
    let (mut revoked, mut failed) = (Vec::new(), None);
    for name in names {
        match tokens.revoke(&name) {
            Ok(()) => revoked.push(name),
            Err(error) => {
                let status = report(&error.into(), context.is_json);
                failed.get_or_insert(status);
            }
        }
    }
    if context.is_json && !revoked.is_empty() {
        print_json(&BTreeMap::from([("revoked", &revoked)]))?;
    } else {
        revoked.iter().for_each(|name| print(&format!("{name} revoked\n")));
    }
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}
