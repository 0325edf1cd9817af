//! `top` in a terminal of tmux.

use std::process::Stdio;
use std::time::Duration;

use crankcase_engine::{Engine, Manifold, Name};
use rustix::process::Signal;
use tokio::process::Command;
use tokio::time::{interval, timeout};

use crate::agent::Agent;
use crate::machine::{HANG, Machine, gone, signal};
use crate::world::{Error, Ran, TestResult, World, install_failing, ran};

/// How often a screen is looked at while it is waited for: tmux does not say when it has changed.
const LOOK: Duration = Duration::from_millis(50);

/// The prompt of the shell that is in the terminal.
const PROMPT: &str = "ready> ";

const SITE: &str = r#"resources:
  root: {type: file, config: {path: "@/root/", state: exists}}
  page: {type: file, dependencies: [root], config: {path: "@/root/page", content: a}}
  bad: {type: file, config: {path: "/proc/nowhere/bad", content: b}}
  after: {type: file, dependencies: [bad], config: {path: "@/after", content: b}}
  then: {type: file, dependencies: [after], config: {path: "@/then", content: b}}
"#;

/// A terminal with a shell. Dropping it ends both.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// Starts a shell in a terminal of this size; `None`, which is told, if there is no tmux.
    async fn start(machine: &Machine, (columns, rows): (u16, u16)) -> Result<Option<Self>, Error> {
        if ran(tmux(&["-V"])).await.is_err() {
            #[expect(clippy::print_stderr, reason = "whoever reads the log is told")]
            {
                eprintln!("left out: there is no tmux");
            }
            return Ok(None);
        }
        let terminal = Self { socket: machine.path("tmux").display().to_string() };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let size = ["-x", &columns, "-y", &rows];
        let folder = machine.path("").display().to_string();
        let shell = format!("cd {folder} && exec env PS1='{PROMPT}' USER=ada sh");
        let new = ["-f", "/dev/null", "-u", "new-session", "-d"];
        terminal.tmux(&[&new[..], &size, &[&shell]].concat()).await?;
        terminal.until_has(&[PROMPT.trim_end()]).await?;
        Ok(Some(terminal))
    }

    async fn tmux(&self, arguments: &[&str]) -> Result<Ran, Error> {
        let ran = ran(tmux(&[&["-S", &self.socket], arguments].concat())).await?;
        if ran.code == Some(0) { Ok(ran) } else { Err(format!("{arguments:?}: {ran:?}").into()) }
    }

    /// Types a line into the shell.
    async fn line(&self, line: &str) -> TestResult {
        self.text(line).await?;
        self.key("Enter").await
    }

    async fn text(&self, text: &str) -> TestResult {
        self.tmux(&["send-keys", "-l", text]).await.map(drop)
    }

    async fn key(&self, key: &str) -> TestResult {
        self.tmux(&["send-keys", key]).await.map(drop)
    }

    async fn screen(&self) -> Result<String, Error> {
        Ok(self.tmux(&["capture-pane", "-p"]).await?.stdout)
    }

    /// Waits until the screen is as it should be, and returns it.
    async fn until(&self, is_right: impl Fn(&str) -> bool) -> Result<String, Error> {
        let mut last = String::new();
        let wait = async {
            let mut looks = interval(LOOK);
            loop {
                looks.tick().await;
                last = self.screen().await?;
                if is_right(&last) {
                    return Ok::<_, Error>(());
                }
            }
        };
        match timeout(HANG, wait).await {
            Ok(waited) => waited.map(|()| last),
            Err(_) => Err(format!("the screen stays\n{last}").into()),
        }
    }

    async fn until_has(&self, parts: &[&str]) -> Result<String, Error> {
        self.until(|screen| parts.iter().all(|part| screen.contains(part))).await
    }

    /// Starts `top` in the shell, with these options.
    async fn top(&self, options: &str) -> TestResult {
        let program = env!("CARGO_BIN_EXE_crankcase");
        // The pid stays the same when the shell becomes the program.
        let top = format!("sh -c 'echo $$ >pid; exec {program} top {options}'");
        self.line(&format!("clear; echo before; stty -g >modes; {top}; echo ended with $?")).await
    }

    /// Waits until `top` has ended with this code, and requires that the terminal is as it was.
    async fn until_ended(&self, code: u8) -> TestResult {
        let is_there = |screen: &str| {
            screen.contains("\nended with ") && screen.trim_end().ends_with(PROMPT.trim_end())
        };
        let screen = self.until(is_there).await?;
        // What stood there before is there again, and nothing of what was drawn.
        let expected = format!("before\nended with {code}\n{}", PROMPT.trim_end());
        assert_eq!(screen.trim_end(), expected);
        self.line("stty -g | cmp - modes && echo the same modes").await?;
        self.until_has(&["\nthe same modes\n"]).await.map(drop)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The server ends with its only session, and with it the shell and what runs in it.
        let mut command = std::process::Command::new("tmux");
        drop(command.args(["-S", &self.socket, "kill-server"]).stderr(Stdio::null()).status());
    }
}

