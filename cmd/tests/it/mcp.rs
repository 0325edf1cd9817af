//! An assistant's view, as a client of the protocol sees it.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::agent::Agent;
use crate::machine::{Machine, within};
use crate::world::{Error, TestResult};

/// A client and its server.
struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next: u64,
    /// What the person answers when asked; none if the client cannot ask.
    answer: Option<&'static str>,
    /// What the person was asked.
    asked: Vec<String>,
    /// What each request says of the client, in the versions of the protocol that have no beginning.
    meta: Option<Value>,
}

impl Client {
    async fn start(
        machine: &Machine,
        arguments: &[&str],
        answer: Option<&'static str>,
    ) -> Result<Self, Error> {
        let mut client = Self::spawn(machine, arguments, answer)?;
        let capabilities = if answer.is_some() { json!({"elicitation": {}}) } else { json!({}) };
        let hello = client
            .ask(
                "initialize",
                json!({"protocolVersion": "2025-06-18", "capabilities": capabilities,
                       "clientInfo": {"name": "test", "version": "1"}}),
            )
            .await?;
        assert_eq!(hello["result"]["serverInfo"]["name"], "crankcase");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        Ok(client)
    }

    fn spawn(
        machine: &Machine,
        arguments: &[&str],
        answer: Option<&'static str>,
    ) -> Result<Self, Error> {
        let mut program = machine.program(&[&["mcp"], arguments].concat());
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = program.spawn()?;
        let stdin = child.stdin.take().ok_or("no stdin")?;
        let lines = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
        Ok(Self { child, stdin, lines, next: 0, answer, asked: Vec::new(), meta: None })
    }

    /// Starts a client of the version that has no beginning: each request says all of the client.
    fn start_stateless(
        machine: &Machine,
        arguments: &[&str],
        capabilities: &Value,
    ) -> Result<Self, Error> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        Ok(Self { meta: Some(meta), ..Self::spawn(machine, arguments, None)? })
    }

    async fn send(&mut self, message: &Value) -> TestResult {
        Ok(self.stdin.write_all(format!("{message}\n").as_bytes()).await?)
    }

    /// Sends a request and returns its answer. The person answers what is asked meanwhile.
    async fn ask(&mut self, method: &str, mut params: Value) -> Result<Value, Error> {
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await?;
        loop {
            let line = within(self.lines.next_line()).await??.ok_or("the server has ended")?;
            let message: Value = serde_json::from_str(&line)?;
            if message["method"] == "elicitation/create" {
                let question = message["params"]["message"].as_str().ok_or("no question")?;
                self.asked.push(question.to_owned());
                let result = json!({"action": self.answer, "content": {}});
                let id = &message["id"];
                self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await?;
            } else if message["id"] == id {
                return Ok(message);
            }
        }
    }

    /// Calls a tool, and returns its answer and whether it is an error.
    async fn call(&mut self, tool: &str, arguments: Value) -> Result<(Value, bool), Error> {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await?;
        let result = &answer["result"];
        Ok((result["structuredContent"].clone(), result["isError"] == true))
    }

    async fn close(mut self) -> TestResult {
        drop(self.stdin);
        assert!(within(self.child.wait()).await??.success());
        Ok(())
    }
}

const BROKEN: &str = r#"resources:
  root: {type: file, config: {path: "@/root/", state: exists}}
  license: {type: file, config: {path: "/proc/nowhere/license", content: b}}
  banner: {type: file, dependencies: [license, root], config: {path: "@/root/banner", content: b}}
"#;

