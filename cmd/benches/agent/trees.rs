//! How soon a tree is there again that was moved away.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

use crate::bare::write;
use crate::files::write_site;
use crate::running::{Running, pause};
use crate::table::{Bound, Table};

/// How many trees of a shape are moved away, one after another: each only once, as what is repaired
/// often is held back.
const ROUNDS: usize = 8;

/// How long nothing happens between two of them.
const REST: Duration = Duration::from_millis(500);

/// How long to wait between two looks at a tree that is to come back.
const LOOK: Duration = Duration::from_micros(100);

/// How long a tree may take before something must be wrong.
const HANG: Duration = Duration::from_secs(60);

const TEXT: &str = "This is what each file says.\n";

/// Returns a tree whose root is at a path.
type Shape = fn(&Path) -> Tree;

/// Folders and files below a root, those that hold others first.
struct Tree {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Tree {
    /// Returns six folders, each in the one before, and a file in the last.
    fn chain(root: &Path) -> Self {
        let mut folders = vec![root.to_owned()];
        for depth in 1..6 {
            folders.push(folders[depth - 1].join(format!("folder-{depth}")));
        }
        let files = vec![folders[5].join("file")];
        Self { folders, files }
    }

    /// Returns a folder with twenty folders that have a file each.
    fn wide(root: &Path) -> Self {
        let inner: Vec<PathBuf> =
            (0..20).map(|number| root.join(format!("folder-{number}"))).collect();
        let files = inner.iter().map(|folder| folder.join("file")).collect();
        let folders = [vec![root.to_owned()], inner].concat();
        Self { folders, files }
    }

    fn declared(&self, name: &str) -> Vec<String> {
        let folders = self.folders.iter().map(|folder| {
            let folder = folder.display();
            format!("{{type: file, config: {{path: \"{folder}/\", mode: \"0750\"}}}}")
        });
        let files = self.files.iter().map(|file| {
            let config = format!("path: {file:?}, content: {TEXT:?}, mode: \"0640\"");
            format!("{{type: file, config: {{{config}}}}}")
        });
        let all = folders.chain(files).enumerate();
        all.map(|(number, text)| format!("  {name}-{number}: {text}\n")).collect()
    }

    /// Makes the tree by bare calls; returns the seconds that it took.
    fn make(&self) -> f64 {
        let began = Instant::now();
        self.folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        self.files.iter().for_each(|file| write(file, TEXT.as_bytes()));
        began.elapsed().as_secs_f64()
    }

    /// Moves the tree away; returns the seconds until all of it is there again.
    fn came_back(&self, away: &Path) -> f64 {
        let began = Instant::now();
        fs::rename(&self.folders[0], away).unwrap();
        for path in &self.files {
            while !fs::read(path).is_ok_and(|text| text == TEXT.as_bytes()) {
                assert!(began.elapsed() < HANG, "{path:?} does not come back");
                pause(LOOK);
            }
        }
        began.elapsed().as_secs_f64()
    }
}

pub(crate) fn measure(table: &Table) {
    let shapes: [(&str, Shape); 2] =
        [("6 nested folders and a file", Tree::chain), ("20 folders with a file each", Tree::wide)];
    for (shape, tree) in shapes {
        let name = format!("a tree of {shape} comes back");
        if table.wants(&name) {
            table.running(&name, Bound::Time(0.05), &rounds(tree));
        }
    }
}

fn rounds(tree: Shape) -> Vec<(f64, f64)> {
    let root = TempDir::new().unwrap();
    // Each has a folder of its own, so that what happens to one concerns no other.
    let grounds: Vec<PathBuf> =
        (0..ROUNDS).map(|number| root.path().join(format!("ground-{number}"))).collect();
    grounds.iter().for_each(|ground| fs::create_dir(ground).unwrap());
    let trees: Vec<Tree> = grounds.iter().map(|ground| tree(&ground.join("tree"))).collect();
    let declared = trees.iter().enumerate();
    let declared = declared.flat_map(|(number, tree)| tree.declared(&format!("tree-{number}")));
    write_site(root.path(), declared);
    let agent = Running::start(root.path());
    agent.check();
    let turn = |(number, kept): (usize, &Tree)| {
        pause(REST);
        let bare = tree(&root.path().join(format!("bare-{number}"))).make();
        (bare, kept.came_back(&root.path().join(format!("away-{number}"))))
    };
    trees.iter().enumerate().map(turn).collect()
}
