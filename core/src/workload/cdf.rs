//! Flow sizes from a file: a cumulative distribution, as measurements of data centers give it.
//!
//! Format: a size in bytes and a cumulative probability per line, both ascending; the probability
//! of the last line is 1. Empty lines and lines that begin with `#` are ignored. Between two lines,
//! sizes are distributed uniformly. Two lines with one size and an ascending probability are a
//! step: this share of the flows has this size. If the probability of the first line is above 0,
//! this share of the flows has the size of the first line.
//!
//! The distributions that are part of narrows:
//!
//! - `web_search`: flows of a cluster for web search (Alizadeh et al., "Data Center TCP", SIGCOMM
//!   2010, figure 4);
//! - `data_mining`: flows of a cluster for data mining (Greenberg et al., "VL2", SIGCOMM 2009,
//!   figure 2).
//!
//! Both distributions have the points that evaluations since pFabric (Alizadeh et al., SIGCOMM
//! 2013) use.

use crate::param::{Mistake, TextKind};
use crate::rng::Rng;
use crate::units::Bytes;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The distributions that are part of narrows.
pub static SHIPPED: TextKind = TextKind {
    shipped: &[
        ("web_search", include_str!("web_search.cdf")),
        ("data_mining", include_str!("data_mining.cdf")),
    ],
    check: |text| Cdf::read(text).map(|_| ()),
};

/// Maximum number of points.
const MOST_POINTS: usize = 100_000;
/// Maximum size of a flow.
const MOST_BYTES: f64 = 1e12;

/// A cumulative distribution: sizes with the probability of a smaller or an equal one.
#[derive(Clone, PartialEq, Debug)]
pub struct Cdf {
    points: Vec<(f64, f64)>,
}

