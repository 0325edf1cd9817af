//! A bad constant name does not compile.

use crankcase_engine::Name;

const WEB: Name<u16> = Name::new("web/server");

fn main() {
    drop(WEB);
}
