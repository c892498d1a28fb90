//! Data from a file; other scenarios are in `fixtures/understood.txt`.

use super::*;
use crate::template::{HoleScope, Template, Values};

#[test]
fn data_from_a_file_fills_templates() {
    let text = "targets = 'ws://h:1/?token={data.token:url}'\ndata = 'users.csv'\nchannels = \
                '{data.room}'\n[connect]\nclients = 3\n";
    let files = |name: &str| match name {
        "users.csv" => Ok("room,token\na,1+1\nb,2\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let scenario = read_toml_with(text, &files).unwrap();
    let channels = crate::ChannelPlan::new(&scenario).unwrap();
    let subscribed = |n| channels.of_connection(n).collect::<Vec<_>>();
    assert_eq!((channels.len(), channels.subscribers(0)), (2, 2));
    assert_eq!(subscribed(0), subscribed(2));
    let path = Template::compile(
        &scenario.targets[0].path,
        HoleScope::Connection,
        scenario.data.as_ref(),
    );
    let values = Values {
        n: 2,
        ..Values::default()
    };
    let path = path
        .unwrap()
        .render_to_string(&values, &mut throng_types::Rng::new(1));
    assert_eq!(path, "/?token=1%2B1");

    // Its rows are for agents; results do not keep them.
    let json = serde_json::to_string(&scenario).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
    let redactor = crate::Redactor::new(&scenario, &[]);
    let kept = serde_json::to_string(&redactor.scenario(&scenario)).unwrap();
    assert!(
        kept.contains(r#""data":{"columns":["room","token"],"rows":[]}"#),
        "{kept}"
    );
}
