//! A type that the tests share.

use std::error::Error;

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error>>;
