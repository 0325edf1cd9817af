//! Earlier answers of types, and changes after which the types are asked again.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;

use crankcase_external::{External, Settings};
use crankcase_manifest::SiteFiles;

use crate::world::{TestResult, program};

const SITE: &str =
    "resources: {r1: {type: \"program:./it\", config: {a: x}}, r2: {type: \"program:./it\"}}\n";

/// A type that takes its answer from a file beside it, and notes that it was asked.
const WRAPPER: &str = "#!/bin/sh
case ${1-init} in
init) echo asked >> asked; cat part ;;
*) cat state ;;
esac
";

/// A folder with a manifest and that type, and a state folder.
struct Wrapped {
    folder: tempfile::TempDir,
    settings: Settings,
}

impl Wrapped {
    fn new(part: &str) -> TestResult<Self> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("site.yaml"), SITE)?;
        program(&folder.path().join("it"), WRAPPER)?;
        fs::create_dir(folder.path().join("cache"))?;
        let mut settings = Settings::default();
        settings.cache = Some(folder.path().join("cache/types"));
        let wrapped = Self { folder, settings };
        wrapped.write(part)?;
        Ok(wrapped)
    }

    /// Writes the part that the type answers, and waits until it is no new one.
    fn write(&self, part: &str) -> TestResult {
        let path = self.folder.path().join("part");
        fs::write(&path, part)?;
        let at = |path: &Path| -> TestResult<i64> {
            let found = fs::metadata(path)?;
            Ok(found.ctime() * 1_000 + found.ctime_nsec() / 1_000_000)
        };
        let clock = self.folder.path().join("clock");
        while at(&path)? + 100 > {
            fs::write(&clock, "")?;
            at(&clock)?
        } {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Returns what a process of its own would ask with.
    fn process(&self) -> External {
        External::new(self.settings.clone())
    }

    /// Loads the manifest; returns how often the type was asked, and the error.
    fn load(&self, external: &External) -> TestResult<(usize, String)> {
        let kinds = crankcase_kinds::builtin().from_source(Arc::new(external.clone()));
        let files = SiteFiles::new(vec![self.folder.path().join("site.yaml")], kinds);
        let error = files.load().err().map(|error| error.to_string());
        let asked = self.folder.path().join("asked");
        let count = fs::read_to_string(&asked).unwrap_or_default().lines().count();
        let _none = fs::remove_file(asked);
        Ok((count, error.unwrap_or_default()))
    }
}

/// Returns the answer of a type of protocol 1, with more attributes.
fn v1(more: &str) -> String {
    format!(r#"{{"protocol": 1, {more} "calls": {{"check": {{"args": ["check"]}}}}}}"#)
}

const V0: &str = r#"{"state_action": {"args": ["state"]}}"#;

#[test]
fn a_program_is_asked_once_by_each_process() -> TestResult {
    // A type of protocol 0 is asked for each resource.
    for (part, count) in [(v1(""), 1), (V0.to_owned(), 2)] {
        let wrapped = Wrapped::new(&part)?;
        let (first, second) = (wrapped.process(), wrapped.process());

        let asked = [
            wrapped.load(&first)?,
            wrapped.load(&first)?,
            wrapped.load(&second)?,
            wrapped.load(&second)?,
        ];

        let expected = [count, 0, count, 0].map(|count| (count, String::new()));
        assert_eq!(asked, expected, "{part}");
    }
    Ok(())
}

#[test]
fn a_program_that_says_what_it_depends_on_is_asked_when_that_changes() -> TestResult {
    for part in ["part", "./part", "../PLACE/part"] {
        let wrapped = Wrapped::new("")?;
        let place = wrapped.folder.path().file_name().unwrap_or_default().to_string_lossy();
        let part = part.replace("PLACE", &place);
        let answer = v1(&format!(r#""depends_on_files": ["{part}", "none"],"#));
        let once = |wrapped: &Wrapped| wrapped.load(&wrapped.process()).map(|(count, _)| count);
        wrapped.write(&answer)?;

        let first = [once(&wrapped)?, once(&wrapped)?];
        wrapped.write(&format!("{answer} "))?;
        let changed = [once(&wrapped)?, once(&wrapped)?];
        fs::write(wrapped.folder.path().join("none"), "")?;
        wrapped.write(&answer)?;
        let appeared = [once(&wrapped)?, once(&wrapped)?];
        let agent = wrapped.process();
        let same = [wrapped.load(&agent)?.0, wrapped.load(&agent)?.0];
        wrapped.write(&format!("{answer}  "))?;
        let in_one = [wrapped.load(&agent)?.0, wrapped.load(&agent)?.0];

        assert_eq!((first, changed, appeared), ([1, 0], [1, 0], [1, 0]), "{part}");
        assert_eq!((same, in_one), ([0, 0], [1, 0]), "{part}");
    }
    Ok(())
}

#[test]
fn a_program_that_depends_on_nothing_else_is_asked_when_it_changes() -> TestResult {
    let wrapped = Wrapped::new(&v1(r#""depends_on_files": [],"#))?;
    let once = || wrapped.load(&wrapped.process()).map(|(count, _)| count);

    let first = [once()?, once()?];
    program(&wrapped.folder.path().join("it"), &format!("{WRAPPER}# other\n"))?;
    let changed = [once()?, once()?];

    assert_eq!((first, changed), ([1, 0], [1, 0]));
    Ok(())
}

#[test]
fn no_answer_is_kept_of_a_program_that_is_replaced_while_it_is_asked() -> TestResult {
    for replaced in ["echo >> real", "cp -p other new; mv new real", "ln -sfn other it"] {
        let wrapped = Wrapped::new(&v1(r#""depends_on_files": [],"#))?;
        let path = |name: &str| wrapped.folder.path().join(name);
        program(&path("other"), WRAPPER)?;
        let place = || -> TestResult {
            fs::remove_file(path("it"))?;
            program(&path("real"), &WRAPPER.replace("cat part", &format!("{replaced}; cat part")))?;
            Ok(symlink("real", path("it"))?)
        };

        place()?;
        let first = wrapped.load(&wrapped.process())?;
        place()?;
        let again = wrapped.load(&wrapped.process())?;

        let expected = (1, String::new());
        assert_eq!((first, again), (expected.clone(), expected), "{replaced}");
    }
    Ok(())
}

#[test]
fn no_answer_is_kept_whose_file_another_one_takes_the_place_of() -> TestResult {
    // The last one is reached through two symlinks.
    for (file, link) in [("", "current"), ("/part", "current"), ("/part", "latest")] {
        let wrapped = Wrapped::new("")?;
        let path = |name: &str| wrapped.folder.path().join(name);
        let answer = v1(&format!(r#""depends_on_files": ["current{file}"],"#));
        for name in ["one", "two"] {
            if !file.is_empty() {
                fs::create_dir(path(name))?;
            }
            fs::write(path(&format!("{name}{file}")), &answer)?;
        }
        symlink("one", path(link))?;
        if link != "current" {
            symlink(link, path("current"))?;
        }
        let turned = format!("cat current{file}; ln -sfn two {link}");
        program(&path("it"), &WRAPPER.replace("cat part", &turned))?;
        // Waits until all of that is no new one.
        wrapped.write("")?;

        let asked = [wrapped.load(&wrapped.process())?.0, wrapped.load(&wrapped.process())?.0];

        assert_eq!(asked, [1, 1], "{link}{file}");
    }
    Ok(())
}

/// An engine with one image, which is another one once it was run.
const ENGINE: &str = r#"#!/bin/sh
cd FOLDER || exit 1
case $1 in
image) cat id ;;
run)
  cat > /dev/null
  echo asked >> asked
  echo AFTER > id
  echo '{"protocol": 1, "calls": {"check": {"args": ["check"]}}}' ;;
esac
"#;

#[test]
fn no_answer_is_kept_of_an_image_that_is_replaced_while_it_is_asked() -> TestResult {
    for (after, count) in [("sha256:0", 0), ("sha256:1", 1)] {
        let mut wrapped = Wrapped::new("")?;
        let folder = wrapped.folder.path().to_owned();
        let script = ENGINE.replace("FOLDER", &folder.to_string_lossy()).replace("AFTER", after);
        program(&folder.join("engine"), &script)?;
        wrapped.settings.engine = vec![folder.join("engine").display().to_string()];
        fs::write(folder.join("site.yaml"), SITE.replace("program:./it", "acme/it:1"))?;
        let once = || -> TestResult<(usize, String)> {
            fs::write(folder.join("id"), "sha256:0\n")?;
            wrapped.load(&wrapped.process())
        };

        let asked = [once()?, once()?];

        assert_eq!(asked, [(1, String::new()), (count, String::new())], "{after}");
    }
    Ok(())
}

#[test]
fn an_answer_that_cannot_be_told_from_an_older_one_is_not_kept() -> TestResult {
    let wrapped = Wrapped::new("")?;
    // A folder is no file that could be compared.
    fs::create_dir(wrapped.folder.path().join("folder"))?;
    wrapped.write(&v1(r#""depends_on_files": ["folder"],"#))?;

    let asked = [wrapped.load(&wrapped.process())?.0, wrapped.load(&wrapped.process())?.0];
    let agent = wrapped.process();
    let in_one = [wrapped.load(&agent)?.0, wrapped.load(&agent)?.0];

    assert_eq!((asked, in_one), ([1, 1], [1, 1]));
    Ok(())
}

#[test]
fn an_answer_that_depends_on_too_much_is_not_kept() -> TestResult {
    // They take no room on the disk.
    for sizes in [[257 << 20, 0], [1, 256 << 20]] {
        let wrapped = Wrapped::new("")?;
        for (name, size) in ["first", "second"].into_iter().zip(sizes) {
            File::create(wrapped.folder.path().join(name))?.set_len(size)?;
        }
        wrapped.write(&v1(r#""depends_on_files": ["first", "second"],"#))?;
        let agent = wrapped.process();

        let asked = [wrapped.load(&agent)?.0, wrapped.load(&agent)?.0];

        assert_eq!(asked, [1, 1], "{sizes:?}");
    }
    Ok(())
}

#[test]
fn types_are_asked_again_when_that_is_asked_for() -> TestResult {
    let mut wrapped = Wrapped::new(&v1(r#""depends_on_files": [],"#))?;
    let before = wrapped.load(&wrapped.process())?.0;
    wrapped.settings.is_fresh = true;
    let fresh = wrapped.process();

    let asked = [wrapped.load(&fresh)?.0, wrapped.load(&fresh)?.0];

    wrapped.settings.is_fresh = false;
    let after = wrapped.load(&wrapped.process())?.0;
    assert_eq!((before, asked, after), (1, [1, 0], 0));
    Ok(())
}

#[test]
fn an_error_says_that_an_answer_was_kept() -> TestResult {
    let schema = |kind: &str| {
        v1(&format!(r#""config_schema": {{"properties": {{"a": {{"type": "{kind}"}}}}}},"#))
    };
    let wrapped = Wrapped::new(&schema("string"))?;
    let agent = wrapped.process();
    let good = wrapped.load(&agent)?;
    // The manifest goes with the type, but the agent does not know of the new one.
    fs::write(wrapped.folder.path().join("site.yaml"), SITE.replace("a: x", "a: 1"))?;
    wrapped.write(&schema("integer"))?;

    let (count, error) = wrapped.load(&agent)?;
    let other = wrapped.load(&wrapped.process())?;

    let hint = "; how its type works was answered before, and is asked again with --refresh-types";
    assert_eq!((good, other), ((1, String::new()), (1, String::new())));
    assert!(count == 0 && error.contains(r#"1 is not of type "string""#), "{error}");
    assert!(error.contains(hint), "{error}");
    Ok(())
}
