//! How much a manifest at its bounds allocates at most. In a process of its own, as all that is
//! allocated counts.

use std::error::Error;
use std::fs;
use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_manifest::{SeenFacts, SiteFacts, SiteFiles};
use crankcase_resources::PlanOptions;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const MIB: usize = 1024 * 1024;

/// Loads and plans a manifest. Returns the most bytes that were allocated, and the output.
fn peak(text: &str) -> Result<(usize, String), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let manifest = folder.path().join("site.yaml");
    fs::write(&manifest, text)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let files = SiteFiles::new(vec![manifest], crankcase_kinds::builtin());

    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    let said = match files.load() {
        Ok(site) => runtime.block_on(site.plan(&PlanOptions::default())).to_string(),
        Err(err) => err.to_string(),
    };
    Ok((ALLOCATED.peak_usage() - before, said))
}

/// Returns a manifest with many resources that print a large variable.
fn prints(count: usize, message: &str) -> String {
    let large = "x".repeat(1_000_000);
    let resources: String = (0..count)
        .map(|index| format!("  r{index}: {{type: print, config: {{message: '{message}'}}}}\n"))
        .collect();
    format!("vars: {{large: {large}}}\nresources:\n{resources}")
}

#[test]
fn a_manifest_at_its_bounds_takes_a_bounded_part_of_memory() -> Result<(), Box<dyn Error>> {
    let aliases =
        (1..6).fold(format!("vars:\n  a0: &a0 {}\n", "x".repeat(2_000)), |text, level| {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            text + &format!("  a{level}: &a{level} [{aliases}]\n")
        });
    let in_all = "more than 64 MiB of values in all";
    let cases = [
        (aliases, in_all, 128),
        (prints(3_000, "{{ large }}"), in_all, 128),
        // Values beyond the steps at load are found when they are rendered.
        (prints(300, "and {{ large }}"), "take more than 64 MiB of values", 640),
        (prints(300, "{{ range(99999) }}").replace("print,", "noop,"), "more than 64 MiB", 640),
    ];
    for (text, expected, most) in cases {
        let (peak, said) = peak(&text)?;
        assert!(said.contains(expected), "{}", &said[..1_000.min(said.len())]);
        assert!(peak < most * MIB, "{} MiB for {}", peak / MIB, &text[text.len() - 60..]);
    }
    // The measure sees what is there.
    assert!(peak(&prints(20, "{{ large }}"))?.0 > 20_000_000);
    Ok(())
}

/// Facts that never change: one for each of many resources, and many that no resource uses.
#[derive(Debug)]
struct Many(u64);

#[async_trait]
impl SiteFacts for Many {
    fn current(&self) -> SeenFacts {
        let used: serde_json::Map<_, _> =
            (0..ROUNDS).map(|number| (format!("f{number}"), self.0.to_string().into())).collect();
        let others: Vec<_> = (0..10_000).map(|number| format!("{number:0>100}")).collect();
        let value = Arc::new(serde_json::json!({"used": used, "others": others}));
        SeenFacts { revision: self.0, value, ..SeenFacts::default() }
    }

    async fn changed(&self, _revision: u64) {
        pending::<()>().await;
    }
}

const ROUNDS: usize = 20;

#[test]
fn a_declaration_keeps_no_facts_but_those_that_it_uses() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let manifest = folder.path().join("site.yaml");
    let print = |number| {
        format!(
            "  r{number}: {{type: print, config: {{message: '{{{{ facts.used.f{number} }}}}'}}}}\n"
        )
    };
    let resources: String = (0..ROUNDS).map(print).collect();
    fs::write(&manifest, format!("resources:\n{resources}"))?;
    let mut files = SiteFiles::new(vec![manifest], crankcase_kinds::builtin());

    let before = ALLOCATED.current_usage();
    let mut kept = Vec::new();
    for round in 0..ROUNDS {
        files.facts = Arc::new(Many(round as u64));
        kept.push(files.load()?.declarations()[round].clone());
    }

    // All facts of one round take more than a megabyte.
    let bytes = ALLOCATED.current_usage() - before;
    assert!(bytes < 1_000_000, "{bytes} bytes are kept for {} declarations", kept.len());
    Ok(())
}
