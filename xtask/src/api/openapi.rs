//! The calls as OpenAPI 3.1.

use anyhow::Result;
use serde_json::{Map, Value, json};
use throng_centrifuge::api::{Field, Kind};

use super::{Call, calls};

/// The document that the API port serves.
pub(crate) fn document() -> Result<String> {
    let calls = calls()?;
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let (mut commands, mut replies) = (Map::new(), Map::new());
    for call in &calls {
        let (name, title) = (call.method.name(), title(call));
        let (request, result) = (format!("{title}Request"), format!("{title}Result"));
        paths.insert(
            format!("/api/{name}"),
            json!({"post": operation(call, &title)}),
        );
        let needs = &call.words.needs;
        let mut fields = object(call.fields);
        if !needs.is_empty() {
            fields["required"] = json!(needs);
        }
        commands.insert(name.to_owned(), reference(&request));
        replies.insert(name.to_owned(), reference(&result));
        schemas.insert(request, fields);
        let meaning = |path: &str| call.words.answer.get(path).cloned();
        schemas.insert(result.clone(), call.answer.schema("", &meaning));
        schemas.insert(
            format!("{title}Response"),
            json!({
                "type": "object",
                "description": "Either a result or an error.",
                "properties": {"result": reference(&result), "error": reference("Error")},
            }),
        );
    }
    replies.insert("error".to_owned(), reference("Error"));
    schemas.extend(batch(commands, replies));
    paths.extend(other_paths());
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Throng's server API",
            "description": "Calls of back ends. The page api.md of the documentation says more.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {"authorization": []}, {"query": []}, {}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": key("header", "X-API-Key", "KEY"),
                "authorization": key("header", "Authorization", "apikey KEY"),
                "query": key("query", "api_key", "KEY"),
            },
            "responses": responses(),
            "schemas": schemas,
        },
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// A place of a request for keys, and how they stand there.
fn key(place: &str, name: &str, form: &str) -> Value {
    let keys = "KEY is one of `auth.api_keys`, or a named key with the role of the call";
    json!({
        "type": "apiKey",
        "in": place,
        "name": name,
        "description": format!("`{form}`: {keys}."),
    })
}

/// The method's name as a type is called: `HistoryRemove`.
fn title(call: &Call) -> String {
    format!("{:?}", call.method)
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn operation(call: &Call, title: &str) -> Value {
    let example: Value = serde_json::from_str(&call.words.send).unwrap_or_default();
    let body = json!({"application/json": {
        "schema": reference(&format!("{title}Request")),
        "example": example,
    }});
    json!({
        "operationId": call.method.name(),
        "summary": call.words.about,
        "description": format!("A key needs the role `{}`.", call.words.role),
        "requestBody": {"required": true, "content": body},
        "responses": answered(&format!("{title}Response")),
    })
}

/// Responses of a call whose answer has a schema.
fn answered(schema: &str) -> Value {
    let content = json!({"application/json": {"schema": reference(schema)}});
    let mut all = refusals();
    all["200"] = json!({"description": "The result, or an error of the call.", "content": content});
    all["400"] = json!({"$ref": "#/components/responses/Malformed"});
    all
}

fn refusals() -> Value {
    let text = |name: &str| json!({"$ref": format!("#/components/responses/{name}")});
    json!({
        "401": text("NoKey"),
        "403": text("Forbidden"),
        "413": text("TooLong"),
        "421": text("OtherHost"),
        "503": text("Unavailable"),
    })
}

fn responses() -> Value {
    let text = |why: &str| {
        let content = json!({"text/plain": {"schema": {"type": "string"}}});
        json!({"description": why, "content": content})
    };
    let malformed = json!({"application/json": {"schema": reference("ErrorResponse")}});
    json!({
        "Malformed": {"description": "The body does not fit.", "content": malformed},
        "NoKey": text("No key, or a wrong one."),
        "Forbidden": text("The key is not for this call, or not for this channel."),
        "TooLong": text("The body is longer than `limits.publish_bytes_max`."),
        "OtherHost": text("Without keys: the `Host` is not the server's (`auth.allowed_hosts`)."),
        "Unavailable": text("Try again in a moment."),
    })
}

/// JSON Schema of an object with these fields and no others.
fn object(fields: &[Field]) -> Value {
    let known = fields
        .iter()
        .filter(|field| !matches!(field.kind, Kind::Ignored));
    let properties: Map<_, _> = known
        .map(|field| (field.name.to_owned(), value(field)))
        .collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn value(field: &Field) -> Value {
    let text = || json!({"type": "string"});
    let mut schema = match field.kind {
        Kind::Flag => json!({"type": "boolean", "default": false}),
        Kind::Number(min, max) => {
            json!({"type": "integer", "minimum": min, "maximum": max, "default": 0})
        }
        Kind::Text => json!({"type": "string", "default": ""}),
        Kind::Texts => json!({"type": "array", "items": text()}),
        Kind::Tags => json!({"type": "object", "additionalProperties": text()}),
        Kind::Object(fields) => object(fields),
        Kind::Json | Kind::Ignored => json!({}),
    };
    schema["description"] = field.doc.trim().into();
    schema
}

fn batch(commands: Map<String, Value>, replies: Map<String, Value>) -> Map<String, Value> {
    let command = "One call, by its name.";
    let command = json!({
        "type": "object",
        "description": command,
        "properties": commands,
        "maxProperties": 1,
        "additionalProperties": false,
    });
    let reply = "The result under the name of its call, or an error.";
    let reply = json!({"type": "object", "description": reply, "properties": replies});
    let list = |schema| json!({"type": "array", "items": reference(schema)});
    let error = json!({
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "integer", "description": "What programs go by."},
            "message": {"type": "string", "description": "What is wrong, for people."},
        },
    });
    let position = json!({
        "type": "object",
        "description": "Empty in a channel without history.",
        "properties": {
            "offset": {"type": "integer", "minimum": 0},
            "epoch": {"type": "string"},
            "error": {"type": "string", "description": "Why this channel was refused."},
        },
    });
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let all = json!({
        "Command": command,
        "Reply": reply,
        "BatchRequest": {
            "type": "object",
            "properties": {"commands": list("Command"), "parallel": {"type": "boolean"}},
            "additionalProperties": false,
        },
        "BatchResponse": {
            "type": "object",
            "required": ["replies"],
            "properties": {"replies": list("Reply")},
        },
        "Error": error,
        "ErrorResponse": {
            "type": "object",
            "required": ["error"],
            "properties": {"error": reference("Error")},
        },
        "Position": position,
        "Reloaded": {
            "type": "object",
            "required": ["changed", "needs_restart", "warnings"],
            "properties": {"changed": texts, "needs_restart": texts, "warnings": texts},
        },
        "NotReloaded": {
            "type": "object",
            "required": ["problems"],
            "properties": {"problems": texts},
        },
    });
    all.as_object().cloned().unwrap_or_default()
}

