//! Requests that are not about the engine.

use std::sync::Arc;

use async_trait::async_trait;
use crankcase_status::{ControlConfig, Extension};
use rustix::process::{geteuid, getpid};
use serde_json::{Value, json};

use crate::world::{TestResult, World};

/// Answers with the request, and with the user that it came from.
#[derive(Debug)]
struct Mirror;

#[async_trait]
impl Extension for Mirror {
    fn target(&self) -> &'static str {
        "/v1/mirror"
    }

    fn max_body(&self) -> usize {
        100
    }

    async fn answer(&self, request: Value, user: u32) -> Result<Value, String> {
        Ok(json!({"request": request, "user": user}))
    }
}

/// As a mirror, which tells the process too.
#[derive(Debug)]
struct Whole;

#[async_trait]
impl Extension for Whole {
    fn target(&self) -> &'static str {
        "/v1/whole"
    }

    fn max_body(&self) -> usize {
        100
    }

    async fn answer(&self, _request: Value, _user: u32) -> Result<Value, String> {
        Err("the process is not known".to_owned())
    }

    async fn answer_process(
        &self,
        request: Value,
        user: u32,
        pid: Option<i32>,
    ) -> Result<Value, String> {
        Ok(json!({"request": request, "user": user, "pid": pid}))
    }
}

#[tokio::test]
async fn an_extension_hears_of_the_user_and_of_the_process_that_asks() -> TestResult {
    let extensions: Vec<Arc<dyn Extension>> = vec![Arc::new(Mirror), Arc::new(Whole)];
    let world = World::start_with(ControlConfig::default().extensions(extensions)).await?;
    let client = world.client().await?;

    let mirrored: Value = client.extension("/v1/mirror", &json!({"a": 1})).await?;
    let whole: Value = client.extension("/v1/whole", &json!({"a": 1})).await?;

    let (user, pid) = (geteuid().as_raw(), getpid().as_raw_pid());
    assert_eq!(mirrored, json!({"request": {"a": 1}, "user": user}));
    assert_eq!(whole, json!({"request": {"a": 1}, "user": user, "pid": pid}));
    world.clean_kill().await
}
