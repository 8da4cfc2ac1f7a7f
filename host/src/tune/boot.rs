//! Finds files that override the sysctl settings of narrows at the next boot. The files of several
//! directories are read in the order of their names, and for each key the last file takes effect
//! (sysctl.d(5)).

use super::plan::What;
use super::sysctl;
use crate::tune::target::World;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories of sysctl files. If several directories have a file of the same name, only that of
/// the first directory in this list is read. The remaining files are read in the order of their
/// names.
const FOLDERS: [&str; 5] = [
    "etc/sysctl.d",
    "run/sysctl.d",
    "usr/local/lib/sysctl.d",
    "usr/lib/sysctl.d",
    "lib/sysctl.d",
];
/// A file that `sysctl --system` of procps reads after all others. systemd-sysctl does not read it.
const LAST: &str = "etc/sysctl.conf";

/// Reads the lines `key = value` of a sysctl file. Slashes in keys are replaced by dots.
fn settings(text: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let line = line.trim().trim_start_matches('-');
        let (key, value) = line.split_once('=')?;
        let comment = line.starts_with('#') || line.starts_with(';');
        (!comment).then(|| (key.trim().replace('/', "."), sysctl::plain(value)))
    };
    text.lines().filter_map(line).collect()
}

/// The sysctl files of a host, in the order in which they are read at boot.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    for folder in FOLDERS {
        for file in fs::read_dir(root.join(folder))
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = file.file_name().to_string_lossy().into_owned();
            if name.ends_with(".conf") {
                found.entry(name).or_insert(file.path());
            }
        }
    }
    let mut list: Vec<PathBuf> = found.into_values().collect();
    list.push(root.join(LAST));
    list
}

/// Messages about files that are read later than a file of `changes` and set the same key to
/// another value.
pub fn overridden<'a>(changes: impl Iterator<Item = &'a What>, world: &World) -> Vec<String> {
    let files = files(&world.root);
    let mut notes = Vec::new();
    for change in changes {
        let What::File(path, Some(to)) = change else {
            continue;
        };
        let ours = world.root.join(path.trim_start_matches('/'));
        let Some(at) = files.iter().position(|f| *f == ours) else {
            continue;
        };
        for (key, value) in settings(&to.text) {
            for file in &files[at + 1..] {
                let text = fs::read_to_string(file).unwrap_or_default();
                let said = settings(&text)
                    .into_iter()
                    .rfind(|(k, v)| *k == key && *v != value);
                if let Some((_, other)) = said {
                    let file = file
                        .strip_prefix(&world.root)
                        .unwrap_or(file)
                        .display()
                        .to_string();
                    notes.push(format!(
                        "/{file} is read after {path} and sets {key} = {other}: after a boot \
                         the value will be that, not {value}. Remove that line"
                    ));
                }
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::plan::Text;
    use super::*;

    #[test]
    fn a_later_file_that_says_otherwise_is_named() {
        let root = std::env::temp_dir().join(format!("narrows-boot-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for folder in ["etc/sysctl.d", "usr/lib/sysctl.d"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let own = "net.core.default_qdisc = fq\nnet.ipv4.tcp_congestion_control = bbr\n";
        fs::write(root.join("etc/sysctl.d/99-narrows.conf"), own).unwrap();
        fs::write(
            root.join("usr/lib/sysctl.d/50-default.conf"),
            "net.core.default_qdisc = fq_codel\n",
        )
        .unwrap();
        fs::write(
            root.join("etc/sysctl.d/99-z.conf"),
            "# a\n-net/core/default_qdisc=cake\n",
        )
        .unwrap();
        fs::write(
            root.join("etc/sysctl.conf"),
            "net.ipv4.tcp_congestion_control = bbr\n",
        )
        .unwrap();
        let world = World {
            root: root.clone(),
            ..World::default()
        };
        let text = Text {
            text: own.to_string(),
            mode: 0o644,
        };
        let change = What::File("/etc/sysctl.d/99-narrows.conf".to_string(), Some(text));
        let notes = overridden([&change].into_iter(), &world);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].starts_with("/etc/sysctl.d/99-z.conf is read after"),
            "{notes:?}"
        );
        fs::remove_dir_all(root).unwrap();
    }
}
