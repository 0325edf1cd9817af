//! The type behind an input is cloned for each user.

use crankcase_engine::{Manifold, Name};

struct Socket;

const SOCKET: Name<Socket> = Name::new("socket");

fn main() {
    let builder = Manifold::builder().inputs(SOCKET);
    drop(builder);
}
