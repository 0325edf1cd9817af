//! The last good manifest: what is kept, gone back to and rejected.

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use crankcase_resources::Site;
use crankcase_resources::front::{Inputs, Rendered};

use super::{LastGood, NAME};
use crate::facts::SeenFacts;
use crate::host::Host;
use crate::judge::{LoadError, SiteJudge};
use crate::manifest::IfFactsAreWrong;
use crate::site_files::SiteFiles;

type TestResult = Result<(), Box<dyn Error>>;

/// Writes a manifest, a file of variables and a template, which all contain `word`.
fn write(folder: &Path, word: &str) -> std::io::Result<()> {
    let text = format!(
        "vars: {{word: x}}\nresources:\n  page: {{type: file, config: {{path: '/tmp/{{{{ word }}}}', template: \
         page.j2}}}}\n  {word}: {{type: noop}}\n"
    );
    fs::write(folder.join("site.yaml"), text)?;
    fs::write(folder.join("vars.yaml"), format!("word: {word}\n"))?;
    fs::write(folder.join("page.j2"), format!("{word} and {{{{ word }}}}"))
}

/// Returns the files of a folder.
fn files(folder: &Path) -> SiteFiles {
    let mut files = SiteFiles::new(vec![folder.join("site.yaml")], crankcase_kinds::builtin());
    files.overrides.files = vec![folder.join("vars.yaml")];
    files
}

fn open(folder: &Path) -> LastGood {
    LastGood::open(folder, &[folder.join("site.yaml")])
}

/// Loads the files of a folder, and notes what was read.
fn load(folder: &Path, last_good: &LastGood) -> Result<Arc<Site>, Box<dyn Error>> {
    let (files, facts) = (files(folder), SeenFacts::default());
    let host = Host::of_machine().read();
    let loaded = files.load_on(host, &facts, IfFactsAreWrong::Keep(None))?;
    let site = Arc::new(loaded.site);
    last_good.note(&site, loaded.files);
    Ok(site)
}

fn names(site: &Site) -> Vec<&str> {
    site.declarations().iter().map(|declaration| declaration.name.as_str()).collect()
}

#[test]
fn a_kept_manifest_is_loaded_with_the_variables_and_templates_that_it_had() -> TestResult {
    let folder = tempfile::tempdir()?;
    write(folder.path(), "one")?;
    let last_good = open(folder.path());
    let site = load(folder.path(), &last_good)?;
    assert!(last_good.read().is_none());

    last_good.keep(&site)?;

    let file = folder.path().join(NAME);
    assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o7777, 0o600);
    fs::write(folder.path().join("site.yaml"), "resources: {")?;
    fs::write(folder.path().join("vars.yaml"), "word: two\n")?;
    fs::write(folder.path().join("page.j2"), "{{ missing }}")?;
    let kept = open(folder.path()).read();
    assert!(kept.is_some());
    let again = SiteFiles { kept, ..files(folder.path()) }.load()?;
    assert_eq!(names(&again), ["page", "one"]);
    let page = again.resource("page")?;
    let rendered = page.config.render(&Inputs::default())?;
    let Rendered::Known { config, scope } = rendered else {
        return Err("it is not known".into());
    };
    assert_eq!(config["path"], "/tmp/one");
    let template = folder.path().join("page.j2");
    assert_eq!(scope.kept_text(&template), Some("one and {{ word }}"));
    Ok(())
}

#[test]
fn only_the_manifest_of_the_site_that_was_found_good_is_kept() -> TestResult {
    let folder = tempfile::tempdir()?;
    let last_good = open(folder.path());
    write(folder.path(), "one")?;
    let first = load(folder.path(), &last_good)?;
    write(folder.path(), "two")?;
    let second = load(folder.path(), &last_good)?;

    last_good.keep(&first)?;
    assert!(last_good.read().is_none());
    assert!(last_good.is_to_be_kept(&second) && !last_good.is_on_trial(&second));
    last_good.keep(&second)?;

    assert!(!last_good.is_to_be_kept(&second));
    write(folder.path(), "three")?;
    let third = load(folder.path(), &last_good)?;
    assert!(last_good.is_on_trial(&third));
    write(folder.path(), "two")?;
    let same = load(folder.path(), &last_good)?;
    assert!(!last_good.is_on_trial(&same) && !last_good.is_to_be_kept(&same));
    Ok(())
}

#[test]
fn a_rejected_manifest_is_not_tried_again_until_another_one_was_kept() -> TestResult {
    let folder = tempfile::tempdir()?;
    let last_good = open(folder.path());
    write(folder.path(), "one")?;
    let first = load(folder.path(), &last_good)?;
    last_good.keep(&first)?;
    write(folder.path(), "two")?;
    load(folder.path(), &last_good)?;

    last_good.reject("page has failed");

    let next = open(folder.path());
    let tried = SiteJudge::default().load_unless_rejected(&files(folder.path()), &next);
    assert!(matches!(tried, Err(LoadError::Rejected(why)) if why == "page has failed"));
    write(folder.path(), "three")?;
    let tried = SiteJudge::default().load_unless_rejected(&files(folder.path()), &next);
    assert!(tried.is_ok());
    let third = load(folder.path(), &next)?;
    next.keep(&third)?;
    write(folder.path(), "two")?;
    let tried = SiteJudge::default().load_unless_rejected(&files(folder.path()), &next);
    assert!(tried.is_ok());
    Ok(())
}

