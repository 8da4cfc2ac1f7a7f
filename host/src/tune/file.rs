//! Reads, writes, removes and restores a drop-in file of narrows below `/etc`.

use super::safe_file::{Dir, Found};
use crate::tune::target::World;
use serde_json::{Value, json};
use std::io;

fn parts(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The present file as JSON, with everything that is needed to restore it: content, mode and owner.
/// If it does not exist: the missing directories of its path.
pub fn live(path: &str, world: &World) -> io::Result<Value> {
    let (folder, name) = parts(path);
    let found = match Dir::open(&world.root, folder, None)? {
        Some(dir) => dir.read(name)?,
        None => None,
    };
    Ok(match found {
        None => json!({ "absent": true, "missing": Dir::missing(&world.root, folder)? }),
        Some(found) => json!({
            "hex": super::to_hex(&found.bytes),
            "mode": format!("{:04o}", found.mode),
            "owner": [found.owner.0, found.owner.1],
        }),
    })
}

/// Whether the present file has this text and mode.
pub fn is(live: &Value, text: &str, mode: u32) -> bool {
    live["hex"].as_str() == Some(&super::to_hex(text.as_bytes()))
        && live["mode"].as_str() == Some(&format!("{mode:04o}"))
}

/// Whether two states of a file have the same content, mode and owner.
pub fn same(a: &Value, b: &Value) -> bool {
    a["absent"] == b["absent"]
        && a["hex"] == b["hex"]
        && a["mode"] == b["mode"]
        && a["owner"] == b["owner"]
}

/// Writes the file, owned by this user, and creates missing directories.
pub fn write(path: &str, text: &str, mode: u32, world: &World) -> io::Result<()> {
    let file = Found {
        bytes: text.as_bytes().to_vec(),
        mode,
        owner: crate::sys::ids(),
    };
    put(path, &file, world)
}

fn put(path: &str, file: &Found, world: &World) -> io::Result<()> {
    let (folder, name) = parts(path);
    let dir = Dir::open(&world.root, folder, Some(0o755))?;
    world.step();
    let dir = dir.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("{folder}: does not exist"))
    })?;
    dir.replace(name, file, &mut || world.step())
}

/// Removes the file if it exists.
pub fn remove(path: &str, world: &World) -> io::Result<()> {
    let (folder, name) = parts(path);
    match Dir::open(&world.root, folder, None)? {
        Some(dir) => dir.remove(name),
        None => Ok(()),
    }
}

/// Restores the previous file, and removes the temporary file of an interrupted write. If there was
/// none, removes the file and the empty directories that were created for it.
pub fn restore(path: &str, before: &Value, world: &World) -> io::Result<()> {
    let (folder, name) = parts(path);
    if let Some(dir) = Dir::open(&world.root, folder, None)? {
        dir.tidy(name)?;
    }
    if before["absent"] != json!(true) {
        let odd = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{path}: the journal has no previous content"),
            )
        };
        let owner = |i: usize| {
            before["owner"][i]
                .as_u64()
                .and_then(|id| u32::try_from(id).ok())
        };
        let file = Found {
            bytes: before["hex"]
                .as_str()
                .and_then(super::from_hex)
                .ok_or_else(odd)?,
            mode: before["mode"]
                .as_str()
                .and_then(|m| u32::from_str_radix(m, 8).ok())
                .filter(|m| *m <= 0o777)
                .ok_or_else(odd)?,
            owner: owner(0).zip(owner(1)).ok_or_else(odd)?,
        };
        // On a full disk no second file can be created, but the blocks of the existing file can be
        // overwritten.
        let in_place = || {
            Dir::open(&world.root, folder, None)
                .ok()
                .flatten()?
                .overwrite(name, &file)
                .ok()
        };
        return put(path, &file, world).or_else(|e| in_place().ok_or(e));
    }
    remove(path, world)?;
    world.step();
    // Removes empty directories that were created for the file, the innermost first.
    for made in before["missing"].as_array().into_iter().flatten().rev() {
        let (outer, name) = parts(made.as_str().unwrap_or_default());
        let ours = folder == made
            || folder.starts_with(&format!("{}/", made.as_str().unwrap_or_default()));
        if let (true, Some(dir)) = (ours, Dir::open(&world.root, outer, None)?) {
            dir.remove_empty(name)?;
            world.step();
        }
    }
    Ok(())
}
