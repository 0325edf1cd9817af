//! When a process is ready, and why it is not.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::pin::pin;
use std::time::Duration;

use crankcase_engine::{Stop, Worker};
use crankcase_workers::{Process, ProcessConfig, ProcessError, Readiness};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, test_kill_process};
use tempfile::TempDir;
use tokio::process::Command;

use super::shell;
use crate::alone::example;
use crate::events::Events;
use crate::fifo::{Fifo, holding};
use crate::running::{Running, TestResult, guarded};

/// Returns a folder that nobody else may enter.
fn private_folder() -> std::io::Result<TempDir> {
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir()
}

/// Returns a loopback address that no other test uses: each runs in a process of its own.
fn own_address(port: u16) -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, high, middle, low], port))
}

/// Returns a process that runs a scene at an address.
fn server(scene: &str, address: SocketAddr) -> Result<ProcessConfig, Box<dyn std::error::Error>> {
    let words = [example()?.into_os_string(), scene.into(), address.to_string().into()];
    Ok(ProcessConfig::new("it", words.to_vec()))
}

/// Returns why a process did not become ready.
async fn refusal(config: ProcessConfig) -> Result<String, Box<dyn std::error::Error>> {
    let process = Process::spawn(config, None).await?;
    match guarded(process.ready()).await {
        Ok(_) => Err("it is ready".into()),
        Err(err) => Ok(err.to_string()),
    }
}

async fn end(process: Process) -> TestResult {
    Ok(guarded(Running::start(process).clean_kill()).await.map_err(|exit| exit.to_string())?)
}

#[tokio::test]
async fn without_readiness_a_process_is_ready_when_it_runs() -> TestResult {
    let process = Process::spawn(shell("sleep 1000"), None).await?;

    let process = guarded(process.ready()).await?;

    assert!(process.handle().status().is_ready);
    end(process).await
}

#[tokio::test]
async fn a_delay_is_waited_for() -> TestResult {
    let mut events = Events::catch();
    let mut config = shell("echo up; sleep 1000");
    config.readiness = Readiness::Delay(Duration::from_secs(3600));
    config.ready_timeout = Duration::from_secs(7200);
    let process = Process::spawn(config.clone(), None).await?;
    let handle = process.handle();
    {
        let mut ready = pin!(process.ready());
        tokio::select! {
            biased;
            _ = &mut ready => return Err("it is ready too early".into()),
            () = guarded(events.line("up")) => {}
        }
        assert!(!handle.status().is_ready);
    }

    config.readiness = Readiness::Delay(Duration::from_millis(1));
    let process = Process::spawn(config, None).await?;

    end(guarded(process.ready()).await?).await
}

