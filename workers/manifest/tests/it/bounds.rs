//! Inputs at and beyond the bounds: one clear error each, and no hang.

use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;

use crankcase_manifest::{Manifest, Overrides};
use crankcase_resources::Declaration;
use crankcase_resources::front::{DependencyState, Inputs};
use serde_json::{json, to_string};

use crate::site::{KINDS, Site};

type Result = std::result::Result<(), Box<dyn Error>>;

/// Returns the first line of what is said of a manifest.
fn said(text: &str) -> std::result::Result<String, Box<dyn Error>> {
    let site = Site::new(text)?;
    let said = site.said(site.load());
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

fn said_of(path: PathBuf) -> String {
    let loaded = Manifest::load(&[path], &Overrides::default(), KINDS);
    loaded.err().map_or_else(|| "valid".to_owned(), |err| err.to_string())
}

#[test]
fn large_inputs_are_refused_by_their_bound() -> Result {
    let billion = |levels: u8| {
        (1..levels).fold("vars:\n  a0: &a0 [x]\n".to_owned(), |text, level| {
            let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
            text + &format!("  a{level}: &a{level} [{aliases}]\n")
        })
    };
    let values = "more than 1,000,000 values, those that aliases stand for included";
    let cases = [
        (
            "vars: ".to_owned() + &"[".repeat(1_000_000),
            "site.yaml:1:71: nested deeper than 64 levels",
        ),
        ("- ".repeat(1_000_000), "site.yaml:1:129: nested deeper than 64 levels"),
        ("{a: ".repeat(1_000_000), "site.yaml:1:257: nested deeper than 64 levels"),
        ("\"".to_owned() + &"\n".repeat(1_000_000), "site.yaml:1:1: not YAML: unclosed quote"),
        ("- x\n".repeat(1_000_001), &format!("site.yaml:1000000:3: {values}")),
        (billion(10), &format!("site.yaml:8:37: {values}")),
    ];
    for (text, expected) in cases {
        assert_eq!(said(&text)?, expected);
    }
    Ok(())
}

#[test]
fn a_depth_of_64_is_taken() -> Result {
    let nested = |depth| format!("vars: {{x: {}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(said(&nested(62))?, "valid");
    assert_eq!(said(&nested(63))?, "site.yaml:1:73: nested deeper than 64 levels");
    Ok(())
}

#[test]
fn aliases_do_not_nest_deeper_than_text() -> Result {
    let text = (1..40).fold("vars:\n  a0: &a0 [x]\n".to_owned(), |text, level| {
        text + &format!("  a{level}: &a{level} [[*a{}]]\n", level - 1)
    });
    assert_eq!(said(&text)?, "site.yaml:33:15: nested deeper than 64 levels");
    Ok(())
}

#[test]
fn what_is_no_regular_file_is_refused_unread() -> Result {
    let site = Site::new("{}")?;
    File::create(site.path("large.yaml"))?.set_len(100 * 1024 * 1024)?;
    // One that is named is read; this one is only found in a folder.
    let pipes = tempfile::tempdir()?;
    let fifo = pipes.path().join("pipe.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status()?.success());
    let empty = tempfile::tempdir()?;

    let cases = [
        (PathBuf::from("/dev/zero"), "not a regular file"),
        (site.path("large.yaml"), "the file is larger than 16 MiB (16777216 bytes)"),
        (site.path("none.yaml"), "cannot read the file: it does not exist"),
        (empty.path().to_owned(), "the folder holds no *.yaml, *.yml or *.json file"),
    ];
    for (path, expected) in cases {
        assert_eq!(said_of(path.clone()), format!("{}: {expected}", path.display()));
    }
    let said = said_of(pipes.path().to_owned());
    assert_eq!(said, format!("{}: not a regular file", fifo.display()));
    Ok(())
}

#[test]
fn what_is_not_utf_8_is_refused_with_its_place() -> Result {
    let site = Site::new("")?;
    site.write("site.yaml", b"vars: {}\n# \xff\n")?;
    let said = site.said(site.load());
    assert_eq!(said, "site.yaml:2:3: not UTF-8 at byte 11\n  | #\n  |   ^");
    site.write("site.yaml", b"vars: {a: x\0y}")?;
    assert!(site.said(site.load()).starts_with("site.yaml:1:12: not YAML: "));
    Ok(())
}

#[test]
fn expressions_that_would_exhaust_memory_or_time_are_refused() -> Result {
    let doubling = (0..60).fold("{% set x0 = 'x' %}".to_owned(), |text, index| {
        text + &format!("{{% set x{} = x{index} ~ x{index} %}}", index + 1)
    });
    let sharing = (0..60).fold("{% set x0 = [1] %}".to_owned(), |text, index| {
        text + &format!("{{% set x{} = [x{index}, x{index}] %}}", index + 1)
    });
    let nesting = (0..100).fold("{% set x0 = [1] %}".to_owned(), |text, index| {
        text + &format!("{{% set x{} = [x{index}] %}}", index + 1)
    });
    let loops = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}";
    let work = "the expressions take too much work (more than 1,000,000 steps or 61 MiB)";
    let cases = [
        (doubling, work),
        (sharing, work),
        (nesting, "the value nests deeper than 64 levels"),
        (loops.to_owned(), work),
        (
            "{{ range(99999) | map('string') | join('x' ~ range(99999) | join(',')) }}".to_owned(),
            work,
        ),
        ("{% for a in range(99999) %}{{ range(99999) | length }}{% endfor %}".to_owned(), work),
        ("{{ range(1000000000000) }}".to_owned(), "the range has more than 100,000 items"),
        ("{{ 'x' | indent(100000000000) }}".to_owned(), "indent takes at most 1000 characters"),
        (
            "{{ 'x' | indent(first=true, width=100000000000) }}".to_owned(),
            "indent takes at most 1000 characters",
        ),
        ("{{ range(90000) | join(d=large) }}".to_owned(), work),
        ("{{ range(90000) | join(d=large, attribute='0') }}".to_owned(), work),
        ("{{ [range(90000)] | chain(large) | join(large, '0') }}".to_owned(), work),
        ("{{ large | replace('a', large) }}".to_owned(), work),
        ("{{ range(90000) | sort(attribute='a' | replace('a', commas)) }}".to_owned(), work),
        ("{{ range(90000) | select('in', range(90000)) | length }}".to_owned(), work),
        ("{{ 9 ** 9 ** 9 }}".to_owned(), "the number is too large"),
    ];
    let beside = format!("large: {}, commas: \"{}\"", "a".repeat(50_000), "a,".repeat(5_000));
    for (text, expected) in cases {
        let said = said(&format!("vars: {{x: {}, {beside}}}", to_string(&text)?))?;
        assert!(said.ends_with(expected), "{text}\n{said}");
    }
    Ok(())
}

#[test]
fn expressions_that_would_exhaust_the_stack_are_refused() -> Result {
    let large = "the expression is too large: ";
    let cases = [
        (
            format!("{{{{ {}1{} }}}}", "(".repeat(9000), ")".repeat(9000)),
            "nested deeper than 32 brackets",
        ),
        (
            format!("{{{{ {}1 }}}}", "not ".repeat(9000)),
            "more than 16 of \"not\", \"-\" and \"**\"",
        ),
        (format!("{{{{ 1{} }}}}", " + 1".repeat(9000)), "longer than 1000 tokens"),
        (format!("{{{{ x{} }}}}", ".a".repeat(9000)), "longer than 1000 tokens"),
        (format!("{{{{ x{} }}}}", "|upper".repeat(9000)), "longer than 1000 tokens"),
        ("{% if 1 %}".to_owned() + &"{% elif 1 %}".repeat(4000), "more than 64 \"elif\""),
    ];
    for (text, expected) in cases {
        let said = said(&format!("vars: {{x: {}}}", to_string(&text)?))?;
        assert!(said.ends_with(&format!("{large}{expected}")), "{said}");
    }
    let deep = ["{% if 1 %}", "{% for x in [1] %}", "{% with %}"].map(|tag| tag.repeat(3000));
    for text in deep {
        assert!(said(&format!("vars: {{x: {}}}", to_string(&text)?))?.contains("does not parse"));
    }
    let chain = format!("{{{{ 1{} }}}}", " + 1".repeat(450));
    assert!(said(&format!("vars: {{x: {}}}", to_string(&chain)?))?.ends_with("100 levels"));
    Ok(())
}

#[test]
fn texts_with_expressions_have_their_own_bounds() -> Result {
    let cases = [
        ("{{ 1 }}\n".repeat(200_000), "a text with expressions is larger than 1 MiB"),
        (
            format!("{{{{ {} }}}}", "9".repeat(60_001)),
            "a text with expressions has a line over 60000 bytes",
        ),
        (format!("{{{{ 1 }}}}{}", "x\n".repeat(500_000)), "valid"),
        ("x".repeat(2_000_000), "valid"),
    ];
    for (text, expected) in cases {
        let said = said(&format!("vars: {{x: {}}}", to_string(&text)?))?;
        assert!(said.ends_with(expected), "{said}");
    }
    Ok(())
}

#[test]
fn a_long_circle_is_written_short() -> Result {
    let mut text = String::from("resources:\n");
    for index in 0..1_000 {
        let next = (index + 1) % 1_000;
        text.push_str(&format!("  r{index}: {{type: file, dependencies: [r{next}]}}\n"));
    }
    assert!(said(&text)?.ends_with("r18 -> r19 -> (980 more) -> r0"));
    Ok(())
}

#[test]
fn a_byte_order_mark_is_no_column() -> Result {
    assert_eq!(said("\u{feff}a: 1")?, "site.yaml:1:1: unknown key \"a\" in a manifest");
    Ok(())
}

#[test]
fn many_costly_configs_are_valid_as_each_is_within_its_bound() -> Result {
    let mut text = String::from("resources:\n");
    for index in 0..40 {
        text.push_str(&format!(
            "  r{index}: {{type: file, config: {{x: \"{{{{ range(9999) | sort | length }}}}\"}}}}\n"
        ));
    }
    assert_eq!(said(&text)?, "valid");
    Ok(())
}

#[test]
fn a_thousand_problems_are_told_and_the_rest_counted() -> Result {
    let mut text = String::from("resources:\n  one: {type: file}\n");
    for index in 0..20_000 {
        text.push_str(&format!("  r{index}: {{type: file, dependencies: [x{index}]}}\n"));
    }
    let site = Site::new(&text)?;
    let err = site.load().err().ok_or("valid")?;
    assert_eq!(err.problems().len(), 1_000);
    assert!(err.to_string().ends_with("\nand 19000 more problems"));
    Ok(())
}

#[test]
fn the_files_of_a_manifest_share_its_bounds() -> Result {
    let text = |name: &str, bytes| format!("vars: {{{name}: {}}}\n", "x".repeat(bytes));
    let values = |name: &str| format!("vars:\n  {name}:\n{}", "  - x\n".repeat(600_000));
    let larger = "the files of the manifest are larger than 16 MiB (16777216 bytes) together";
    let more = "5.yaml:399997:5: more than 1,000,000 values, those that aliases stand for included";
    let cases = [
        (text("a", 9 << 20), text("b", 6 << 20), "valid"),
        (text("a", 9 << 20), text("b", 9 << 20), &format!("5.yaml: {larger}")),
        (values("a"), values("b"), more),
    ];
    for (first, second, expected) in cases {
        let site = Site::new(&first)?;
        fs::rename(site.path("site.yaml"), site.path("1.yaml"))?;
        site.write("5.yaml", second)?;
        // No more than one is told of those that come after.
        site.write("9.yaml", "vars: {c: 1}")?;
        let said = site.said(site.load());
        assert_eq!(said.lines().next(), Some(expected));
        assert_eq!(said.matches(" than ").count(), usize::from(expected != "valid"), "{said}");
    }
    let site = Site::new(&text("a", 9 << 20))?;
    let vars = site.folder().join(".vars");
    fs::write(&vars, text("b", 9 << 20))?;
    let overrides = Overrides { files: vec![vars], ..Overrides::default() };
    assert_eq!(site.said(site.load_with(&overrides)), format!(".vars: {larger}"));
    Ok(())
}

#[test]
fn what_aliases_stand_for_is_bounded_in_bytes() -> Result {
    let levels = (1..6).fold(format!("vars:\n  a0: &a0 {}\n", "x".repeat(2_000)), |text, level| {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        text + &format!("  a{level}: &a{level} [{aliases}]\n")
    });
    assert!(levels.len() < 2_400);
    let bound = "more than 64 MiB of values in all, those that aliases stand for included";
    assert_eq!(said(&levels)?, format!("site.yaml:7:17: {bound}"));
    // What is merged, and a key, count as well.
    let merged = format!(
        "vars:\n  a: &a {{{}: {}}}\n{}",
        "k".repeat(1_000),
        "x".repeat(999_000),
        (0..70).map(|index| format!("  b{index}: {{<<: *a}}\n")).collect::<String>()
    );
    assert_eq!(said(&merged)?, format!("site.yaml:68:13: {bound}"));
    Ok(())
}

#[test]
fn what_variables_are_copied_to_is_bounded_in_bytes() -> Result {
    let large = format!("vars:\n  large: {}\n", "x".repeat(1_000_000));
    let copies: String = (0..100).map(|index| format!("  v{index}: '{{{{ large }}}}'\n")).collect();
    let configs: String = (0..3_000)
        .map(|index| format!("  r{index}: {{type: exec, config: {{x: '{{{{ large }}}}'}}}}\n"))
        .collect();
    let bound = "more than 64 MiB of values in all";
    let cases = [
        (format!("{large}{copies}"), format!("site.yaml:68:9: {bound}")),
        (format!("{large}resources:\n{configs}"), format!("site.yaml:69:34: {bound}")),
    ];
    for (text, expected) in cases {
        let site = Site::new(&text)?;
        let err = site.load().err().ok_or("valid")?;
        assert_eq!(err.problems().len(), 1, "what follows is not told of again");
        assert_eq!(site.said(Err(err)).lines().next(), Some(expected.as_str()));
    }
    let twenty = "'{{ large }}', ".repeat(20);
    let config = format!("{large}resources:\n  r: {{type: exec, config: {{x: [{twenty}]}}}}\n");
    assert!(said(&config)?.ends_with("the config takes more than 16 MiB of values"));
    Ok(())
}

#[test]
fn what_a_for_each_makes_is_bounded_in_bytes() -> Result {
    let item = |index: usize, value: &str| format!("i{index}: '{value}'");
    let items = |count: usize, value: &str| -> String {
        (0..count).map(|index| item(index, value)).collect::<Vec<_>>().join(", ")
    };
    let tags: String = (0..4_000).map(|index| format!("tag-{index},")).collect();
    let (large, many) = ("x".repeat(1_000_000), items(1_000, ""));
    let named: String =
        (0..400).map(|index| format!("{}{index},", "x".repeat(150))).collect::<Vec<_>>().concat();
    let cases = [
        // The values of the items.
        format!(
            "vars: {{large: {large}}}\nresources:\n  r: {{type: exec, for_each: {{{}}}}}\n",
            items(70, "{{ large }}")
        ),
        // What each resource has beside its config.
        format!("resources:\n  r: {{type: exec, for_each: {{{many}}}, tags: [{tags}]}}\n"),
        // The names of those that each depends on.
        format!(
            "resources:\n  r: {{type: exec, for_each: [{named}]}}\n  s: {{type: exec, for_each: \
             [{named}], dependencies: [r]}}\n"
        ),
        // The configs.
        format!(
            "resources:\n  r: {{type: exec, for_each: {{{many}}}, config: {{x: {}}}}}\n",
            "x".repeat(100_000)
        ),
    ];
    for text in cases {
        let err = Site::new(&text)?.load().err().ok_or("valid")?;
        let messages: Vec<_> = err.problems().iter().map(|problem| &*problem.message).collect();
        assert_eq!(messages, ["more than 64 MiB of values in all"]);
    }
    Ok(())
}

#[test]
fn the_configs_of_a_site_are_bounded_together_when_they_are_rendered() -> Result {
    let mut text = String::from("resources:\n  first: {type: exec}\n");
    for index in 0..100 {
        let config = "{x: \"{{ first.state.large }}\"}";
        let resource = format!("{{type: exec, dependencies: [first], config: {config}}}");
        text.push_str(&format!("  r{index}: {resource}\n"));
    }
    let site = Site::new(&text)?;
    let manifest = site.load()?;
    let state = DependencyState::Known(json!({"large": "x".repeat(1_000_000)}).into());
    let states = Inputs::new([("first".to_owned(), state)].into());
    let render = |declaration: &Declaration| declaration.config.render(&states);

    // Twice, as a config that is rendered again takes the place of what it was.
    for _ in 0..2 {
        let rendered: Vec<_> = manifest.declarations()[1..].iter().map(render).collect();

        // A state is kept with the config that uses it.
        assert_eq!(rendered.iter().filter(|rendered| rendered.is_ok()).count(), 33);
        let err = rendered.into_iter().find_map(std::result::Result::err).ok_or("no error")?;
        assert_eq!(err.message, "the configs of all resources take more than 64 MiB of values");
        assert_eq!(err.place.line, 36);
    }
    Ok(())
}
