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

    assert_eq!(finished.stdout, "first\ny\n\n... 9998 bytes are left out ...\nlast\n");
    assert!(finished.left_out > 0);
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