#[tokio::test]
async fn a_line_of_either_stream_makes_it_ready_also_when_it_is_not_logged() -> TestResult {
    for redirection in ["", ">&2"] {
        let fifo = Fifo::new()?;
        let path = fifo.path();
        let script = format!(
            "echo it is not; read go <{}; echo now it is ready {redirection}; sleep 1000",
            path.display()
        );
        let config =
            shell(&script).lines_per_second(0).readiness(Readiness::Line("is ready".to_owned()));
        let process = Process::spawn(config, None).await?;
        let handle = process.handle();
        let go = tokio::task::spawn_blocking(move || fs::write(path, "go\n"));

        let process = guarded(process.ready()).await?;

        guarded(go).await??;
        assert!(handle.status().is_ready);
        end(process).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_process_without_its_line_is_not_ready() -> TestResult {
    let fifo = Fifo::new()?;
    let writers = fifo.writers();
    let mut config = shell(&holding(&fifo.path(), "echo up >&3; echo it is not; sleep 1000"));
    config.readiness = Readiness::Line("is ready".to_owned());
    config.ready_timeout = Duration::from_millis(200);

    let text = refusal(config).await?;

    let because = r#"it has written no line with "is ready""#;
    assert_eq!(text, format!(r#"process "it" was not ready within 200ms: {because}"#));
    writers.are_gone().await
}

#[tokio::test]
async fn a_port_that_accepts_makes_it_ready() -> TestResult {
    let address = own_address(20_080);
    let config = server("serve", address)?.readiness(Readiness::Port(address));
    let process = Process::spawn(config, None).await?;

    let process = guarded(process.ready()).await?;

    TcpStream::connect(address)?;
    end(process).await
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_with_its_holder_until_it_is_free() -> TestResult {
    let address = own_address(20_081);
    let other = TcpListener::bind(address)?;
    let config = server("serve", address)?.readiness(Readiness::Port(address));

    let refused = Process::spawn(config.clone(), None).await.err().ok_or("it was spawned")?;

    let (comm, pid) = (fs::read_to_string("/proc/self/comm")?, std::process::id());
    let holder = format!("{:?} (pid {pid})", comm.trim_end());
    let text = format!(r#"cannot run process "it": {address} is held by {holder}"#);
    assert_eq!(refused.to_string(), text);
    drop(other);
    let process = Process::spawn(config, None).await?;
    end(guarded(process.ready()).await?).await
}

#[tokio::test]
async fn a_port_that_refuses_is_said() -> TestResult {
    let address = own_address(20_082);
    let config = shell("sleep 1000")
        .readiness(Readiness::Port(address))
        .ready_timeout(Duration::from_millis(200));

    let text = refusal(config).await?;

    let because = format!("connect to {address}: Connection refused (os error 111)");
    assert_eq!(text, format!(r#"process "it" was not ready within 200ms: {because}"#));
    Ok(())
}

#[tokio::test]
async fn a_good_status_makes_it_ready_and_a_bad_one_does_not() -> TestResult {
    let (address, path) = (own_address(20_083), "/healthy?x=1".to_owned());
    let config = server("serve_http", address)?.readiness(Readiness::Http { address, path });
    let process = Process::spawn(config, None).await?;

    // The server ends when it is asked more often than it has answers.
    end(guarded(process.ready()).await?).await
}

#[tokio::test]
async fn a_file_makes_it_ready_once_it_is_written_anew() -> TestResult {
    let folder = TempDir::new()?;
    let path = folder.path().join("up");
    fs::write(&path, "of the process before\n")?;
    let config = |script: &str| shell(script).readiness(Readiness::File(path.clone()));
    let silent = config("exec sleep 1000").ready_timeout(Duration::from_millis(500));

    let text = refusal(silent).await?;
    let script = format!("echo up >{}; exec sleep 1000", path.display());
    let process = Process::spawn(config(&script), None).await?;
    let process = guarded(process.ready()).await?;

    let because = format!("it has not written {path:?} since it was started");
    assert_eq!(text, format!(r#"process "it" was not ready within 500ms: {because}"#));
    let status = process.handle().status();
    assert_eq!((status.is_ready, status.waits_for), (true, None));
    end(process).await
}

#[tokio::test]
async fn a_secret_in_what_makes_a_process_ready_is_hidden() -> TestResult {
    let readiness = Readiness::Line("hunter2hunter2 is up".to_owned());
    let config = shell("exec sleep 1000").readiness(readiness);
    config.secrets.add("hunter2hunter2");

    let text = refusal(config.ready_timeout(Duration::from_millis(1))).await?;

    let because = r#"it has written no line with "(sensitive) is up""#;
    assert_eq!(text, format!(r#"process "it" was not ready within 1ms: {because}"#));
    Ok(())
}

#[tokio::test]
async fn a_process_that_is_told_to_stop_before_it_is_ready_ends_in_good_order() -> TestResult {
    let mut events = Events::catch();
    let folder = TempDir::new()?;
    let bye = folder.path().join("bye");
    let script =
        format!("trap 'echo bye >{}; exit' TERM; echo up; sleep 1000 & wait", bye.display());
    let config = shell(&script).readiness(Readiness::Line("is ready".to_owned()));
    let process = Process::spawn(config, None).await?;
    guarded(events.line("up")).await;
    let (stopper, stop) = Stop::pair();

    stopper.stop();
    let process = guarded(process.ready_unless(&stop)).await?;
    let is_ready = process.handle().status().is_ready;
    guarded(process.run(stop)).await.map_err(|exit| exit.to_string())?;

    assert!(!is_ready);
    assert_eq!(fs::read_to_string(bye)?, "bye\n");
    Ok(())
}

#[tokio::test]
async fn a_process_can_say_itself_that_it_is_ready_and_go_on_talking() -> TestResult {
    let mut events = Events::catch();
    let folder = private_folder()?;
    // What a killed agent has left.
    drop(UnixDatagram::bind(folder.path().join("1-0.notify"))?);
    let words = [example()?.into_os_string(), "notify".into()];
    let config = ProcessConfig::new("it", words.to_vec())
        .readiness(Readiness::Notify { folder: folder.path().to_owned() });
    let process = Process::spawn(config, None).await?;
    assert_eq!(fs::read_dir(folder.path())?.count(), 1);

    let process = guarded(process.ready()).await?;

    let handle = process.handle();
    assert!(handle.status().says.is_some_and(|says| says != "warming up"));
    let worker = Running::start(process);
    guarded(events.line("all said")).await;
    guarded(worker.clean_kill()).await.map_err(|exit| exit.to_string())?;
    assert_eq!(fs::read_dir(folder.path())?.count(), 0);
    Ok(())
}

/// Each agent is the second process of a pid namespace of its own.
#[tokio::test]
async fn an_agent_with_the_pid_of_the_killed_one_makes_sockets_and_removes_its() -> TestResult {
    let namespaces = ["-Urpf", "sh", "-c", "\"$@\"; exit $?", "sh"];
    let probe = Command::new("unshare").args(namespaces).arg("true").output().await;
    if !probe.is_ok_and(|output| output.status.success()) {
        return Err("needs user and pid namespaces: unshare -Urpf".into());
    }
    let folder = private_folder()?;
    for _agent in 0..2 {
        let mut agent = Command::new("unshare");
        agent.args(namespaces).arg(example()?).arg("notified").arg(folder.path());

        let output = guarded(agent.kill_on_drop(true).output()).await?;

        let killed = 128 + Signal::KILL.as_raw();
        assert_eq!(output.status.code(), Some(killed), "{}", str::from_utf8(&output.stderr)?);
        assert_eq!(fs::read_dir(folder.path())?.count(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_process_that_says_nothing_is_not_ready() -> TestResult {
    let folder = TempDir::new()?;
    let config = shell("sleep 1000")
        .readiness(Readiness::Notify { folder: folder.path().join("made/when/needed") })
        .ready_timeout(Duration::from_millis(50));

    let text = refusal(config).await?;

    assert_eq!(text, r#"process "it" was not ready within 50ms: it has not sent READY=1"#);
    Ok(())
}

#[tokio::test]
async fn a_process_that_exits_before_it_is_ready_says_so_with_its_last_words() -> TestResult {
    let mut config = shell("echo no such luck >&2; exit 7");
    config.readiness = Readiness::Port(own_address(20_087));

    let text = refusal(config).await?;

    let status = "exit status: 7 before it was ready";
    assert_eq!(text, format!(r#"process "it" ended with {status}: no such luck"#));
    Ok(())
}

#[tokio::test]
async fn a_process_that_is_not_ready_is_gone_and_its_last_words_are_told() -> TestResult {
    let mut events = Events::catch();
    let mut config = shell("echo no such luck >&2; sleep 1000");
    config.readiness = Readiness::Line("is ready".to_owned());
    config.ready_timeout = Duration::from_millis(1);
    let process = Process::spawn(config, None).await?;
    let pid = Pid::from_raw(process.pid()).ok_or("no pid")?;
    guarded(events.line("no such luck")).await;

    let error = guarded(process.ready()).await.err().ok_or("it is ready")?;

    assert_eq!(test_kill_process(pid), Err(Errno::SRCH));
    let because = r#"it has written no line with "is ready"; its last words: no such luck"#;
    let text = format!(r#"process "it" was not ready within 1ms: {because}"#);
    assert_eq!(error.to_string(), text);
    Ok(())
}

#[tokio::test]
async fn waiting_that_is_given_up_leaves_no_process() -> TestResult {
    let fifo = Fifo::new()?;
    let mut writers = fifo.writers();
    let mut config = shell(&holding(&fifo.path(), "sleep 1000 & echo up >&3; wait"));
    config.readiness = Readiness::Delay(Duration::from_secs(3600));
    config.ready_timeout = Duration::from_secs(7200);
    let process = Process::spawn(config, None).await?;

    {
        let mut ready = pin!(process.ready());
        tokio::select! {
            biased;
            _ = &mut ready => return Err("it is ready too early".into()),
            come = writers.come() => come?,
        }
    }

    writers.are_gone().await
}

#[test]
fn readiness_that_cannot_be_used_is_named_with_its_value() -> TestResult {
    let cases = [
        (Readiness::Delay(Duration::MAX), "expected a delay of at most 24 h"),
        (
            Readiness::Delay(Duration::from_secs(60)),
            "readiness is Delay(60s); expected a delay below ready_timeout",
        ),
        (Readiness::Line(String::new()), "readiness is \"\"; expected a text that is not empty"),
        (Readiness::Line("a\nb".to_owned()), "readiness is \"a\\nb\"; expected a text"),
        (Readiness::Port(([127, 0, 0, 1], 0).into()), "readiness is 127.0.0.1:0; expected"),
        (
            Readiness::Http { address: ([127, 0, 0, 1], 80).into(), path: "x y".to_owned() },
            "readiness is \"x y\"; expected a path that begins with a slash, without blanks",
        ),
        (Readiness::File("up".into()), "readiness is up; expected an absolute path"),
        (
            Readiness::Notify { folder: "run".into() },
            "readiness is run; expected an absolute path of at most 71 bytes",
        ),
        (
            Readiness::Notify { folder: format!("/{}", "x".repeat(71)).into() },
            "expected an absolute path of at most 71 bytes",
        ),
    ];
    for (readiness, expected) in cases {
        let config = shell("exit 0").readiness(readiness);
        let error = config.validate().err().ok_or(expected)?;
        assert!(error.to_string().contains(expected), "{error}");
    }
    let config = shell("exit 0").ready_timeout(Duration::ZERO);
    let error = config.validate().err().ok_or("valid")?;
    assert_eq!(error.to_string(), "ready_timeout is 0ns; expected between 1 ms and 24 h");
    Ok(())
}

#[test]
fn what_the_environment_cannot_hold_is_named() -> TestResult {
    let mut own_socket = shell("exit 0").readiness(Readiness::Notify { folder: "/run/it".into() });
    own_socket.environment.insert("NOTIFY_SOCKET".into(), "/x".into());
    let mut inherit = shell("exit 0");
    inherit.inherit.push("A=B".into());
    let line = shell("exit 0").max_line(63);

    let texts =
        [own_socket, inherit, line].map(|config| config.validate().unwrap_err().to_string());

    assert_eq!(
        texts,
        [
            "environment is NOTIFY_SOCKET=/x; expected no socket of yours where readiness makes one",
            "inherit is A=B; expected a name that is not empty, without NUL and \"=\"",
            "max_line is 63; expected 64 to 1048576 bytes",
        ]
    );
    Ok(())
}

#[tokio::test]
async fn a_folder_that_others_may_enter_takes_no_socket() -> TestResult {
    let folder = TempDir::new()?;
    let open = folder.path().join("open");
    fs::create_dir(&open)?;
    fs::set_permissions(&open, fs::Permissions::from_mode(0o711))?;
    let link = folder.path().join("link");
    symlink(folder.path(), &link)?;

    for folder in [open, link] {
        let config = shell("exit 0").readiness(Readiness::Notify { folder: folder.clone() });
        let refused = Process::spawn(config, None).await.err().ok_or("it was spawned")?;
        assert!(matches!(refused, ProcessError::Notify { .. }), "{refused}");
        for entry in fs::read_dir(folder)? {
            assert_ne!(entry?.path().extension(), Some("notify".as_ref()));
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_folder_that_takes_no_socket_is_named() -> TestResult {
    let config = shell("exit 0").readiness(Readiness::Notify { folder: "/proc/none".into() });

    let refused = Process::spawn(config, None).await.err().ok_or("it was spawned")?;

    assert!(matches!(refused, ProcessError::Notify { .. }), "{refused}");
    Ok(())
}