#[tokio::test]
async fn an_assistant_sees_the_trouble_and_its_cause() -> TestResult {
    let machine = Machine::new(BROKEN)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let mut client = Client::start(&machine, &[], None).await?;

    let tools = client.ask("tools/list", json!({})).await?;
    let tools = tools["result"]["tools"].as_array().ok_or("no tools")?;
    let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["trouble", "report", "why", "graph", "events", "changes", "boot", "plan"]);
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true), "{tools:?}");

    let (trouble, _) = client.call("trouble", json!({})).await?;
    let first = &trouble["data"]["in_trouble"];
    assert_eq!(first.as_array().map(Vec::len), Some(1), "{trouble}");
    assert_eq!(first[0]["path"], "/agent/resources/license");
    assert!(first[0]["why"].as_str().is_some_and(|why| why.contains("does not exist")));
    let states = &trouble["data"]["counts"]["engines"][0]["states"];
    assert_eq!((&states["running"], &states["waiting"]), (&json!(1), &json!(1)), "{trouble}");

    for (tool, arguments, found) in [
        ("why", json!({"path": "resources/banner"}), "waits for /agent/resources/license"),
        ("report", json!({"path": "resources/root"}), "\"generation\":1"),
        ("report", json!({}), "/agent/resources"),
        ("graph", json!({"path": "resources/banner"}), "live required"),
        ("events", json!({"since": 0, "most": 5}), "\"sequence\":4"),
        ("events", json!({}), "degraded"),
        ("changes", json!({}), "changed: create_folder"),
        ("changes", json!({"path": "resources/root"}), "\"event\":\"changed\""),
        ("boot", json!({}), "/agent/resources/root"),
        ("plan", json!({}), "\"as_declared\":1"),
    ] {
        let (answer, is_error) = client.call(tool, arguments.clone()).await?;
        assert!(!is_error && answer.to_string().contains(found), "{tool} {arguments}: {answer}");
    }
    let (plan, _) = client.call("plan", json!({})).await?;
    let left = &plan["data"]["not_as_declared"];
    assert_eq!(
        (&left[0]["path"], &plan["data"]["not_looked_at"]),
        (&json!("/agent/resources/license"), &json!(1))
    );
    assert!(left[0]["next_try"].is_string() && left[0]["why"].is_string(), "{plan}");
    assert_eq!(left[0]["last_event"]["event"], "failed", "{plan}");
    client.close().await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn what_cannot_be_done_is_an_error_with_the_word_of_its_code() -> TestResult {
    let machine = Machine::new(BROKEN)?;
    let mut client = Client::start(&machine, &[], None).await?;
    let (none, is_error) = client.call("trouble", json!({})).await?;
    assert!(is_error, "{none}");
    assert_eq!((&none["refused"], &none["code"]), (&json!("no agent is reachable"), &json!(69)));
    let agent = Agent::start(&machine).await?;

    for (tool, arguments, code) in [
        ("why", json!({"path": "resources/none"}), 1),
        ("why", json!({}), 64),
        ("why", json!({"path": 7}), 64),
        ("events", json!({"most": 201}), 64),
        ("events", json!({"since": -1}), 64),
        ("events", json!({"since": 1.5}), 64),
        ("trouble", json!({"path": "x"}), 64),
    ] {
        let (answer, is_error) = client.call(tool, arguments.clone()).await?;
        assert!(is_error && answer["code"] == code, "{tool} {arguments}: {answer}");
    }
    let unknown = client.ask("tools/call", json!({"name": "park", "arguments": {}})).await?;
    assert!(unknown["error"]["message"].as_str().is_some_and(|it| it.contains("no tool")));
    client.close().await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_change_is_made_only_if_the_person_agrees() -> TestResult {
    let machine = Machine::new(BROKEN)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let allow = ["--allow", "park,unpark"];
    let wish = json!({"path": "resources/root", "reason": "to see it"});

    for (answer, code) in [(None, 64), (Some("decline"), 75), (Some("cancel"), 75)] {
        let mut client = Client::start(&machine, &allow, answer).await?;
        let (refused, is_error) = client.call("park", wish.clone()).await?;
        assert!(is_error && refused["code"] == code, "{answer:?}: {refused}");
        client.close().await?;
        let why = machine.run(&["why", "resources/root"]).await?;
        assert!(why.stdout.contains("is running"), "{why:?}");
    }
    let mut client = Client::start(&machine, &allow, Some("accept")).await?;
    let (done, is_error) = client.call("park", wish).await?;

    assert!(!is_error && done["data"]["parked"] == "/agent/resources/root", "{done}");
    let question = &client.asked[0];
    for part in ["stop, and keep stopped, /agent/resources/root?", "\"to see it\"", "is running"] {
        assert!(question.contains(part), "{question}");
    }
    // An assistant cannot forge what the person reads.
    let forged = json!({"path": "resources/root", "reason": "x".repeat(5_000)});
    let (refused, _) = client.call("park", forged).await?;
    assert_eq!((&refused["code"], client.asked.len()), (&json!(64), 1));
    let other = client.ask("tools/call", json!({"name": "bounce", "arguments": {}})).await?;
    assert!(other["error"].is_object(), "only what is allowed is there: {other}");
    let engine = json!({"path": "resources", "reason": "x"});
    client.answer = Some("decline");
    client.call("park", engine).await?;
    assert!(client.asked[1].contains("That concerns the 3 workers in it"), "{:?}", client.asked);
    let why = machine.run(&["why", "resources/root"]).await?;
    assert!(why.stdout.contains("to see it"), "{why:?}");
    client.close().await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_client_that_asks_by_itself_sends_the_answer_with_the_same_call() -> TestResult {
    let machine = Machine::new(BROKEN)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let allow = ["--allow", "park"];
    let wish = json!({"path": "resources/root", "reason": "to see it"});
    let call = |arguments: &Value, handle: &Value, action: &str| {
        json!({"name": "park", "arguments": arguments, "requestState": handle,
            "inputResponses": {"agreed": {"action": action, "content": {}}}})
    };

    let mut mute = Client::start_stateless(&machine, &allow, &json!({}))?;
    let (refused, is_error) = mute.call("park", wish.clone()).await?;
    assert!(is_error && refused["code"] == 64, "{refused}");
    mute.close().await?;
    let mut client = Client::start_stateless(&machine, &allow, &json!({"elicitation": {}}))?;
    let (report, is_error) = client.call("report", json!({"path": "resources/root"})).await?;
    assert!(!is_error, "{report}");

    // A handle counts for one answer, and for what was asked about.
    let mut handles = Vec::new();
    for _ in 0..3 {
        let asked = client.ask("tools/call", json!({"name": "park", "arguments": wish})).await?;
        let asked = &asked["result"];
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let question = &asked["inputRequests"]["agreed"]["params"]["message"];
        assert!(question.as_str().is_some_and(|text| text.contains("is running")), "{asked}");
        handles.push(asked["requestState"].clone());
    }
    let other = json!({"path": "resources/license", "reason": "to see it"});
    for (arguments, handle, action) in [
        (&wish, &json!("0123456789abcdef"), "accept"),
        (&wish, &handles[0], "decline"),
        (&wish, &handles[0], "accept"),
        (&other, &handles[1], "accept"),
    ] {
        let answer = client.ask("tools/call", call(arguments, handle, action)).await?;
        let refused = &answer["result"]["structuredContent"];
        assert_eq!(refused["code"], 75, "{handle} {action}: {answer}");
    }
    let why = machine.run(&["why", "resources/root"]).await?;
    assert!(why.stdout.contains("is running"), "{why:?}");

    let done = client.ask("tools/call", call(&wish, &handles[2], "accept")).await?;
    let done = &done["result"]["structuredContent"];
    assert_eq!(done["data"]["parked"], "/agent/resources/root", "{done}");
    client.close().await?;
    agent.clean_kill(&machine).await
}
