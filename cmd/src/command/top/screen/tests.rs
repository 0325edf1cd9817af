//! What `top` draws on screens of several sizes.

use std::error::Error;
use std::time::{Duration, SystemTime};

use crankcase_status::picture::{Line, Look, Span};
use crankcase_status::wire::{Act, EventLine, Why, WorkerChange};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{View, draw, page};
use crate::command::top::keys::Key;
use crate::command::top::model::Model;
use crate::command::top::question::{Answer, Question, Reports};

type TestResult = Result<(), Box<dyn Error>>;

/// The moment of the tests.
const NOW: &str = "2026-01-02T03:04:05Z";

fn view() -> Result<View, Box<dyn Error>> {
    let wall = humantime::parse_rfc3339(NOW)?;
    Ok(View { now: Instant::now(), wall, is_colored: true })
}

fn drawn(
    model: &mut Model,
    (width, height): (u16, u16),
    view: View,
) -> Result<Buffer, Box<dyn Error>> {
    let mut terminal = Terminal::new(TestBackend::new(width, height))?;
    model.page = page(model, height.into());
    terminal.draw(|frame| draw(model, frame.buffer_mut(), view))?;
    Ok(terminal.backend().buffer().clone())
}

fn text(buffer: &Buffer) -> String {
    let width = buffer.area.width.into();
    let rows = buffer.content.chunks(width);
    let row = |row: &[ratatui::buffer::Cell]| {
        let row: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        row.trim_end().to_owned() + "\n"
    };
    rows.map(row).collect()
}

fn worker(name: &str, state: &str, more: Value) -> Result<(String, Value), Box<dyn Error>> {
    let mut worker = json!({"path": format!("/agent/resources/{name}"), "state": state,
        "generation": 1, "starts": 1, "failures": 0, "is_essential": true,
        "installed": "2026-01-02T03:00:00Z"});
    let fields = worker.as_object_mut().ok_or("no object")?;
    fields.extend(more.as_object().ok_or("no object")?.clone());
    Ok((name.to_owned(), worker))
}

/// Returns a model of an agent with these resources.
fn model(resources: Vec<(String, Value)>) -> Result<Model, Box<dyn Error>> {
    let mut model = Model::new(false);
    model.connected("life");
    let (now, question) = (Instant::now(), Question::Report(None));
    let engine = |path: &str, workers: Value| json!({"path": path, "state": "running", "is_healthy": true, "at": NOW, "workers": workers});
    let resources: serde_json::Map<_, _> = resources.into_iter().collect();
    let mut nested = worker("..", "running", json!({}))?.1;
    nested["path"] = "/agent/resources".into();
    nested["report"] = engine("/agent/resources", resources.into());
    let report = serde_json::from_value(engine("/agent", json!({ "resources": nested })))?;
    let reports = Reports { report, waiting: None, is_cut: false };
    model.questions(now);
    model.answered(&question, Ok(Answer::Report(reports.into())), now);
    Ok(model)
}

fn broken() -> Result<Model, Box<dyn Error>> {
    let mut model = model(vec![
        worker(
            "disk",
            "backing_off",
            json!({"generation": 7, "failures": 7, "error":
            {"text": "no such device", "is_panic": false, "at": "2026-01-02T03:04:00Z"}}),
        )?,
        worker("app", "held_back", json!({}))?,
        worker("bin", "running", json!({"started": "2025-12-30T00:00:00Z"}))?,
        worker(
            "page",
            "waiting",
            json!({"inputs": [{"name": "disk", "need": "required",
            "output": "State", "state": "backing_off", "was_present": false}]}),
        )?,
        worker(
            "seat",
            "starting",
            json!({"degraded": "the command exited with code 3; it said \
            last: no seat is free"}),
        )?,
        worker("shop", "parked", json!({"parked_by": {"who": "ada", "why": "moves"}}))?,
    ])?;
    for number in 0..6 {
        let event: EventLine = serde_json::from_value(json!({"sequence": number,
            "at": format!("2026-01-02T03:04:0{number}.5Z"), "path": "/agent/resources/disk",
            "event": {"type": "starting"}, "text": format!("starting, generation {number}"),
            "origin": (number == 5).then(|| json!({"who": "ada", "why": "it has to"}))}))?;
        model.event(event);
    }
    let step = |name: &str, state: &str| {
        json!({"path": format!("/agent/resources/{name}"), "state": state, "failures": 7,
            "error": "no such device, or one that is not the one that is declared in the site",
            "next_try_in": 90.0})
    };
    let steps = json!([step("page", "waiting"), step("disk", "backing_off")]);
    let why: Why = serde_json::from_value(json!({ "steps": steps }))?;
    // The first one is that of the row that is picked.
    let question = Question::Why("/agent/resources/disk".to_owned());
    model.answered(&question, Ok(Answer::Why(why)), Instant::now());
    Ok(model)
}

