//! The minimum or maximum of a sliding window, by Nichols' filter. The filter keeps three
//! candidates: the best value, the best value since the first candidate, and the best value since
//! the second candidate. The size of the state is constant. The result is exact whenever a new best
//! value arrives. Linux: `lib/win_minmax.c`.

/// An integer in which a filter stores times and values.
pub trait Stored: Copy + Ord + Into<u64> {
    /// The least value.
    const MIN: Self;
    /// The greatest value.
    const MAX: Self;
    /// The value `v`, or the greatest value if `v` is greater.
    fn of(v: u64) -> Self;
}
impl Stored for u32 {
    const MIN: u32 = u32::MIN;
    const MAX: u32 = u32::MAX;
    #[inline]
    fn of(v: u64) -> u32 {
        v.min(u64::from(u32::MAX)) as u32
    }
}
impl Stored for u64 {
    const MIN: u64 = u64::MIN;
    const MAX: u64 = u64::MAX;
    #[inline]
    fn of(v: u64) -> u64 {
        v
    }
}

/// Tracks the best value of a window: the greatest if `MAX`, otherwise the least. Values greater
/// than those of `V` count as the greatest of `V`, and times likewise with `T`.
#[derive(Clone, Debug)]
pub struct Windowed<const MAX: bool, V: Stored, T: Stored>([Candidate<V, T>; 3]);

/// A value and its time. The record has no padding, because there is one for each flow.
#[derive(Copy, Clone, Debug)]
#[repr(Rust, packed(4))]
struct Candidate<V, T> {
    value: V,
    /// Without a value, the time is the greatest, and every value is better.
    time: T,
}

impl<const MAX: bool, V: Stored, T: Stored> Default for Windowed<MAX, V, T> {
    fn default() -> Self {
        let worst = if MAX { V::MIN } else { V::MAX };
        Windowed(
            [Candidate {
                value: worst,
                time: T::MAX,
            }; 3],
        )
    }
}

/// The least value of a window.
pub type WindowedMin<V = u64, T = V> = Windowed<false, V, T>;
/// The greatest value of a window.
pub type WindowedMax<V = u64, T = V> = Windowed<true, V, T>;

impl<const MAX: bool, V: Stored, T: Stored> Windowed<MAX, V, T> {
    fn beats(v: V, other: V) -> bool {
        if MAX { v >= other } else { v <= other }
    }
    /// The time from `then` to `now`.
    fn since(now: T, then: T) -> u64 {
        now.into().saturating_sub(then.into())
    }
    fn value(&self, i: usize) -> V {
        self.0[i].value
    }
    fn time(&self, i: usize) -> T {
        self.0[i].time
    }
    /// Returns the best value in the window; `None` before the first update.
    #[inline]
    pub fn get(&self) -> Option<u64> {
        (self.time(0) != T::MAX).then_some(self.value(0).into())
    }
    /// Adds the value `v` at `now` and forgets candidates older than `window`. `now` and `window`
    /// may have any common unit; `now` must never decrease.
    #[inline(always)]
    pub fn update(&mut self, v: u64, now: u64, window: u64) {
        // Most values change nothing: the candidates are ordered, so that the last is the worst.
        let (v, now) = (V::of(v), T::of(now));
        let age = Self::since(now, self.time(0));
        if Self::beats(v, self.value(2)) || (age > window / 4 && self.ages(age, window)) {
            self.change(v, now, window);
        }
    }
    /// Returns whether the candidates change although a value is worse than all of them. `age` is
    /// that of the first candidate, and exceeds a quarter of the window.
    #[inline(always)]
    fn ages(&self, age: u64, window: u64) -> bool {
        age > window
            || self.time(1) == self.time(0)
            || (self.time(2) == self.time(1) && age > window / 2)
    }
    #[inline(never)]
    fn change(&mut self, v: V, now: T, window: u64) {
        if Self::beats(v, self.value(0)) || Self::since(now, self.time(2)) > window {
            return self.replace_from(0, v, now);
        }
        if Self::beats(v, self.value(1)) {
            self.replace_from(1, v, now);
        } else if Self::beats(v, self.value(2)) {
            self.replace_from(2, v, now);
        }
        let age = Self::since(now, self.time(0));
        if age > window {
            self.shift(v, now);
            if Self::since(now, self.time(0)) > window {
                self.shift(v, now);
            }
        } else if self.time(1) == self.time(0) && age > window / 4 {
            self.replace_from(1, v, now);
        } else if self.time(2) == self.time(1) && age > window / 2 {
            self.replace_from(2, v, now);
        }
    }
    /// Replaces the candidates from index `first` on.
    fn replace_from(&mut self, first: usize, value: V, time: T) {
        self.0[first..].fill(Candidate { value, time });
    }
    /// Removes the first candidate, and adds a last one.
    fn shift(&mut self, value: V, time: T) {
        self.0 = [self.0[1], self.0[2], Candidate { value, time }];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_is_forgotten_after_its_window() {
        let mut m = WindowedMin::<u32>::default();
        m.update(10, 0, 100);
        for t in 1..=200 {
            m.update(20, t, 100);
        }
        assert_eq!(m.get(), Some(20));
    }

    #[test]
    fn the_maximum_falls_to_the_best_of_the_later_parts() {
        let mut m = WindowedMax::<u64>::default();
        m.update(50, 0, 10);
        m.update(30, 4, 10);
        m.update(20, 8, 10);
        assert_eq!(m.get(), Some(50));
        m.update(10, 11, 10);
        assert_eq!(m.get(), Some(30));
    }
}
