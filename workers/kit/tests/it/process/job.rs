//! Jobs: their input, output, time limit and end.

use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_workers::{Job, JobError};
use parking_lot::Mutex;

use super::shell;
use crate::running::{TestResult, guarded};

const LONG: Duration = Duration::from_secs(1000);

#[tokio::test]
async fn a_job_reads_its_input_and_tells_its_lines() -> TestResult {
    // More than a pipe holds, so that nobody has to write it while the command runs.
    let input = "line\n".repeat(100_000);
    let mut process = shell("wc -l; echo aside >&2; printf 'no end'; exit 3");
    process.input = input.into_bytes();
    let (lines, others) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let told = |line: &str| lines.lock().push(line.to_owned());
    let aside = |line: &str| others.lock().push(line.to_owned());
    let (_stopper, stop) = Stop::pair();

    let job = Job::new(process, LONG);
    let finished = guarded(job.run(None, &stop, (Some(&told), Some(&aside)))).await?;

    assert_eq!((finished.status.code(), &*finished.stdout), (Some(3), "100000\nno end"));
    assert_eq!(finished.end(), "exited with code 3");
    assert_eq!(lines.into_inner(), ["100000", "no end"]);
    assert_eq!(others.into_inner(), ["aside"]);
    Ok(())
}

#[tokio::test]
async fn of_much_output_the_ends_are_kept_and_the_rest_is_counted() -> TestResult {
    let (_stopper, stop) = Stop::pair();
    let job = Job::new(shell("echo first; yes | head -n 5000; echo last"), LONG).kept(8, 6);

    let finished = guarded(job.run(None, &stop, (None, None))).await?;

    assert_eq!(finished.stdout, "first\ny\n... 9998 bytes are left out ...\nlast\n");
    assert!(finished.left_out > 0);
    Ok(())
}

#[tokio::test]
async fn of_much_output_no_line_is_kept_in_part() -> TestResult {
    let (_stopper, stop) = Stop::pair();
    let job = async |command: &str| {
        let job = Job::new(shell(command), LONG).kept(8, 6);
        guarded(job.run(None, &stop, (None, None))).await
    };

    let inner = job("printf 'one\\nsecret\\nsecret\\nlast'").await?;
    let only = job("printf 'a secret of one line' >&2").await?;

    assert_eq!(inner.stdout, "one\n... 14 bytes are left out ...\nlast");
    assert_eq!(only.stderr, "... 20 bytes are left out ...\n");
    assert_eq!((inner.stderr_left_out, only.stderr_left_out), (0, 6));
    Ok(())
}

#[tokio::test]
async fn a_job_ends_with_its_time_or_when_it_is_told_to_stop() -> TestResult {
    let (stopper, stop) = Stop::pair();
    let short = Job::new(shell("echo begun; sleep 1000"), Duration::from_millis(50));
    let long = Job::new(shell("echo begun; sleep 1000"), LONG);

    let late = guarded(short.run(None, &stop, (None, None))).await;
    let told = |_: &str| stopper.stop();
    let stopped = guarded(long.run(None, &stop, (Some(&told), None))).await;

    assert!(matches!(late, Err(JobError::TimedOut { .. })), "{late:?}");
    let Err(JobError::Stopped { output }) = stopped else { return Err("it has ended".into()) };
    assert_eq!(output, "begun\n");
    Ok(())
}

#[tokio::test]
async fn a_job_that_writes_too_much_is_ended() -> TestResult {
    let (_stopper, stop) = Stop::pair();
    // It ends neither by itself nor because nobody reads it.
    let endless = shell("echo aside >&2; trap '' PIPE; while :; do echo more 2>/dev/null; done");
    let (endless, last) = (Job::new(endless, LONG), Job::new(shell("printf 12345"), LONG));

    let cut = guarded(endless.at_most(1000).run(None, &stop, (None, None))).await;
    let over = guarded(last.clone().at_most(4).run(None, &stop, (None, None))).await;
    let whole = guarded(last.at_most(5).run(None, &stop, (None, None))).await?;

    let Err(JobError::TooMuch { most, stderr }) = cut else { return Err("it was not cut".into()) };
    assert_eq!((most, &*stderr), (1000, "aside\n"));
    assert!(matches!(over, Err(JobError::TooMuch { most: 4, .. })), "{over:?}");
    assert_eq!(whole.stdout, "12345");
    Ok(())
}

#[tokio::test]
async fn what_is_no_text_is_told_from_what_is() -> TestResult {
    let (_stopper, stop) = Stop::pair();
    let job = async |command: &str| {
        guarded(Job::new(shell(command), LONG).run(None, &stop, (None, None))).await
    };

    let (bytes, text) = (job(r"printf 'a\377'").await?, job(r"printf 'a\357\277\275'").await?);

    assert_eq!(bytes.stdout, text.stdout);
    assert_eq!((bytes.is_text, text.is_text), (false, true));
    assert!(!job(r"printf 'a\377' >&2").await?.stderr_is_text);
    Ok(())
}

#[tokio::test]
async fn what_a_job_leaves_behind_ends_with_it_if_that_is_wanted() -> TestResult {
    let (_stopper, stop) = Stop::pair();
    let job = Job::new(shell("(trap '' TERM HUP; sleep 1000) & echo $!; exit 3"), LONG);

    let finished = guarded(job.with_children().run(None, &stop, (None, None))).await?;

    assert_eq!(finished.status.code(), Some(3));
    let left = format!("/proc/{}/stat", finished.stdout.trim());
    // A process whose parent does not reap it stays as a zombie.
    let is_dead = std::fs::read_to_string(left).map_or(true, |stat| stat.contains(") Z "));
    assert!(is_dead, "{finished:?}");
    Ok(())
}
