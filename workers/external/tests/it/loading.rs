//! The end of calls that ask types how they work.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_external::{Calls, External, Settings};
use crankcase_resources::front::{KindRequest, RequestError, WantedKind};
use crankcase_resources::state::Records;
use crankcase_resources::{ApplyOptions, Facilities, Kinds};
use serde_json::json;

use crate::world::{TestResult, World, fifo, program};

/// A type that says its pid when it is asked, and does not answer.
const HANGS: &str = "#!/bin/sh\necho $$ > up; exec sleep 1000\n";

const SITE: &str = "resources: {r1: {type: \"program:./it\"}}\n";

/// Returns whether a process is there.
fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

#[test]
fn a_type_is_asked_for_as_long_as_its_resource_says() -> TestResult {
    let world = World::new(&SITE.replace("it\"", "it\", meta: {timeout: 1s}"), HANGS)?;

    let loaded = world.files().load();

    let error = loaded.err().ok_or("it was loaded")?.to_string();
    assert!(error.contains("init of 'r1'"), "{error}");
    assert!(error.contains("took longer than 1s and was ended"), "{error}");
    assert!(!is_alive(&fs::read_to_string(world.path("up"))?));
    Ok(())
}

#[test]
fn a_type_that_does_not_answer_in_time_is_asked_for_one_of_its_resources() -> TestResult {
    let resource =
        |name: &str| format!("  {name}: {{type: \"program:./it\", meta: {{timeout: 1s}}}}\n");
    let site = format!("resources:\n{}{}{}", resource("r1"), resource("r2"), resource("r3"));
    let world = World::new(&site, "#!/bin/sh\necho asked >> asked; exec sleep 1000\n")?;

    let loaded = world.files().load();

    let error = loaded.err().ok_or("it was loaded")?;
    assert_eq!(error.problems().len(), 1, "{error}");
    assert_eq!(fs::read_to_string(world.path("asked"))?, "asked\n");
    Ok(())
}

#[test]
fn calls_that_are_told_to_end_leave_nothing_and_no_other_begins() -> TestResult {
    let (calls, settings) = (Calls::default(), Settings::default());
    let external = External::new(settings).with_calls(calls.clone());
    let world = World::with(SITE, HANGS, external)?;
    fifo(&world.path("up"))?;
    let files = world.files();

    let loading = thread::spawn(move || files.load().err().map(|error| error.to_string()));
    let pid = fs::read_to_string(world.path("up"))?;
    let (open, was_alive) = (calls.open(), is_alive(&pid));
    calls.end();
    let error = loading.join().map_err(|_| "the load panicked")?.ok_or("it was loaded")?;
    let next = world.files().load().err().ok_or("it was loaded")?.to_string();

    let shown = world.path("it").display().to_string();
    assert_eq!((open, was_alive), (vec![format!("init of 'r1' ({shown})")], true));
    for error in [error, next] {
        assert!(error.contains("init of 'r1'") && error.contains("was told to stop"), "{error}");
    }
    assert_eq!((calls.open(), is_alive(&pid)), (Vec::<String>::new(), false));
    Ok(())
}

#[test]
fn calls_that_do_not_end_can_be_killed() -> TestResult {
    let (calls, settings) = (Calls::default(), Settings::default());
    let external = External::new(settings).with_calls(calls.clone());
    // It holds a pipe open for as long as it runs.
    let script = "#!/bin/sh\ntrap '' TERM; echo begun >&2; exec sleep 1000 9> up\n";
    let world = World::with(SITE, script, external)?;
    fifo(&world.path("up"))?;
    let files = world.files();

    let loading = thread::spawn(move || files.load().err().map(|error| error.to_string()));
    let mut up = File::open(world.path("up"))?;
    calls.kill();
    let error = loading.join().map_err(|_| "the load panicked")?.ok_or("it was loaded")?;
    up.read_to_end(&mut Vec::new())?;

    assert!(error.contains("was told to stop"), "{error}");
    // Nobody has waited for it, and what it said.
    assert!(!error.contains("begun"), "{error}");
    assert_eq!(calls.open(), Vec::<String>::new());
    Ok(())
}

/// A type that is always as declared.
const ANSWERS: &str = r#"#!/bin/sh
case ${1-init} in
init) echo '{"state_action": {"args": ["state"]}}' ;;
*) echo '{"status": "VALID", "state": {}}' ;;
esac
"#;

#[tokio::test]
async fn a_load_that_is_told_to_end_ends_no_call_of_a_resource() -> TestResult {
    let calls = Calls::default();
    let world = |calls: &Calls| {
        let external = External::new(Settings::default()).with_calls(calls.clone());
        World::with(SITE, ANSWERS, external)
    };
    let (loaded, other) = (world(&calls)?, world(&calls)?);
    assert!(loaded.files().load().is_ok());

    calls.end_loads();
    // How its type works is known.
    let (account, _) = loaded.apply().await?;
    let error = other.files().load().err().ok_or("it was loaded")?.to_string();

    assert_eq!((account.failures(), account.halted()), (0, 0), "{account}");
    assert!(error.contains("was told to stop"), "{error}");
    Ok(())
}

