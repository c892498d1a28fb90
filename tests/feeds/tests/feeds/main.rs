//! Every event of a source arrives once and in order, whatever dies: dialogues in text files.
//! `docs/TESTING.md` has their words.

throng_testkit::dialogues! {
    "dialogues", throng_testkit::play;
    included: nodes;
    sources: kafka nats postgres redis upgrades;
}
