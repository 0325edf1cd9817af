//! What a command inherits, and as whom and within which bounds it runs.

use std::time::Duration;

use crankcase_workers::{
    HealthCheck, HealthProbe, Ledger, Limit, Process, ProcessConfig, ProcessGroup,
};
use rustix::process::Pid;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use super::running::{Running, TestResult};

type Said = Result<String, Box<dyn std::error::Error>>;

fn shell(script: &str) -> ProcessConfig {
    ProcessConfig::new("it", vec!["sh".into(), "-c".into(), script.into()])
}

/// Runs a command to its end and returns what it says.
async fn said(config: &ProcessConfig) -> Said {
    let mut group = ProcessGroup::spawn(config, None).await?;
    let mut text = String::new();
    if let (Some(mut stdout), _) = group.take_output() {
        stdout.read_to_string(&mut text).await?;
    }
    let status = group.release().await?;
    if status.success() { Ok(text) } else { Err(format!("{status}: {text}").into()) }
}

/// SIGPIPE, which every program in Rust ignores.
const PIPE: u64 = 1 << 12;

/// Returns the standard signals that are ignored by what has this status.
fn ignored(status: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).ok_or("no SigIgn")?;
    Ok(u64::from_str_radix(mask.trim(), 16)? & 0x7fff_ffff)
}

/// Has inherited a descriptor and ignored signals, and expects that a command has neither.
pub(crate) async fn inherited() -> TestResult {
    assert_ne!(ignored(&std::fs::read_to_string("/proc/self/status")?)? & !PIPE, 0);
    assert!(std::fs::exists("/proc/self/fd/7")?, "nothing was inherited");

    let script = "ls /proc/$$/fd; grep SigIgn /proc/$$/status; kill -QUIT $$";
    let mut group = ProcessGroup::spawn(&shell(script), None).await?;
    let mut text = String::new();
    let (stdout, _) = group.take_output();
    stdout.ok_or("no stdout")?.read_to_string(&mut text).await?;

    assert!(text.starts_with("0\n1\n2\nSigIgn"), "{text}");
    assert_eq!(ignored(&text)?, 0, "{text}");
    let quit = std::os::unix::process::ExitStatusExt::signal(&group.release().await?);
    assert_eq!(quit, Some(rustix::process::Signal::QUIT.as_raw()));
    Ok(())
}

/// Gives a command a umask and limits.
pub(crate) async fn bounded() -> TestResult {
    let mut config = shell("umask; ulimit -n; ulimit -Hn; ulimit -c").umask(0o027);
    config.limits.extend([(Limit::OpenFiles, Some(64)), (Limit::Core, Some(0))]);

    assert_eq!(said(&config).await?, "0027\n64\n64\n0\n");
    Ok(())
}

/// Runs commands as another user and group.
pub(crate) async fn another_user() -> TestResult {
    let script =
        "id -u; id -g; id -G; echo $HOME; grep -E 'Uid|Gid' /proc/$$/status | tr '\\t' ' '";
    let (uid, gid, home) = nobody()?;

    let text = said(&shell(script).user("nobody".to_owned())).await?;

    let ids = format!("Uid: {uid} {uid} {uid} {uid}\nGid: {gid} {gid} {gid} {gid}");
    assert_eq!(text, format!("{uid}\n{gid}\n{gid}\n{home}\n{ids}\n"));
    let numbers = shell("id -u; id -g; id -G").user("54321".to_owned()).group("12345".to_owned());
    assert_eq!(said(&numbers).await?, "54321\n12345\n12345\n");
    let group = shell("id -u; id -g; id -G").group("12345".to_owned());
    assert_eq!(said(&group).await?, "0\n12345\n12345\n");
    Ok(())
}

fn nobody() -> Result<(String, String, String), Box<dyn std::error::Error>> {
    let all = std::fs::read_to_string("/etc/passwd")?;
    let line = all.lines().find(|line| line.starts_with("nobody:")).ok_or("no user nobody")?;
    let fields: Vec<_> = line.split(':').collect();
    Ok((fields[2].to_owned(), fields[3].to_owned(), fields[5].to_owned()))
}

/// Expects that what is on record is what was launched, from before to after.
pub(crate) async fn recorded() -> TestResult {
    let folder = TempDir::new()?;
    let config = shell("echo $$; read line < /proc/self/stat; echo $line; exec sleep 1000");
    let config = config.umask(0o022);
    let mut group = ProcessGroup::spawn(&config, Some(&Ledger::new(folder.path()))).await?;
    let mut said = vec![0; 1024];
    let mut stdout = group.take_output().0.ok_or("no stdout")?;
    let mut length = 0;
    while said[..length].iter().filter(|byte| **byte == b'\n').count() < 2 {
        length += stdout.read(&mut said[length..]).await?;
    }
    let said = String::from_utf8_lossy(&said[..length]).into_owned();

    let path = std::fs::read_dir(folder.path())?.next().ok_or("no record")??.path();
    let record: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let (pid, stat) = said.split_once('\n').ok_or("no pid")?;
    let start = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19));
    assert_eq!(record["process"]["id"].to_string(), pid);
    assert_eq!(Some(record["process"]["start_time"].to_string().as_str()), start);
    assert_eq!(Pid::from_raw(pid.parse()?).map(Pid::as_raw_pid), Some(group.pid()));
    Ok(())
}

/// Expects that a program that is not there is named, and a user.
pub(crate) async fn refused() -> TestResult {
    let config = ProcessConfig::new("it", vec!["/nowhere/program".into()]).umask(0o022);
    let exit = Running::start(Process::spawn(config, None).await?).end().await;
    let exit = exit.err().ok_or("it was executed")?.to_string();
    let text = "process \"it\" ended with exit status: 127: cannot execute \"/nowhere/program\": \
                No such file or directory (os error 2)";
    assert_eq!(exit, text);

    let unknown = ProcessGroup::spawn(&shell("true").user("no-such".to_owned()), None).await;
    let text = unknown.err().ok_or("it was spawned")?.to_string();
    assert_eq!(text, "cannot run process \"it\": there is no user \"no-such\"");

    Ok(())
}

/// Expects that a process that is launched runs on if its health command is not there.
pub(crate) async fn unasked() -> TestResult {
    let probe = HealthProbe::Command(vec!["/nowhere/check".into()]);
    let check = HealthCheck::new(probe).failures(1).every(Duration::from_millis(1));
    let config = shell("exec sleep 1000").umask(0o022).health(check);
    let process = Process::spawn(config, None).await?;
    let mut unhealthy = process.handle().unhealthy();
    let worker = Running::start(process);

    let reason = unhealthy.wait_for(Option::is_some).await?.clone().unwrap_or_default();

    let text = "it cannot be asked: cannot execute \"/nowhere/check\" as process \"health it\"";
    assert!(reason.starts_with(text), "{reason}");
    worker.clean_kill().await.map_err(|exit| exit.to_string())?;
    Ok(())
}
