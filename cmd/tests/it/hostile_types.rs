//! Types that do what no type may: nothing of what they say is believed by half.

use crate::external::{INIT, answering, program};
use crate::machine::{Machine, gone};
use crate::world::{Error, Ran, TestResult};

const SITE: &str = r#"resources:
  r1: {type: "program:./it", meta: {timeout: 1m}}
  other: {type: file, config: {path: "@/other", content: x}}
"#;

const VALID: &str = r#"{"status": "VALID", "state": {}}"#;

/// Returns how an apply ends of a type whose look does this.
async fn look(machine: &Machine, state: &str) -> Result<Ran, Error> {
    program(machine, "it", &answering(INIT, state))?;
    machine.run(&["apply", "site.yaml", "-v"]).await
}

/// Requires that the resource alone has failed, for this reason.
fn has_failed(applied: &Ran, state: &str, expected: &str) {
    assert_eq!(applied.code, Some(1), "{state}: {applied:?}");
    assert!(applied.stdout.contains(expected), "{state}: {applied:?}");
    assert!(applied.stdout.ends_with(", 1 failed or skipped\n"), "{state}: {applied:?}");
}

#[tokio::test]
async fn an_answer_that_is_not_one_document_is_not_believed() -> TestResult {
    let machine = Machine::new(SITE)?;
    let deep =
        format!(r#"printf '{{"status": "VALID", "state": {{"a": %s' '{}'"#, "[".repeat(5000));
    for (state, expected) in [
        (
            &*format!("echo hello; echo '{VALID}'"),
            "invalid JSON: expected value at line 1 column 1; it begins with \"hello\\n{",
        ),
        (
            &format!("echo '{VALID}'; echo '{VALID}'"),
            "invalid JSON: trailing characters at line 2 column 1; it begins with \"{",
        ),
        (
            "printf '{\"status\": \"VALID\", \"sta'; echo oh no >&2",
            "invalid JSON: EOF while parsing a string at line 1 column 24; it begins with",
        ),
        (
            "printf '{\"status\"'; echo oh no >&2; kill -9 $$",
            "was ended by signal 9; it said last: oh no",
        ),
        (&format!("echo '{VALID}'; exit 3"), "command terminated with exit code #3!"),
        (&deep, "invalid JSON: recursion limit exceeded at line 1 column 1"),
        (
            r#"echo '{"status": "VALID", "state": {"id": 123456789012345678901234}}'"#,
            "the number 123456789012345678901234 has more than 64 bits at line 1 column 37; write it as a text",
        ),
        (
            r#"echo '{"status": "VALID", "state": {}, "status": "STALE"}'"#,
            r#"invalid JSON: "status" is there twice at line 1"#,
        ),
        (
            r#"printf '{"status": "VALID", "state": {"a": "\377"}}'"#,
            "command answered what is not UTF-8; it begins with",
        ),
        ("exec >&-; exit 0", "command did not provide any JSON back!"),
        ("yes more", "command answered more than 16777216 bytes and was ended"),
    ] {
        let applied = look(&machine, state).await?;

        has_failed(&applied, state, expected);
        assert!(applied.stdout.contains("state of 'r1' (@/it): "), "{state}: {applied:?}");
    }
    Ok(())
}

#[tokio::test]
async fn numbers_and_texts_arrive_as_they_were_said() -> TestResult {
    let tells = r#"  told: {type: file, dependencies: [r1], config: {path: "@/told", content: "{{ r1.state.a }} {{ r1.state.b }} {{ r1.state.c }}"}}
"#;
    let machine = Machine::new(&format!("{SITE}{tells}"))?;
    let state = r#"echo '{"status": "VALID", "state": {"a": 18446744073709551615, "b": 0.1, "c": "a\u0000\ud83d\ude00"}}'"#;

    let applied = look(&machine, state).await?;

    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(machine.read("told").as_deref(), Some("18446744073709551615 0.1 a\0😀"));
    Ok(())
}

#[tokio::test]
async fn what_floods_stderr_is_shown_in_part() -> TestResult {
    let machine = Machine::new(SITE)?;
    // Of a line that is cut nothing is shown: half a secret could not be told from other text.
    for (noise, shows) in [
        ("yes noise | head -n 5000000", "noise"),
        ("yes noise | head -n 5000000 | tr -d '\\n'", "... 25000001 bytes are left out ..."),
    ] {
        let applied =
            look(&machine, &format!("{noise} >&2; echo >&2; echo last >&2; exit 4")).await?;

        has_failed(&applied, noise, "command terminated with exit code #4!; it said last: ");
        assert!(applied.stdout.contains(shows) && applied.stdout.contains(" / last"), "{noise}");
        let shown = applied.stdout.len() + applied.stderr.len();
        assert!(shown < 2_000_000, "{noise}: {shown}");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_terminal_would_obey_does_not_reach_it() -> TestResult {
    let machine = Machine::new(SITE)?;
    let state = r#"printf '\033]0;mine\007\033[2J\n' >&2; exit 4"#;

    let applied = look(&machine, state).await?;

    assert_eq!(applied.code, Some(1), "{applied:?}");
    for text in [&applied.stdout, &applied.stderr] {
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{applied:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_look_has_started_ends_with_it() -> TestResult {
    let machine = Machine::new(SITE)?;
    for aside in [">/dev/null 2>&1", ""] {
        let state =
            format!("(trap '' TERM HUP; sleep 1000) {aside} & echo $! > child; echo '{VALID}'");

        let applied = look(&machine, &state).await?;

        assert_eq!(applied.code, Some(0), "{applied:?}");
        gone(machine.read("child").ok_or("it was not started")?.trim()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_look_that_does_not_end_is_ended() -> TestResult {
    let is_ended = async |state: &str| -> TestResult {
        let machine = Machine::new(&SITE.replace("1m", "1s"))?;

        let applied = look(&machine, &format!("echo $$ > child; {state}")).await?;

        let expected = "it took longer than its timeout of 1s and was told to stop: state of 'r1' (@/it) was told to \
                        stop; it said last: last";
        has_failed(&applied, state, expected);
        gone(machine.read("child").ok_or("it was not started")?.trim()).await
    };
    // At the same time, because the first has a grace of 10 s.
    tokio::try_join!(
        is_ended("trap '' TERM; echo last >&2; sleep 1000; sleep 1000"),
        is_ended("exec >&-; echo last >&2; sleep 1000"),
    )?;
    Ok(())
}

#[tokio::test]
async fn a_look_need_not_read_what_it_is_told() -> TestResult {
    let long = "x".repeat(1_000_000);
    let machine = Machine::new(
        &SITE.replace("\"program:./it\",", &format!("\"program:./it\", config: {{text: {long}}},")),
    )?;

    let applied = look(&machine, &format!("exec <&-; echo '{VALID}'")).await?;

    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    Ok(())
}
