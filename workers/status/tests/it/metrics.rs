//! Metrics on the control socket, and on a port.

use std::net::SocketAddr;

use crankcase_engine::{Stop, Worker};
use crankcase_status::{ControlConfig, MetricFamily, MetricsError, MetricsServer, MoreMetrics};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::world::{Error, TestResult, World, guarded};

#[tokio::test]
async fn metrics_are_of_engines_of_workers_and_what_is_added() -> TestResult {
    let more: MoreMetrics = |report| {
        let mut family = MetricFamily::gauge("site_installed", "Whether the site is installed.");
        family.add(&[], f64::from(report.workers.contains_key("site")));
        vec![family]
    };
    let world = World::start_with(ControlConfig::default().metrics(more)).await?;

    let text = world.client().await?.metrics().await?;

    for line in [
        "# HELP crankcase_workers Workers of an engine, by their state.\n# TYPE crankcase_workers gauge\n",
        "\ncrankcase_engine_healthy{engine=\"/agent/site\"} 1\n",
        "\ncrankcase_workers{engine=\"/agent\",state=\"waiting\"} 1\n",
        "\ncrankcase_workers{engine=\"/agent/site\",state=\"running\"} 1\n",
        "\ncrankcase_workers_in_trouble{engine=\"/agent\"} 0\n",
        "\ncrankcase_worker_starts_total{worker=\"/agent/site\"} 1\n",
        "\ncrankcase_worker_failures_in_a_row{worker=\"/agent/waiter\"} 0\n",
        "\ncrankcase_start_time_seconds ",
        "\nsite_installed 1\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("/agent/site/page"), "{text}");
    world.clean_kill().await
}

/// Sends a request to a port, and returns all that comes until the other side closes.
async fn send(address: SocketAddr, request: &str) -> Result<String, Error> {
    let mut stream = guarded(TcpStream::connect(address)).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    guarded(stream.read_to_string(&mut answer)).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_port_with_metrics_is_on_loopback_and_has_nothing_else() -> TestResult {
    let world = World::start().await?;
    let beyond =
        MetricsServer::listen("0.0.0.0:0".parse()?, world.engine.clone(), |_| Vec::new()).await;
    let server =
        MetricsServer::listen("127.0.0.1:0".parse()?, world.engine.clone(), |_| Vec::new()).await?;
    let address = server.address();
    let (stopper, stop) = Stop::pair();
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(stop));

    assert!(matches!(beyond, Err(MetricsError::NotLoopback { .. })), "{beyond:?}");
    let own = format!("host: {address}");
    for (line, head, status) in [
        ("GET /metrics", &*own, "200"),
        ("GET /metrics", "host: evil", "400"),
        ("GET /metrics", "host: localhost\r\norigin: http://evil", "400"),
        ("POST /metrics", &*own, "405"),
        ("GET /v1/report", &*own, "404"),
        ("POST /v1/park", &*own, "404"),
    ] {
        let answer = send(address, &format!("{line} HTTP/1.1\r\n{head}\r\n\r\n")).await?;

        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line} {head}: {answer}");
        let is_text = answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n");
        let has_metrics = answer.contains("\ncrankcase_workers{engine=\"/agent\",");
        assert_eq!([is_text, has_metrics], [status == "200"; 2], "{answer}");
    }
    stopper.stop();
    guarded(tasks.join_next()).await.ok_or("it had ended")??.map_err(|exit| exit.to_string())?;
    world.clean_kill().await
}
