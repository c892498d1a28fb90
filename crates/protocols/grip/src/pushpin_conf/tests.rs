use super::*;

#[test]
fn options_of_the_shipped_file() {
    let conf = PushpinConf::parse(
        "[global]\ninclude={libdir}/internal.conf\nport_offset=0\n\n[runner]\nservices=condure,\
         pushpin-proxy\n\
         http_port=8000, 127.0.0.1:8001\n#https_ports=443\nclient_maxconn=1001000\n\
         [proxy]\nroutesfile=routes\ndebug=false\nset_x_forwarded_protocol=proto-only\n\
         x_forwarded_for=\"truncate:0,append\"\nsig_key=changeme\nupstream_key=\n\
         [handler]\npush_in_spec=tcp://127.0.0.1:5560\npush_in_sub_specs=tcp://127.0.0.1:5562\n\
         push_in_http_port=5561\nmessage_hwm=25000\nconnection_subscription_max=20\n",
    );
    assert_eq!(conf.http_ports, ["8000", "127.0.0.1:8001"]);
    assert_eq!(conf.connections_max, Some(1_001_000));
    assert_eq!((conf.port_offset, conf.publish_port), (Some(0), Some(5561)));
    assert_eq!(
        (conf.debug, conf.set_forwarded_proto),
        (Some(false), Some(true))
    );
    assert_eq!(
        conf.xff,
        Some(XffRule {
            truncate: Some(0),
            append: true
        })
    );
    assert_eq!(
        (conf.sig_key.as_deref(), conf.upstream_key),
        (Some("changeme"), None)
    );
    assert_eq!(conf.zmq_sub, ["tcp://127.0.0.1:5562"]);
    assert_eq!(conf.subscriptions_max, Some(20));
    let notes: Vec<_> = conf
        .notes
        .iter()
        .map(|note| (note.line, note.option.as_str(), note.is_fault))
        .collect();
    assert_eq!(
        notes,
        [
            (2, "global.include", false),
            (6, "runner.services", false),
            (21, "handler.message_hwm", false)
        ]
    );
}

#[test]
fn what_cannot_be_read_is_noted() {
    let conf = PushpinConf::parse(
        "[proxy]\ndebug=maybe\nx_forwarded_for=all\nnew_thing=1\nnonsense\n[handler]\n\
         push_in_http_port=70000\n[x]\ny=1\n",
    );
    let notes: Vec<_> = conf
        .notes
        .iter()
        .map(|note| (note.line, note.option.as_str(), note.is_fault))
        .collect();
    assert_eq!(
        notes,
        [
            (2, "proxy.debug", true),
            (3, "proxy.x_forwarded_for", true),
            (4, "proxy.new_thing", false),
            (5, "nonsense", true),
            (7, "handler.push_in_http_port", true),
            (9, "x.y", false),
        ]
    );
    let none = PushpinConf {
        notes: Vec::new(),
        debug: conf.debug,
        ..PushpinConf::parse("")
    };
    assert_eq!(none, PushpinConf::default());
}
