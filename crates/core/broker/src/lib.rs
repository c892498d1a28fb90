//! A channel's home: history, positions and interest; the contract and the memory broker.