#[test]
fn all_of_a_broken_agent_is_on_a_screen_of_80_by_24() -> TestResult {
    let buffer = drawn(&mut broken()?, (80, 24), view()?)?;

    let expected = "\
7 workers  ✗ 2 in trouble  … 2 on their way  ‖ 1 off  ✓ 2 well
  worker, trouble first         state        gen fails since cause
✗ resources/disk                backing off    7     7    5s no such device
✗ resources/seat                degraded       1          4m the command exited…
‖ resources/shop                parked         1          4m ada: moves
… resources/app                 held back      1          4m
… resources/page                waiting        1          4m for disk
✓ resources                     running        1          4m
✓ resources/bin                 running        1          3d





── why resources/disk ──────────────────────────────────────────────────────────
page waits for resources/disk
resources/disk failed 7 times: no such device, or one that is not the one that
is declared in the site; next try in 90 s
── events ──────────────────────────────────────────────────────────────────────
03:04:02 resources/disk starting, generation 2
03:04:03 resources/disk starting, generation 3
03:04:04 resources/disk starting, generation 4
03:04:05 resources/disk starting, generation 5 (ada: it has to)
q quit t tree / filter Enter report g graph b bounce p park u unpark P pause
";
    assert_eq!(text(&buffer), expected);
    assert_eq!(buffer[(0, 2)].fg, Color::Red);
    assert!(buffer[(5, 2)].modifier.contains(Modifier::REVERSED));
    assert!(!buffer[(5, 3)].modifier.contains(Modifier::REVERSED));
    Ok(())
}