impl Cdf {
    /// Reads the text of a file.
    pub fn read(text: &str) -> Result<Cdf, Mistake> {
        let mistake = |line: usize, problem: &str, fix: &str| Mistake {
            line,
            problem: problem.into(),
            fix: fix.into(),
        };
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let words: Vec<&str> = line
                .split(|c: char| c == ',' || c.is_ascii_whitespace())
                .filter(|word| !word.is_empty())
                .collect();
            let numbers: Vec<f64> = words.iter().filter_map(|word| word.parse().ok()).collect();
            if (words.len(), numbers.len()) == (3, 3) {
                let problem = "three numbers, as in files of ns-2 with a size, a flag and a \
                    probability";
                let fix = "remove the middle column, and write sizes in bytes, not in packets";
                return Err(mistake(number, problem, fix));
            }
            let (2, [size, probability]) = (words.len(), numbers.as_slice()) else {
                let fix = "write a size in bytes and a probability, such as 10000 0.15";
                return Err(mistake(number, "not two numbers", fix));
            };
            let (size, probability) = (*size, *probability);
            let possible = (0.0..=MOST_BYTES).contains(&size);
            if possible && probability > 1.0 && probability <= 100.0 {
                let problem = format!("the probability {probability}, which is above 1");
                let fix = "divide percentages by 100";
                return Err(mistake(number, &problem, fix));
            }
            if !possible || !(0.0..=1.0).contains(&probability) {
                let problem: String = format!(
                    "a size outside 0 to {MOST_BYTES:e} bytes, or a \
                    probability outside 0 to 1"
                );
                return Err(mistake(number, &problem, "correct the line"));
            }
            if points.last().is_some_and(|last| {
                size < last.0 || probability < last.1 || (size, probability) == *last
            }) {
                let fix = "sort the lines; the probability is cumulative";
                return Err(mistake(
                    number,
                    "a size or a probability that does not ascend",
                    fix,
                ));
            }
            if points.len() == MOST_POINTS {
                let problem = format!("more than {MOST_POINTS} lines");
                return Err(mistake(number, &problem, "remove lines"));
            }
            points.push((size, probability));
        }
        match points.last() {
            Some((size, probability)) if *size >= 1.0 && *probability == 1.0 => Ok(Cdf { points }),
            Some((_, probability)) if *probability == 1.0 => Err(mistake(
                0,
                "the largest size is below a byte",
                "write sizes in bytes",
            )),
            _ => Err(mistake(
                0,
                "the last line has no probability of 1",
                "add the largest size with the probability 1",
            )),
        }
    }
    /// The mean size, in bytes.
    pub fn mean(&self) -> f64 {
        let first = self.points[0].0 * self.points[0].1;
        let pairs = self.points.windows(2);
        let rest = pairs.map(|pair| (pair[1].1 - pair[0].1) * (pair[0].0 + pair[1].0) / 2.0);
        first + rest.sum::<f64>()
    }
    /// Draws a size of at least a byte.
    pub fn draw(&self, rng: &mut Rng) -> Bytes {
        let u = rng.unit();
        let above = self
            .points
            .partition_point(|(_, probability)| *probability <= u);
        let size = match (above.checked_sub(1), self.points.get(above)) {
            (Some(below), Some(above)) => {
                let below = self.points[below];
                below.0 + (above.0 - below.0) * (u - below.1) / (above.1 - below.1)
            }
            (None, Some(first)) => first.0,
            (_, None) => self.points.last().map_or(0.0, |last| last.0),
        };
        Bytes::new((size + 0.5).max(1.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_sizes_have_the_mean_and_the_quantiles_of_the_file() {
        for (name, text) in SHIPPED.shipped {
            let cdf = Cdf::read(text).unwrap();
            let mut rng = Rng::named(1, name);
            let mut sizes: Vec<u64> = (0..400_000).map(|_| cdf.draw(&mut rng).get()).collect();
            sizes.sort_unstable();
            for (size, probability) in &cdf.points {
                let share = sizes.partition_point(|drawn| *drawn as f64 <= *size) as f64 / 4e5;
                assert!(
                    (share - probability).abs() < 0.005,
                    "{name}, {size}: {share}"
                );
            }
            let mean = sizes.iter().map(|size| *size as f64).sum::<f64>() / 4e5;
            assert!((mean / cdf.mean() - 1.0).abs() < 0.03, "{name}: {mean}");
        }
        let mean = |i: usize| Cdf::read(SHIPPED.shipped[i].1).unwrap().mean();
        assert!((mean(0) - 1.71e6).abs() < 0.02e6, "{}", mean(0));
        assert!((mean(1) - 12.6e6).abs() < 0.2e6, "{}", mean(1));
    }

    #[test]
    fn lines_with_one_size_are_a_step() {
        let cdf = Cdf::read("1000 0\n1000 0.5\n2000 0.5\n2000 0.7\n4000 1\n4000 1.0\n");
        assert_eq!(cdf.unwrap_err().line, 6);
        let cdf = Cdf::read("1000 0\n1000 0.5\n2000 0.5\n2000 0.7\n4000 1\n").unwrap();
        assert!((cdf.mean() - 1800.0).abs() < 1e-9);
        let mut rng = Rng::named(1, "step");
        let sizes: Vec<u64> = (0..100_000).map(|_| cdf.draw(&mut rng).get()).collect();
        let share = |size| sizes.iter().filter(|drawn| **drawn == size).count() as f64 / 1e5;
        assert!((share(1000) - 0.5).abs() < 0.01 && (share(2000) - 0.2).abs() < 0.01);
        assert!(sizes.iter().all(|size| *size == 1000 || *size >= 2000));
    }

    #[test]
    fn percentages_and_three_columns_have_messages_of_their_own() {
        let message = |text: &str| {
            let mistake = Cdf::read(text).unwrap_err();
            format!("{}: {}; {}", mistake.line, mistake.problem, mistake.fix)
        };
        assert_eq!(
            message("0 0\n10000 15\n20000 100\n"),
            "2: the probability 15, which is above 1; divide percentages by 100"
        );
        assert_eq!(
            message("6 1 0\n6 1 0.15\n13 1 1\n"),
            "1: three numbers, as in files of ns-2 with a size, a flag and a probability; remove \
             the middle column, and write sizes in bytes, not in packets"
        );
        assert_eq!(
            message("0 1\n"),
            "0: the largest size is below a byte; write sizes in bytes"
        );
    }

    #[test]
    fn mistakes_name_the_line() {
        for (text, line) in [
            ("1 0.5\n2 x\n", 2),
            ("# sizes\n\n5 0.5\n4 1\n", 4),
            ("1 0.5\n2 0.4\n", 2),
            ("1 2\n", 1),
            ("1 0.5\n", 0),
            ("", 0),
        ] {
            assert_eq!(Cdf::read(text).unwrap_err().line, line, "{text}");
        }
    }
}
