use anyhow::bail;

use crate::exit::ExitError;
use crate::global::Global;
use crate::{exit, print};

/// The error when another format is asked for.
const ONE_FORMAT: &str = "metrics have a format of their own; leave out --output";

pub(crate) async fn run(global: &Global) -> anyhow::Result<u8> {
    if global.output.is_data() {
        bail!(ExitError::new(exit::USAGE, ONE_FORMAT));
    }
    print::text(global.connect().await?.metrics().await?)?;
    Ok(exit::DONE)
}
