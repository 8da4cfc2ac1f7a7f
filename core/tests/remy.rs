//! Trees of rules and Remy's files, whatever they hold.

use narrows_core::cc::remy::tree::AXES;
use narrows_core::cc::remy::{Memory, Tree, from_dna};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::fmt::Write;

/// A tree as Remy makes one: a rule, or a box cut in two along some axes at once.
#[derive(Clone, Debug)]
enum Whisker {
    Rule(i32, f64, f64),
    /// Where each axis is cut, as a share of the box, if it is.
    Grid([Option<f64>; 4], Vec<Whisker>),
}

fn whisker() -> impl Strategy<Value = Whisker> {
    let rule =
        (-300..300i32, 0.0..2.0f64, 0.0..50.0f64).prop_map(|(b, m, r)| Whisker::Rule(b, m, r));
    rule.prop_recursive(4, 60, 4, |inner| {
        // A cut at the lower bound leaves an empty box below it, as in Remy's published files.
        let share = prop_oneof![4 => 0.1..0.9f64, 1 => Just(0.0)];
        let cut = proptest::option::weighted(0.4, share);
        (
            [cut.clone(), cut.clone(), cut.clone(), cut],
            proptest::collection::vec(inner, 16),
        )
            .prop_map(|(cuts, children)| {
                let n = 1 << cuts.iter().flatten().count();
                Whisker::Grid(cuts, children.into_iter().take(n).collect())
            })
    })
}

type Region = (Memory, Memory);

impl Whisker {
    /// The boxes of the children.
    fn boxes(cuts: &[Option<f64>; 4], region: &Region) -> Vec<Region> {
        let mut boxes = vec![*region];
        for (axis, share) in cuts.iter().enumerate() {
            let Some(share) = share else { continue };
            let at = region.0[axis] + share * (region.1[axis] - region.0[axis]);
            boxes = boxes
                .into_iter()
                .flat_map(|b| {
                    let (mut below, mut above) = (b, b);
                    below.1[axis] = at;
                    above.0[axis] = at;
                    [below, above]
                })
                .collect();
        }
        boxes
    }
    fn dna(&self, region: &Region) -> Vec<u8> {
        let mut out = message(1, &domain(region));
        match self {
            Whisker::Rule(increment, multiple, intersend) => {
                let mut leaf = varint(31 << 3);
                leaf.extend(varint(u64::from((increment << 1 ^ increment >> 31) as u32)));
                leaf.extend(
                    [
                        double(32, *multiple),
                        double(33, *intersend),
                        message(34, &domain(region)),
                    ]
                    .concat(),
                );
                out.extend(message(3, &leaf));
            }
            Whisker::Grid(cuts, children) => {
                for (child, region) in children.iter().zip(Whisker::boxes(cuts, region)) {
                    out.extend(message(2, &child.dna(&region)));
                }
            }
        }
        out
    }
    /// The action at a memory: increment, multiple, intersend.
    fn at(&self, memory: &Memory, region: &Region) -> (i32, f64, f64) {
        match self {
            Whisker::Rule(b, m, r) => (*b, *m, *r),
            Whisker::Grid(cuts, children) => {
                let boxes = Whisker::boxes(cuts, region);
                let holds = |b: &Region| (0..4).all(|a| b.0[a] <= memory[a] && memory[a] < b.1[a]);
                let i = boxes.iter().position(holds).expect("a box");
                children[i].at(memory, &boxes[i])
            }
        }
    }
}

fn varint(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out
}
fn double(field: u64, x: f64) -> Vec<u8> {
    let mut out = varint(field << 3 | 1);
    out.extend(x.to_le_bytes());
    out
}
fn message(field: u64, content: &[u8]) -> Vec<u8> {
    [
        varint(field << 3 | 2),
        varint(content.len() as u64),
        content.to_vec(),
    ]
    .concat()
}
fn domain(region: &Region) -> Vec<u8> {
    let memory = |m: &Memory| {
        (21..)
            .zip(m)
            .flat_map(|(field, x)| double(field, *x))
            .collect::<Vec<u8>>()
    };
    [
        message(11, &memory(&region.0)),
        message(12, &memory(&region.1)),
    ]
    .concat()
}

const WHOLE: Region = ([0.0; 4], [163_840.0; 4]);

/// A tree's text, cut at random.
fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec((0..4usize, 0..4u32, any::<u16>()), 1..60).prop_map(|nodes| {
        let mut text = String::from("remy-tree 1\n");
        for (axis, depth, n) in nodes {
            let indent = " ".repeat(2 * depth as usize);
            let _ = if n % 3 == 0 {
                writeln!(text, "{indent}{} < {n}", AXES[axis])
            } else {
                writeln!(
                    text,
                    "{indent}multiple 0.{n} increment {} intersend {n}",
                    i32::from(n) - 30_000
                )
            };
        }
        text
    })
}

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// A file of Remy's becomes a tree that does the same at every memory, and so does its text.
    #[test]
    fn a_tree_file_is_parsed_to_an_equivalent_tree(
        whisker in whisker(),
        memories in proptest::collection::vec(proptest::array::uniform4(0.0..163_839.0f64), 50),
    ) {
        let tree = from_dna(&whisker.dna(&WHOLE))
            .map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        let again = Tree::read(&tree.to_text()).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        prop_assert_eq!(&again, &tree);
        for memory in memories.iter().chain([&[0.0; 4]]) {
            let action = tree.action(memory);
            prop_assert_eq!((action.increment, action.multiple, action.intersend_ms),
            whisker.at(memory, &WHOLE));
        }
    }

    /// Bytes that nobody wrote, or that somebody changed: an answer, and no panic.
    #[test]
    fn no_file_is_too_strange(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        whisker in whisker(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let _ = from_dna(&bytes);
        let mut changed = whisker.dna(&WHOLE);
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        if let Ok(tree) = from_dna(&changed) {
            // A valid tree can be written.
            prop_assert_eq!(Tree::read(&tree.to_text()), Ok(tree));
        }
    }

    /// The same of texts; what is read, is read again from what it is written as.
    #[test]
    fn no_text_is_too_strange(text in text(), noise in ".{0,60}") {
        let _ = Tree::read(&noise);
        let _ = Tree::read(&format!("remy-tree 1\n{noise}"));
        if let Ok(tree) = Tree::read(&text) {
            prop_assert_eq!(Tree::read(&tree.to_text()), Ok(tree));
        }
    }
}

/// A message within a message, as deep as bytes go.
#[test]
fn a_file_without_end_is_refused() {
    let mut file = Vec::new();
    while file.len() < 100_000 {
        file = message(2, &file);
    }
    assert!(from_dna(&file).is_err());
    // Many children of nothing.
    assert!(from_dna(&message(2, &[]).repeat(100_000)).is_err());
}
