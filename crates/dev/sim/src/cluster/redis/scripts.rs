//! Scripts of a played Redis: their own text, in a real Lua.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mlua::{Error, Function, Lua, MultiValue, Table, Value};

use super::resp::Reply;

/// Carries out what a script calls.
pub(crate) type Calls = Rc<RefCell<dyn FnMut(Vec<Vec<u8>>) -> Reply>>;

/// Scripts by their digests.
pub(crate) struct Scripts {
    lua: Lua,
    known: BTreeMap<Vec<u8>, Function>,
}

impl Scripts {
    /// None yet; what they call is carried out by `calls`.
    pub(crate) fn new(calls: Calls) -> Self {
        let lua = Lua::new();
        let call = lua.create_function(move |lua, args: MultiValue| {
            let args = args.into_iter().map(argument).collect();
            let reply = (calls.borrow_mut())(args);
            to_lua(lua, &reply)
        });
        let redis = lua.create_table().expect("a table");
        redis
            .set("call", call.expect("a function"))
            .expect("a field");
        lua.globals().set("redis", redis).expect("a global");
        Self {
            lua,
            known: BTreeMap::new(),
        }
    }

    /// Takes a script; gives its digest.
    pub(crate) fn load(&mut self, text: &[u8]) -> Vec<u8> {
        let digest = format!("{:040}", self.known.len()).into_bytes();
        let script = self
            .lua
            .load(text)
            .into_function()
            .expect("a script of ours");
        self.known.insert(digest.clone(), script);
        digest
    }

    /// Runs a script; `None` if it is not known.
    pub(crate) fn run(&self, digest: &[u8], keys: &[Vec<u8>], args: &[Vec<u8>]) -> Option<Reply> {
        let script = self.known.get(digest)?;
        let list = |items: &[Vec<u8>]| {
            let items = items
                .iter()
                .map(|it| self.lua.create_string(it).expect("text"));
            self.lua.create_sequence_from(items).expect("a table")
        };
        let globals = self.lua.globals();
        globals.set("KEYS", list(keys)).expect("a global");
        globals.set("ARGV", list(args)).expect("a global");
        Some(match script.call::<Value>(()) {
            Ok(value) => from_lua(&value),
            Err(error) => Reply::Error(said(&error)),
        })
    }
}

/// An argument of `redis.call`: text, or a number as Lua writes it.
fn argument(value: Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Number(number) => format!("{number}").into_bytes(),
        other => panic!("no argument of a command: {other:?}"),
    }
}

fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        Reply::Int(number) => Value::Number(*number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Verbatim(text) => Value::String(lua.create_string(text)?),
        Reply::Simple(text) => {
            let table = lua.create_table()?;
            table.set("ok", *text)?;
            Value::Table(table)
        }
        Reply::Error(text) => return Err(Error::RuntimeError(text.clone())),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            let items = items.iter().map(|item| to_lua(lua, item));
            let items: mlua::Result<Vec<Value>> = items.collect();
            Value::Table(lua.create_sequence_from(items?)?)
        }
        Reply::Map(_) => panic!("scripts speak RESP2"),
    })
}

fn from_lua(value: &Value) -> Reply {
    match value {
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => from_table(table),
        _ => Reply::Nil,
    }
}

/// A list ends at its first nil.
fn from_table(table: &Table) -> Reply {
    let items = table.sequence_values::<Value>();
    Reply::Array(
        items
            .map(|item| from_lua(&item.expect("an item")))
            .collect(),
    )
}

/// The first line of an error, whose first word is its code.
fn said(error: &Error) -> String {
    let text = match error {
        Error::CallbackError { cause, .. } => return said(cause),
        Error::RuntimeError(text) => text.clone(),
        other => other.to_string(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}
