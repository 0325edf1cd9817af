//! The metrics of an agent: printed, and on a port.

use crate::agent::Agent;
use crate::door::send;
use crate::machine::Machine;
use crate::world::TestResult;

const SITE: &str =
    "resources:\n  page: {type: file, config: {path: \"@/page\", content: \"one\\n\"}}\n";

#[tokio::test]
async fn metrics_of_resources_are_printed_and_served_on_loopback() -> TestResult {
    let machine = Machine::new(SITE)?;
    let run = ["run", "site.yaml", "--metrics", "127.0.0.1:0"];
    let mut agent = Agent::start_with(&machine, &run).await?;
    agent.until_each_logged([&["metrics are served"][..], &["page: changed"][..]]).await?;
    machine.write("page", "two\n")?;
    agent.until_logged(&["page: repaired"]).await?;

    let printed = machine.run(&["metrics"]).await?;
    let seen = agent.seen();
    let host = seen.split_once("metrics are served; address: ").ok_or("no address")?.1;
    let host = host.lines().next().unwrap_or_default();
    let served = send(host, &format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\n\r\n")).await?;
    let as_data = machine.run(&["metrics", "--output", "json"]).await?;

    assert_eq!((printed.code, as_data.code), (Some(0), Some(64)), "{printed:?} {as_data:?}");
    for text in [printed.stdout, served] {
        for line in [
            "crankcase_resources{condition=\"as_declared\"} 1\n",
            "crankcase_resources{condition=\"degraded\"} 0\n",
            "crankcase_resource_as_declared{resource=\"page\",type=\"file\"} 1\n",
            "# TYPE crankcase_resource_changes_total counter\n",
            "crankcase_resource_changes_total{resource=\"page\",type=\"file\"} 2\n",
            "crankcase_resource_repairs_total{resource=\"page\",type=\"file\"} 1\n",
            "crankcase_resource_failures_total{resource=\"page\",type=\"file\"} 0\n",
            "crankcase_resource_last_change_time_seconds{resource=\"page\",type=\"file\"} 1",
            "crankcase_worker_starts_total{worker=\"/agent/metrics\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn metrics_beyond_this_machine_are_refused_with_a_reason() -> TestResult {
    let machine = Machine::new(SITE)?;

    let beyond = machine.run(&["run", "site.yaml", "--metrics", "0.0.0.0:9464"]).await?;

    assert_eq!(beyond.code, Some(64), "{beyond:?}");
    assert!(beyond.stderr.contains("0.0.0.0:9464 is beyond this machine"), "{beyond:?}");
    Ok(())
}