/// Calls that are not Centrifugo's, and the batch.
fn other_paths() -> Map<String, Value> {
    let text = json!({"schema": {"type": "string"}});
    let positions = json!({"type": "array", "items": reference("Position")});
    // A text for one channel, the list for several.
    let refused = |why: &str| {
        let content = json!({"text/plain": text, "application/json": {"schema": positions}});
        json!({"description": why, "content": content})
    };
    let mut published = refusals();
    published["200"] = json!({
        "description": "The position, or a list of them for several channels.",
        "content": {"application/json": {"schema": {"oneOf": [reference("Position"), positions]}}},
    });
    published["400"] = json!({
        "description": "No channel, or a name that is none.",
        "content": {"text/plain": text},
    });
    published["404"] = refused("The namespace of a channel is not configured.");
    published["503"] = refused("Try again in a moment, or as the text says.");
    let json_of = |why: &str, schema: &str| {
        let content = json!({"application/json": {"schema": reference(schema)}});
        json!({"description": why, "content": content})
    };
    let mut reloaded = refusals();
    reloaded["200"] = json_of("What has changed.", "Reloaded");
    reloaded["422"] = json_of(
        "The new configuration is refused; nothing has changed.",
        "NotReloaded",
    );
    reloaded["503"] = json_of("The configuration cannot be read now.", "NotReloaded");
    let paths = json!({
        "/api/batch": {"post": {
            "operationId": "batch",
            "summary": "Carries out many calls, and answers them in their order.",
            "requestBody": {"required": true, "content": {"application/json": {
                "schema": reference("BatchRequest"),
                "example": {"commands": [{"info": {}}]},
            }}},
            "responses": answered("BatchResponse"),
        }},
        "/pub": {"post": {
            "operationId": "pub",
            "summary": "Publishes the body as it is.",
            "description": "A key needs the role `publish`.",
            "parameters": [{
                "name": "channel",
                "in": "query",
                "required": true,
                "description": "The channels to publish to.",
                "schema": {"type": "array", "items": {"type": "string"}},
            }],
            "requestBody": {"required": true, "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            }},
            "responses": published,
        }},
        "/api/reload": {"post": {
            "operationId": "reload",
            "summary": "Reads the configuration again.",
            "description": "A key needs the role `admin`.",
            "responses": reloaded,
        }},
        "/healthz": {"get": {
            "operationId": "health",
            "summary": "Says whether the server is well.",
            "security": [],
            "responses": {
                "200": {
                    "description": "`ok`, or what is degraded.",
                    "content": {"text/plain": {"schema": {"type": "string"}}},
                },
                "503": {"$ref": "#/components/responses/Unavailable"},
            },
        }},
    });
    paths.as_object().cloned().unwrap_or_default()
}