fn tmux(arguments: &[&str]) -> Command {
    let mut command = Command::new("tmux");
    command.args(arguments).env_remove("TMUX").env("LANG", "C.UTF-8").stdin(Stdio::null());
    command
}

/// Returns a screen without what may be another one each time: events, failures and ages.
fn masked(screen: &str) -> String {
    let row = |row: &str| {
        let is_event = row.get(2..3) == Some(":") && row.get(5..6) == Some(":");
        if is_event {
            return "an event\n".to_owned();
        }
        let is_worker = ["✓", "✗", "…", "‖"].iter().any(|sign| row.starts_with(sign));
        let mask = |(column, character)| match column {
            49..61 if is_worker => '#',
            _ => character,
        };
        let row: String = row.trim_end().chars().enumerate().map(mask).collect();
        match row.split_once("next try in ") {
            Some((begin, _)) => format!("{begin}next try in #\n"),
            None => row + "\n",
        }
    };
    screen.lines().map(row).collect()
}

/// Returns whether a screen has the report, the reason and the events, which come at different times.
/// The first such screen is compared: a later one would hide that an earlier one was wrong.
fn is_whole(screen: &str) -> bool {
    let screen = masked(screen);
    screen.contains("next try in #\n") && screen.matches("an event\n").count() == 4
}

