//! Every event of a source arrives once and in order, whatever dies: dialogues in text files.
//! `docs/TESTING.md` has their words.

throng_testkit::dialogues! {
    "dialogues", throng_testkit::play;
    included: kafka_steps nats_steps nodes;
    sources: kafka kafka_killed nats nats_others postgres redis upgrades;
}