#[test]
fn two_manifests_that_were_rejected_in_turn_are_both_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    let last_good = open(folder.path());
    write(folder.path(), "one")?;
    let first = load(folder.path(), &last_good)?;
    last_good.keep(&first)?;

    for word in ["two", "three"] {
        write(folder.path(), word)?;
        load(folder.path(), &last_good)?;
        last_good.reject("page has failed");
    }

    let next = open(folder.path());
    for word in ["two", "three"] {
        write(folder.path(), word)?;
        let tried = SiteJudge::default().load_unless_rejected(&files(folder.path()), &next);
        assert!(matches!(tried, Err(LoadError::Rejected(_))), "{word}");
    }
    Ok(())
}

#[test]
fn a_template_that_the_rejected_manifest_has_changed_does_not_make_it_another_one() -> TestResult {
    let folder = tempfile::tempdir()?;
    let last_good = open(folder.path());
    write(folder.path(), "one")?;
    let first = load(folder.path(), &last_good)?;
    last_good.keep(&first)?;
    write(folder.path(), "two")?;
    load(folder.path(), &last_good)?;
    let edit = |text: &str| fs::write(folder.path().join("page.j2"), text);
    let is_tried = || {
        let tried = SiteJudge::default().load_unless_rejected(&files(folder.path()), &last_good);
        !matches!(tried, Err(LoadError::Rejected(_)))
    };

    edit("of two")?;
    last_good.reject("page has failed");

    assert!(!is_tried() && !is_tried());
    edit("of a person")?;
    assert!(is_tried());
    Ok(())
}

#[tokio::test]
async fn a_wish_to_go_back_is_about_the_manifest_that_was_loaded_last() -> TestResult {
    let folder = tempfile::tempdir()?;
    let last_good = open(folder.path());
    write(folder.path(), "one")?;
    let first = load(folder.path(), &last_good)?;
    last_good.go_back(&first, "there is none to go back to");
    last_good.keep(&first)?;
    write(folder.path(), "two")?;
    let second = load(folder.path(), &last_good)?;

    last_good.go_back(&second, "page has failed");
    let asked = last_good.asked().await;
    assert_eq!(asked.why, "page has failed");
    write(folder.path(), "three")?;
    load(folder.path(), &last_good)?;

    assert!(!last_good.is_loaded(&asked) && last_good.is_asked());
    last_good.answered();
    assert!(!last_good.is_asked());
    Ok(())
}

#[test]
fn nobody_goes_back_from_a_manifest_while_it_is_written() -> TestResult {
    let folder = tempfile::tempdir()?;
    let last_good = open(folder.path());
    write(folder.path(), "one")?;
    let first = load(folder.path(), &last_good)?;
    last_good.keep(&first)?;
    write(folder.path(), "two")?;
    let second = load(folder.path(), &last_good)?;

    let loaded = last_good.take(&second);
    last_good.go_back(&second, "page has failed");
    last_good.reject("page has failed");

    assert!(loaded.is_some() && !last_good.is_asked());
    let tried = SiteJudge::default().load_unless_rejected(&files(folder.path()), &last_good);
    assert!(tried.is_ok());
    Ok(())
}

#[test]
fn a_manifest_that_cannot_be_written_is_still_to_be_kept() -> TestResult {
    let folder = tempfile::tempdir()?;
    let last_good = open(&folder.path().join("state"));
    write(folder.path(), "one")?;
    let site = load(folder.path(), &last_good)?;

    assert!(last_good.keep(&site).is_err());
    assert!(last_good.is_to_be_kept(&site));
    fs::create_dir(folder.path().join("state"))?;
    last_good.keep(&site)?;

    assert!(!last_good.is_to_be_kept(&site));
    Ok(())
}

#[test]
fn a_file_of_another_site_or_with_other_texts_counts_as_none() -> TestResult {
    let folder = tempfile::tempdir()?;
    let last_good = open(folder.path());
    write(folder.path(), "one")?;
    let first = load(folder.path(), &last_good)?;
    last_good.keep(&first)?;
    assert!(open(folder.path()).read().is_some());

    let other = LastGood::open(folder.path(), &[folder.path().join("other.yaml")]);
    assert!(other.read().is_none());

    let file = folder.path().join(NAME);
    let text = fs::read_to_string(&file)?;
    fs::write(&file, text.replace("word: one", "word: two"))?;
    assert!(open(folder.path()).read().is_none());
    Ok(())
}