#[test]
fn what_a_load_asks_is_on_record_from_the_first_call_on() -> TestResult {
    let (calls, mut settings) = (Calls::default(), Settings::default());
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");
    (settings.state, settings.makes_state) = (Some(state.clone()), true);
    let external = External::new(settings).with_calls(calls.clone());
    let world = World::with(SITE, HANGS, external)?;
    fifo(&world.path("up"))?;
    let files = world.files();

    let loading = thread::spawn(move || files.load().is_err());
    let pid = fs::read_to_string(world.path("up"))?;
    let loads: Vec<_> = fs::read_dir(state.join("asking"))?.collect::<Result<_, _>>()?;
    let records = fs::read_dir(loads[0].path())?.filter_map(|it| Some(it.ok()?.path()));
    // Its pid may just be written.
    let records: Vec<_> = records.filter(|it| it.extension() == Some("process".as_ref())).collect();
    let record = fs::read_to_string(&records[0])?;
    calls.end();
    let has_failed = loading.join().map_err(|_| "the load panicked")?;

    assert_eq!((loads.len(), records.len(), has_failed), (1, 1, true));
    assert!(record.contains("\"name\":\"init of r1\""), "{record}");
    assert!(!is_alive(&pid));
    assert_eq!(fs::read_dir(state.join("asking"))?.count(), 0);
    Ok(())
}