#[test]
fn a_screen_of_60_by_16_has_all_parts() -> TestResult {
    let mut model = broken()?;
    model.is_read_only = true;
    model.key(&Key::Character('t'));
    let buffer = drawn(&mut model, (60, 16), view()?)?;

    let expected = "\
7 workers  ✗ 2   … 2   ‖ 1   ✓ 2
  worker                state        gen fails since cause
✓ resources/            running        1          4m
…   app                 held back      1          4m
✓   bin                 running        1          3d
✗   disk                backing off    7     7    5s no suc…
── why resources ───────────────────────── ↓ 3 more workers



── events ──────────────────────────────────────────────────
03:04:02 resources/disk starting, generation 2
03:04:03 resources/disk starting, generation 3
03:04:04 resources/disk starting, generation 4
03:04:05 resources/disk starting, generation 5 (ada: it has…
q quit t trouble / filter Enter report g graph
";
    assert_eq!(text(&buffer), expected);
    Ok(())
}

#[test]
fn a_smaller_screen_says_what_is_needed() -> TestResult {
    for size in [(59, 16), (60, 15), (10, 1), (1, 1)] {
        let buffer = drawn(&mut broken()?, size, view()?)?;

        let expected = format!("top needs 60x16; this is {}x{}", size.0, size.1);
        let first = text(&buffer).lines().next().unwrap_or_default().to_owned();
        let begin: String = expected.chars().take(usize::from(size.0) - 1).collect();
        assert!(first.starts_with(&begin), "{first}");
    }
    Ok(())
}

#[test]
fn three_root_causes_among_300_resources_are_on_the_first_screen() -> TestResult {
    let mut resources = Vec::new();
    for number in 0..300 {
        let state = match number {
            17 | 150 | 299 => "backing_off",
            _ if number % 3 == 0 => "held_back",
            _ if number % 3 == 1 => "waiting",
            _ => "running",
        };
        resources.push(worker(&format!("r{number:03}"), state, json!({}))?);
    }
    for size in [(80, 24), (60, 16)] {
        let text = text(&drawn(&mut model(resources.clone())?, size, view()?)?);

        let rows: Vec<_> = text.lines().skip(2).take(4).map(|row| row[..18].trim_end()).collect();
        let roots = ["✗ resources/r017", "✗ resources/r150", "✗ resources/r299"];
        assert_eq!((&rows[..3], &rows[3][..3]), (&roots[..], "…"), "{text}");
    }
    Ok(())
}

#[test]
fn of_ten_thousand_workers_only_a_page_is_drawn() -> TestResult {
    let workers = (0..10_000).map(|number| worker(&format!("w{number:04}"), "running", json!({})));
    let mut model = model(workers.collect::<Result<_, _>>()?)?;
    drawn(&mut model, (80, 24), view()?)?;
    model.key(&Key::End);
    let text = text(&drawn(&mut model, (80, 24), view()?)?);

    assert!(text.starts_with("10001 workers  ✗ 0 in trouble"), "{text}");
    assert_eq!(text.matches("resources/w").count(), 12 + 1, "{text}");
    assert_eq!((model.page, model.table.position()), (12, 10_000));
    Ok(())
}

#[test]
fn a_lost_agent_is_told_loudly_with_the_age_of_what_is_shown() -> TestResult {
    let (mut model, view) = (broken()?, view()?);
    let before = view.wall - Duration::from_secs(65);
    model.disconnected("the agent has ended", (view.now, before));
    model.disconnected("no agent is reachable at \"/x\"", (view.now, view.wall));
    let buffer = drawn(&mut model, (80, 24), view)?;

    let first = text(&buffer).lines().next().unwrap_or_default().to_owned();
    let expected =
        " NO AGENT: all below is 1m old. Looking for one: no agent is reachable at \"/x\"";
    assert_eq!(first, expected);
    let loud = Modifier::REVERSED | Modifier::BOLD;
    assert!((0..80).all(|column| buffer[(column, 0)].modifier.contains(loud)));
    assert!(text(&buffer).contains("✗ resources/disk"));
    Ok(())
}

#[test]
fn an_agent_that_does_not_answer_and_a_report_that_is_cut_are_told() -> TestResult {
    let (mut model, view) = (broken()?, view()?);
    model.is_cut = true;
    let cut = text(&drawn(&mut model, (80, 24), view)?);
    model.key(&Key::Enter);
    model.questions(view.now);
    let later = View { now: view.now + Duration::from_secs(7), ..view };
    let late = text(&drawn(&mut model, (80, 24), later)?);

    assert!(
        cut.lines().next().is_some_and(|row| row.ends_with(" too many: only trouble")),
        "{cut}"
    );
    assert!(late.lines().next().is_some_and(|row| row.ends_with(" no answer for 7 s")), "{late}");
    Ok(())
}

#[test]
fn a_wish_is_drawn_with_what_it_would_bounce() -> TestResult {
    let mut model = broken()?;
    for key in [Key::Character('p'), Key::Pasted("it is \u{1b}[31mloud".to_owned()), Key::Enter] {
        model.key(&key);
    }
    let asking = text(&drawn(&mut model, (80, 24), view()?)?);
    let question =
        Question::Preview(WorkerChange::Act(Act::Park), "/agent/resources/disk".to_owned());
    let preview = "bounces also a, b\u{1b}[2J, c and 2 more".to_owned();
    model.answered(&question, Ok(Answer::Preview(preview)), Instant::now());
    let confirming = text(&drawn(&mut model, (80, 24), view()?)?);

    assert!(asking.contains("\nasking what it would do to others ...\n"), "{asking}");
    assert!(asking.ends_with("\nEsc leaves all as it is\n"), "{asking}");
    let expected = "\
── park resources/disk ─────────────────────────────────────────────────────────
bounces also a, b\\u{1b}[2J, c and 2 more

reason: it is [31mloud

y does it   any other key leaves all as it is
";
    assert!(confirming.ends_with(expected), "{confirming}");
    Ok(())
}

#[test]
fn a_paused_worker_is_off_and_is_found_by_its_state() -> TestResult {
    let paused = json!({"degraded": "ada: moves"});
    let mut model =
        model(vec![worker("disk", "backing_off", json!({}))?, worker("shop", "paused", paused)?])?;
    let before = text(&drawn(&mut model, (80, 24), view()?)?);
    model.key(&Key::Down);
    let buffer = drawn(&mut model, (80, 24), view()?)?;
    let picked = text(&buffer);
    for key in [Key::Character('/'), Key::Pasted("paused".to_owned()), Key::Enter] {
        model.key(&key);
    }
    let filtered = text(&drawn(&mut model, (80, 24), view()?)?);

    assert!(before.ends_with(" u unpark P pause\n"), "{before}");
    assert!(picked.ends_with(" u unpark r resume\n"), "{picked}");
    assert!(picked.lines().next().is_some_and(|line| line.contains("‖ 1 off")), "{picked}");
    assert_eq!(buffer[(0, 3)].fg, Color::DarkGray);
    let rows: Vec<_> = filtered.lines().skip(2).take(2).collect();
    let shop = "‖ resources/shop                paused         1          4m ada: moves";
    assert_eq!(rows, [shop, ""], "{filtered}");
    Ok(())
}

#[test]
fn nothing_of_the_machine_reaches_the_terminal_unescaped() -> TestResult {
    let hostile = "a\u{1b}]0;x\u{7}\u{9b}2J\r\n\u{202e}\u{0}b";
    let mut model = model(vec![
        worker(
            hostile,
            "backing_off",
            json!({"error":
            {"text": hostile, "is_panic": false, "at": hostile}}),
        )?,
        worker("b", hostile, json!({"degraded": hostile, "started": hostile}))?,
        worker("c", "parked", json!({"parked_by": {"who": hostile, "why": hostile}}))?,
    ])?;
    let path = format!("/agent/resources/{hostile}");
    model.event(serde_json::from_value(json!({"sequence": 1, "at": hostile, "path": path,
        "event": {}, "text": hostile, "origin": {"who": hostile, "why": hostile}}))?);
    let steps = json!([{"path": path, "state": hostile, "failures": 0, "error": hostile,
        "awaits": hostile, "nearest": hostile, "parked_by": {"who": hostile, "why": hostile}}]);
    let why = serde_json::from_value(json!({ "steps": steps }))?;
    let picked = model.table.picked().map(|row| row.path.clone()).ok_or("none is picked")?;
    model.answered(&Question::Why(picked), Ok(Answer::Why(why)), Instant::now());
    model.message = Some(hostile.to_owned());
    let table = drawn(&mut model, (80, 24), view()?)?;
    model.key(&Key::Character('t'));
    let tree = drawn(&mut model, (80, 24), view()?)?;
    model.disconnected(hostile, (Instant::now(), SystemTime::UNIX_EPOCH));
    let lost = drawn(&mut model, (80, 24), view()?)?;
    model.key(&Key::Enter);
    let span = |text: &str| Span { text: text.to_owned(), look: Look::Plain };
    if let Some(sheet) = &mut model.sheet {
        sheet.lines = vec![Line { spans: vec![span(hostile)] }];
        sheet.error = Some(hostile.to_owned());
    }
    let sheet = drawn(&mut model, (80, 24), view()?)?;

    for buffer in [table, tree, lost, sheet] {
        let is_plain = |cell: &ratatui::buffer::Cell| {
            !cell.symbol().contains(crankcase_workers::is_unprintable)
        };
        assert!(buffer.content.iter().all(is_plain), "{}", text(&buffer));
        assert!(text(&buffer).contains("\\u{1b}"), "{}", text(&buffer));
    }
    Ok(())
}

#[test]
fn without_colours_a_screen_says_the_same() -> TestResult {
    let (mut model, view) = (broken()?, view()?);
    let colored = drawn(&mut model, (80, 24), view)?;
    let plain = drawn(&mut model, (80, 24), View { is_colored: false, ..view })?;

    assert_eq!(text(&plain), text(&colored));
    assert!(plain.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
    Ok(())
}

#[test]
fn the_screen_of_a_worker_has_its_lines_and_its_own_events() -> TestResult {
    let mut model = broken()?;
    model.key(&Key::Down);
    model.key(&Key::Enter);
    let asking = text(&drawn(&mut model, (80, 24), view()?)?);
    if let Some(sheet) = &mut model.sheet {
        let line = |number| Line {
            spans: vec![
                Span { text: format!("line {number:<4}"), look: Look::Plain },
                Span { text: format!("well {number}"), look: Look::Well },
            ],
        };
        sheet.lines = (0..40).map(line).collect();
    }
    model.key(&Key::PageDown);
    model.key(&Key::Right);
    let buffer = drawn(&mut model, (80, 24), view()?)?;

    assert!(asking.contains("── resources/seat ───"), "{asking}");
    assert!(asking.contains("\nasking ...\n"), "{asking}");
    let text = text(&buffer);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[1].ends_with("─ ↓ 8 more lines"), "{text}");
    assert_eq!((lines[2], lines[17], lines[18]), (" well 16", " well 31", lines[18]), "{text}");
    assert!(lines[18].starts_with("── its events ──") && lines[19].is_empty(), "{text}");
    assert_eq!(buffer[(2, 2)].fg, Color::Green);
    Ok(())
}
