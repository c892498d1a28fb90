//! Connections on their way, and the words that come by them.

use throng_peer::task::{Link, Net};

/// Why a connection cannot be used any more.
#[derive(Debug)]
pub struct Fault(pub String);

/// A connection on its way, as a task of the peer.
pub trait Dial: 'static {
    /// Facts about a connection that stands.
    type Hello;
    /// The reader of what the broker says.
    type Words: Words;

    /// Finds the server, connects and introduces this node. The peer reads the link from then on.
    fn connect(
        &mut self,
        net: &Net,
    ) -> impl Future<Output = Result<(Self::Hello, Link, Self::Words), String>>;

    /// Waits until the connection is to be given up although it works, and says why. Called behind
    /// [`Self::connect`].
    fn watch(&mut self, _: &Net) -> impl Future<Output = String> {
        std::future::pending()
    }
}

/// Bytes in, words out. Bounds the bytes of a word that is not whole.
pub trait Words: 'static {
    /// One message or answer of the broker.
    type Word;

    /// Takes bytes as they came.
    fn feed(&mut self, bytes: &[u8]);

    /// Takes the next word; `None` until it is whole.
    ///
    /// # Errors
    /// In words, if the bytes are none of the protocol, or too many.
    fn next(&mut self) -> Result<Option<Self::Word>, String>;
}

/// Words of a broker.
pub type WordOf<D> = <<D as Dial>::Words as Words>::Word;