#[test]
fn a_type_that_hangs_holds_up_no_other_one() -> TestResult {
    let (calls, settings) = (Calls::default(), Settings::default());
    let external = External::new(settings).with_calls(calls.clone());
    let site = "resources:
  r1: {type: \"program:./it\"}
  r2: {type: \"program:./other\"}
  r3: {type: \"program:./other\"}
";
    let world = World::with(site, HANGS, external)?;
    let other = "#!/bin/sh\necho $$ > said; echo '{\"state_action\": {\"args\": [\"state\"]}}'\n";
    program(&world.path("other"), other)?;
    fifo(&world.path("up"))?;
    fifo(&world.path("said"))?;
    let files = world.files();

    let loading = thread::spawn(move || files.load().err().map(|error| error.to_string()));
    let pid = fs::read_to_string(world.path("up"))?;
    // Both others answer while it hangs.
    let said = [fs::read_to_string(world.path("said"))?, fs::read_to_string(world.path("said"))?];
    let was_alive = is_alive(&pid);
    calls.end();
    let error = loading.join().map_err(|_| "the load panicked")?.ok_or("it was loaded")?;

    assert!(was_alive && said[0] != said[1], "{said:?}");
    assert!(error.contains("'r1'") && !error.contains("'r2'"), "{error}");
    Ok(())
}

#[test]
fn an_engine_that_does_not_answer_is_not_waited_for_at_the_end() -> TestResult {
    let (calls, mut settings) = (Calls::default(), Settings::default());
    let folder = tempfile::tempdir()?;
    let engine = folder.path().join("engine");
    let up = folder.path().join("up");
    program(&engine, &format!("#!/bin/sh\necho $$ > {}; exec sleep 1000\n", up.display()))?;
    fifo(&up)?;
    settings.engine = vec![engine.display().to_string()];
    settings.engine_timeout = Duration::from_secs(1000);
    let external = External::new(settings).with_calls(calls.clone());
    let mut kinds = Kinds::default().from_source(Arc::new(external));
    let wanted = WantedKind::new("acme/it:1", "r1", folder.path().to_owned());
    let request = KindRequest::new(vec![wanted], Vec::new());

    let asking = thread::spawn(move || kinds.make(&request));
    let pid = fs::read_to_string(&up)?;
    let open = calls.open();
    calls.end();
    let errors = asking.join().map_err(|_| "the load panicked")?;

    let inspect = format!("{} image inspect --format {{{{.Id}}}} acme/it:1", engine.display());
    assert_eq!(open, [inspect]);
    let expected =
        format!("cannot run {}: it was ended because it was told to stop", engine.display());
    assert_eq!(errors, [(RequestError::Machine(0), expected)]);
    assert!(!is_alive(&pid));
    Ok(())
}

#[tokio::test]
async fn an_engine_that_does_not_answer_for_a_leftover_holds_up_no_look() -> TestResult {
    let (folder, mut settings) = (tempfile::tempdir()?, Settings::default());
    let (engine, state) = (folder.path().join("engine"), folder.path().join("state"));
    let asked = folder.path().join("asked");
    program(&engine, &format!("#!/bin/sh\necho \"$@\" >> {}; exec sleep 1000\n", asked.display()))?;
    // Its starter is gone: the first process of a machine did not start at that time.
    let record = json!({"engine": [engine], "starter": [1, u64::MAX]});
    fs::create_dir_all(state.join("containers"))?;
    fs::write(state.join("containers/crankcase-1"), record.to_string())?;
    settings.state = Some(state.clone());
    let site = SITE.replace("it\"", "it\", meta: {timeout: 3s}");
    let world = World::with(&site, ANSWERS, External::new(settings))?;
    let site = world.files().load()?;
    let facilities = Facilities::open(&state, Records::default());
    let options = ApplyOptions { facilities, ..ApplyOptions::default() };
    let (_stopper, stop) = Stop::pair();

    let account = site.apply(&options, stop).await;

    assert_eq!(account.failures(), 1, "{account}");
    // The rest of what it takes to remove a container was not waited for.
    assert_eq!(fs::read_to_string(&asked)?, "kill --signal=KILL crankcase-1\n");
    assert!(fs::exists(state.join("containers/crankcase-1"))?);
    Ok(())
}

#[tokio::test]
async fn an_engine_that_does_not_answer_for_a_leftover_is_asked_for_no_other_one() -> TestResult {
    let (folder, mut settings) = (tempfile::tempdir()?, Settings::default());
    let (engine, state) = (folder.path().join("engine"), folder.path().join("state"));
    let asked = folder.path().join("asked");
    program(&engine, &format!("#!/bin/sh\necho $2 $3 >> {}; exec sleep 1000\n", asked.display()))?;
    let record = json!({"engine": [engine], "starter": [1, u64::MAX]}).to_string();
    fs::create_dir_all(state.join("containers"))?;
    for number in 1..=3 {
        fs::write(state.join(format!("containers/crankcase-{number}")), &record)?;
    }
    settings.state = Some(state.clone());
    settings.engine_timeout = Duration::from_secs(1);
    let world = World::with(SITE, ANSWERS, External::new(settings))?;
    let site = world.files().load()?;
    let facilities = Facilities::open(&state, Records::default());
    let options = ApplyOptions { facilities, ..ApplyOptions::default() };
    let (_stopper, stop) = Stop::pair();

    let account = site.apply(&options, stop).await;

    assert_eq!(account.failures(), 0, "{account}");
    // On a busy machine it may be ended before it has said anything.
    let asked = fs::read_to_string(&asked).unwrap_or_default();
    let names: BTreeSet<_> = asked.lines().filter_map(|line| line.split(' ').next_back()).collect();
    assert!(names.len() < 2, "{asked}");
    assert_eq!(fs::read_dir(state.join("containers"))?.count(), 3);
    Ok(())
}

#[test]
fn where_nothing_can_be_on_record_a_type_is_asked_all_the_same() -> TestResult {
    let (folder, mut settings) = (tempfile::tempdir()?, Settings::default());
    let (engine, state) = (folder.path().join("engine"), folder.path().join("state"));
    let script = r#"#!/bin/sh
case $1 in
image) echo sha256:0 ;;
run) cat > /dev/null; echo '{"state_action": {"args": ["state"]}}' ;;
esac
"#;
    program(&engine, script)?;
    // There can be no folders of these names.
    fs::create_dir(&state)?;
    fs::write(state.join("asking"), "")?;
    fs::write(state.join("containers"), "")?;
    (settings.engine, settings.state) = (vec![engine.display().to_string()], Some(state));
    let mut kinds = Kinds::default().from_source(Arc::new(External::new(settings)));
    let wanted = WantedKind::new("acme/it:1", "r1", folder.path().to_owned());

    let errors = kinds.make(&KindRequest::new(vec![wanted], Vec::new()));

    assert_eq!(errors, []);
    Ok(())
}

#[test]
fn a_container_that_has_never_begun_is_not_on_record() -> TestResult {
    let mut settings = Settings::default();
    let folder = tempfile::tempdir()?;
    let (engine, state) = (folder.path().join("engine"), folder.path().join("state"));
    // It says that it has the image, and is gone when it is to run it.
    program(&engine, "#!/bin/sh\nrm \"$0\"; echo sha256:0\n")?;
    settings.engine = vec![engine.display().to_string()];
    (settings.state, settings.makes_state) = (Some(state.clone()), true);
    let mut kinds = Kinds::default().from_source(Arc::new(External::new(settings)));
    let wanted = WantedKind::new("acme/it:1", "r1", folder.path().to_owned());

    let errors = kinds.make(&KindRequest::new(vec![wanted], Vec::new()));

    assert!(errors.len() == 1 && errors[0].1.contains("cannot execute"), "{errors:?}");
    assert_eq!(fs::read_dir(state.join("containers"))?.count(), 0);
    Ok(())
}