#[tokio::test]
async fn the_first_screen_has_the_root_cause_and_a_worker_is_parked_from_its_own() -> TestResult {
    let expected = "\
15 workers  ✗ 1 in trouble  … 2 on their way  ‖ 0 off  ✓ 12 well
  worker, trouble first         state        gen fails since cause
✗ resources/bad                 degraded       1 ############folder \"/proc/nowh…
… resources/after               waiting        0 ############for bad
… resources/then                waiting        0 ############for after
✓ facts                         running        1 ###########
✓ hand_over                     running        1 ###########
✓ host_matches                  running        1 ###########
✓ resources                     running        1 ###########
✓ resources/page                running        1 ###########
✓ resources/root                running        1 ###########
✓ rules                         running        1 ###########
✓ settled                       done           1 ###########
✓ signals                       running        1 ###########
── why resources/bad ───────────────────────────────────────── ↓ 3 more workers
resources/bad is not up yet: folder \"/proc/nowhere\" does not exist; a resource
that this one depends on must make it; next try in #

── events ──────────────────────────────────────────────────────────────────────
an event
an event
an event
an event
q quit t tree / filter Enter report g graph b bounce p park u unpark P pause
";
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let Some(terminal) = Terminal::start(&machine, (80, 24)).await? else { return Ok(()) };

    // However much is logged, nothing of it is written into what is drawn.
    terminal.top("-vv --state-dir state").await?;
    let first = terminal.until(is_whole).await?;
    assert_eq!(masked(&first), expected);
    terminal.key("Down").await?;
    terminal.until_has(&["\nafter waits for resources/bad\n"]).await?;
    terminal.key("Enter").await?;
    terminal.until_has(&["/agent/resources/after waiting\n", "\n  input bad ("]).await?;
    terminal.text("p").await?;
    terminal.until_has(&["── park resources/after ──", "bounces no other worker"]).await?;
    terminal.text("out of order").await?;
    terminal.key("Enter").await?;
    terminal.until_has(&["reason: out of order\n", "y does it"]).await?;
    terminal.text("y").await?;
    terminal
        .until_has(&["/agent/resources/after parked (ada ", "\nparked resources/after\n"])
        .await?;
    let report = machine.run(&["report", "resources/after"]).await?;
    terminal.text("g").await?;
    terminal.until_has(&["[‖ after (parked)]◄", "[… then (waiting)]"]).await?;
    terminal.key("Escape").await?;
    terminal
        .until_has(&["  ‖ 1 off  ", "‖ resources/after               parked ", ": out of o"])
        .await?;
    terminal.text("q").await?;

    assert!(report.stdout.contains("/after parked (ada (uid "), "{report:?}");
    assert!(report.stdout.contains("): out of order)"), "{report:?}");
    terminal.until_ended(0).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_worker_is_paused_and_resumed_by_keys() -> TestResult {
    let machine = Machine::new("resources:\n  page: {type: noop}\n")?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let Some(terminal) = Terminal::start(&machine, (80, 24)).await? else { return Ok(()) };

    terminal.top("--state-dir state").await?;
    terminal.until_has(&["✓ resources/page "]).await?;
    terminal.text("/page").await?;
    terminal.key("Enter").await?;
    terminal.until_has(&["── why resources/page ──"]).await?;
    for (key, verb, done, row) in [
        ("P", "pause", "paused", "‖ resources/page                paused "),
        ("r", "resume", "resumed", "✓ resources/page                running "),
    ] {
        terminal.text(key).await?;
        let title = format!("── {verb} resources/page ──");
        terminal.until_has(&[&title, "stops no worker: it "]).await?;
        terminal.text("a look").await?;
        terminal.key("Enter").await?;
        terminal.until_has(&["reason: a look\n", "y does it"]).await?;
        terminal.text("y").await?;
        terminal.until_has(&[&format!("\n{done} resources/page\n"), row]).await?;
    }
    terminal.text("q").await?;

    terminal.until_ended(0).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_lost_agent_is_told_and_the_next_one_followed_until_a_signal() -> TestResult {
    let machine = Machine::new(SITE)?;
    let Some(terminal) = Terminal::start(&machine, (60, 16)).await? else { return Ok(()) };

    terminal.top("--state-dir state").await?;
    terminal.until_has(&["no agent is reachable", "\nended with 69\n"]).await?;
    let agent = Agent::start(&machine).await?;
    terminal.top("--state-dir state").await?;
    terminal.until_has(&["✗ resources/bad", "✗ 1 "]).await?;
    agent.dirty_kill().await?;
    let lost = terminal.until_has(&["NO AGENT: all below is "]).await?;
    let agent = Agent::start(&machine).await?;
    let found = terminal.until_has(&["15 workers  ✗ 1 ", "the agent was restarted"]).await?;
    let pid = machine.read("pid").ok_or("no pid")?;
    signal(pid.trim(), Signal::TERM)?;

    assert!(lost.contains("✗ resources/bad"), "{lost}");
    assert!(found.contains("✗ resources/bad"), "{found}");
    gone(pid.trim()).await?;
    terminal.until_ended(130).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn ten_thousand_workers_in_one_engine_are_looked_through() -> TestResult {
    let machine = Machine::new("")?;
    let Some(terminal) = Terminal::start(&machine, (80, 24)).await? else { return Ok(()) };
    let engine = Engine::builder().name(Name::new("agent")).seed(0).build()?;
    for number in 0..10_000 {
        let manifold = Manifold::builder().run(|(), up| async move {
            up.ready(()).wait().await;
            Ok(())
        });
        engine.install(Name::<()>::parse(&format!("w{number:04}"))?, manifold).await?;
    }
    install_failing(&engine).await?;
    let world = World::start_with(engine)?;

    terminal.top(&format!("--read-only --state-dir {}", world.folder.path().display())).await?;
    let first =
        terminal.until_has(&["10001 workers  ✗ 1 ", "failing failed once: no luck"]).await?;
    terminal.key("End").await?;
    terminal.until_has(&["✓ w9999 ", "── why w9999 ──", "\nw9999 is running\n"]).await?;
    terminal.text("/7777").await?;
    terminal.key("Enter").await?;
    let found = terminal.until_has(&["filter: 7777", "✓ w7777 ", "w7777 is running"]).await?;
    terminal.text("q").await?;

    assert!(first.contains("\n✗ failing "), "{first}");
    assert!(!first.contains("park"), "{first}");
    assert!(!found.contains("w7778"), "{found}");
    terminal.until_ended(0).await?;
    world.clean_kill().await
}

#[tokio::test]
async fn without_a_terminal_it_is_refused_and_names_the_report() -> TestResult {
    let machine = Machine::new("")?;

    let ran = machine.run(&["top"]).await?;

    assert_eq!((ran.code, &*ran.stdout), (Some(64), ""), "{ran:?}");
    let expected = "crankcase: top draws on a terminal, and standard input is none; \
                    \"crankcase report\" prints the same once\n";
    assert_eq!(ran.stderr, expected);
    Ok(())
}
