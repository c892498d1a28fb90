//! What the claims of a provider's token say: who somebody is, and what they may do.

use serde_json::Value;
use throng_auth::{KeyRights, KeyRole};
use throng_config::Oidc as Section;

/// Bytes of the name of who signed in, which logs show.
const NAME_BYTES_MAX: usize = 200;

/// The rights that the claims of a token give.
pub(super) fn rights(section: &Section, claims: &Value) -> Result<KeyRights, String> {
    let held = claim(claims, &section.role_claim).map_or_else(Vec::new, texts);
    let gives =
        |wanted: &[String]| { wanted.iter() }.any(|it| it == "*" || held.contains(&it.as_str()));
    let roles: Vec<KeyRole> = [
        (KeyRole::Metrics, &section.metrics),
        (KeyRole::Read, &section.read),
        (KeyRole::Publish, &section.publish),
        (KeyRole::Admin, &section.admin),
    ]
    .into_iter()
    .filter(|(_, wanted)| gives(wanted))
    .map(|(role, _)| role)
    .collect();
    let text = |name: &str| {
        let text = claim(claims, name).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    };
    let named = text(&section.user_claim).or_else(|| text("sub"));
    let named = named.ok_or("the provider does not say who it is")?;
    let name = format!("oidc:{named}");
    let name: Box<str> = name[..name.floor_char_boundary(NAME_BYTES_MAX)].into();
    if roles.is_empty() {
        let claim = &section.role_claim;
        return Err(format!("the claim {claim} of {name} gives no role"));
    }
    Ok(KeyRights {
        name,
        roles,
        prefixes: Vec::new(),
    })
}

/// A claim by its name, or by the names on the way to it, with dots between.
fn claim<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    let nested = || { name.split('.') }.try_fold(claims, |inside, name| inside.get(name));
    claims.get(name).or_else(nested)
}

/// The texts of a list, or a text alone.
pub(super) fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
