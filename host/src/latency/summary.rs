//! Writes the result of a latency test as JSON, with the counts that show how far it can be
//! trusted.
//!
//! Times are µs unless a name states otherwise. Values that were not measured, or for which the
//! sample is too small, are null.

use super::exchange::{Episode, Outcome, Pace, Plan, Slow};
use super::histogram::Histogram;
use crate::latency::attribution::{NAMES, Parts};
use serde_json::{Value, json};

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn parts_of(parts: &Parts) -> Value {
    NAMES
        .iter()
        .zip(parts)
        .filter_map(|((name, _), took)| took.map(|took| ((*name).to_string(), json!(us(took)))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn slow_of(slow: &Slow, began: u64) -> Value {
    json!({
        "number": slow.number,
        "t_s": slow.at.saturating_sub(began) as f64 / 1e9,
        "at": super::date(slow.at),
        "response_us": us(slow.took),
        "rtt_us": us(slow.rtt),
        "late_us": us(slow.late),
        "blamed": NAMES[slow.attributed].0,
        "parts_us": parts_of(&slow.parts),
    })
}

fn episode_of(episode: &Episode, began: u64) -> Value {
    json!({
        "t_s": episode.from.saturating_sub(began) as f64 / 1e9,
        "at": super::date(episode.from),
        "lasted_us": us(episode.until - episode.from),
        "answers": episode.answers,
        "blamed": NAMES[episode.most_attributed()].0,
        "number": episode.worst.number,
        "response_us": us(episode.worst.took),
        "rtt_us": us(episode.worst.rtt),
        "late_us": us(episode.worst.late),
    })
}

/// The result `seen` of a test with this plan as JSON.
pub fn to_json(plan: &Plan, seen: &Outcome) -> Value {
    let known = |all: &Histogram| {
        if all.count() > 0 {
            all.to_json()
        } else {
            Value::Null
        }
    };
    let mut kept: Vec<Slow> = seen.slowest.iter().map(|slow| slow.0).collect();
    kept.sort_by_key(|slow| slow.at);
    let attributed: serde_json::Map<_, _> = NAMES
        .iter()
        .zip(seen.attributed)
        .filter(|(_, n)| *n > 0)
        .map(|((name, _), n)| ((*name).to_string(), json!(n)))
        .collect();
    let parts: serde_json::Map<_, _> = NAMES
        .iter()
        .zip(&seen.parts)
        .map(|((name, _), part)| ((*name).to_string(), known(part)))
        .collect();
    json!({
        "began": super::date(seen.began),
        "lasted_s": seen.took as f64 / 1e9,
        "size_bytes": seen.size,
        "interval_us": us(plan.interval),
        "pace": match plan.pace { Pace::Even => "even", Pace::PingPong => "pingpong" },
        "warmup": plan.warmup,
        "interrupted": seen.interrupted,
        "last_answer_s": seen.last as f64 / 1e9,
        "sent": seen.sent,
        "answered": seen.answered,
        "lost": seen.lost(),
        "duplicates": seen.duplicates,
        "reordered": seen.reordered,
        "mismatches": seen.mismatches,
        "corrupted": seen.corrupted,
        "reconnections": seen.reconnections,
        "foreign": seen.foreign,
        "refused": seen.refused,
        "unsent": seen.unsent,
        "skipped": seen.skipped,
        "contradicted": seen.contradicted,
        "socket_drops": seen.socket_drops,
        "far_count": seen.far_count,
        "notes": seen.notes,
        "class": { "there": seen.classes.0, "back": seen.classes.1 },
        "ttl": seen.ttl,
        "rtt_us": known(&seen.rtt),
        "late_us": known(&seen.late),
        "response_us": known(&seen.response),
        "parts_us": parts,
        "one_way": seen.one_way.to_json(),
        "slow": {
            "limit_us": (seen.slow_limit < u64::MAX).then(|| us(seen.slow_limit)),
            "count": seen.slow,
            "blamed": attributed,
            "episodes": {
                "count": seen.episodes.len() as u64 + seen.forgotten,
                "kept": seen.episodes.values().map(|episode| episode_of(episode,
                seen.began)).collect::<Vec<_>>(),
            },
            "kept": kept.iter().map(|slow| slow_of(slow, seen.began)).collect::<Vec<_>>(),
        },
    })
}
