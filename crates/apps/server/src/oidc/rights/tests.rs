use serde_json::json;

use super::*;

fn section() -> Section {
    Section {
        role_claim: "https://example.com/roles".to_owned(),
        metrics: vec!["*".to_owned()],
        read: vec!["staff".to_owned()],
        admin: vec!["owners".to_owned(), "operators".to_owned()],
        ..Section::default()
    }
}

#[test]
fn a_claim_gives_roles_and_another_the_name() {
    let section = section();
    let claim = "https://example.com/roles";
    for (claims, name, roles) in [
        (json!({"sub": "1"}), "oidc:1", &[KeyRole::Metrics][..]),
        (
            json!({"sub": "1", "email": "ann@example.com", claim: "staff"}),
            "oidc:ann@example.com",
            &[KeyRole::Metrics, KeyRole::Read],
        ),
        (
            json!({"sub": "1", "email": 7, claim: ["operators", 3, "visitors"]}),
            "oidc:1",
            &[KeyRole::Metrics, KeyRole::Admin],
        ),
        (
            json!({"sub": "1", claim: ["operators", 3, "staff"]}),
            "oidc:1",
            &[KeyRole::Metrics, KeyRole::Read, KeyRole::Admin],
        ),
        (json!({"sub": ""}), "", &[]),
        (json!(null), "", &[]),
    ] {
        let found = rights(&section, &claims);
        let found = found.map(|rights| (rights.name.into_string(), rights.roles));
        let wanted = (name.to_owned(), roles.to_vec());
        assert_eq!(found.ok().unwrap_or_default(), wanted, "{claims}");
    }
    let long = "é".repeat(300);
    let found = rights(&section, &json!({"sub": long})).expect("a role");
    assert!(found.name.len() <= NAME_BYTES_MAX);
}

#[test]
fn a_claim_is_found_by_its_name_or_by_the_way_to_it() {
    let claims = json!({"a": {"b": ["x"]}, "a.b": "y", "c": {"d": "z"}});
    for (name, wanted) in [
        ("a.b", Some(json!("y"))),
        ("a", Some(json!({"b": ["x"]}))),
        ("c.d", Some(json!("z"))),
        ("c.e", None),
        ("c.d.e", None),
        ("", None),
    ] {
        assert_eq!(claim(&claims, name).cloned(), wanted, "{name}");
    }
}
