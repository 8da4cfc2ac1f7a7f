//! The minimum or maximum of a sliding window, by Nichols' filter. The filter keeps three
//! candidates: the best value, the best value since the first candidate, and the best value since
//! the second candidate. The size of the state is constant. The result is exact whenever a new best
//! value arrives. Linux: `lib/win_minmax.c`.

/// Tracks the best value of a window: the greatest if `MAX`, otherwise the least.
#[derive(Clone, Debug)]
pub struct Windowed<const MAX: bool> {
    /// Times and values. Without a value, the time is `u64::MAX`, and every value is better.
    best: [(u64, u64); 3],
}

impl<const MAX: bool> Default for Windowed<MAX> {
    fn default() -> Self {
        let worst = if MAX { 0 } else { u64::MAX };
        Windowed {
            best: [(u64::MAX, worst); 3],
        }
    }
}

/// The least value of a window.
pub type WindowedMin = Windowed<false>;
/// The greatest value of a window.
pub type WindowedMax = Windowed<true>;

impl<const MAX: bool> Windowed<MAX> {
    fn beats(v: u64, other: u64) -> bool {
        if MAX { v >= other } else { v <= other }
    }
    /// Returns the best value in the window; `None` before the first update.
    pub fn get(&self) -> Option<u64> {
        (self.best[0].0 != u64::MAX).then_some(self.best[0].1)
    }
    /// Adds the value `v` at `now` and forgets candidates older than `window`. `now` and `window`
    /// may have any common unit; `now` must never decrease.
    #[inline(always)]
    pub fn update(&mut self, v: u64, now: u64, window: u64) {
        // Most values change nothing: the candidates are ordered, so that the last is the worst.
        let young = now.saturating_sub(self.best[0].0) <= window / 4;
        if !young || Self::beats(v, self.best[2].1) {
            self.change(v, now, window);
        }
    }
    #[inline(never)]
    fn change(&mut self, v: u64, now: u64, window: u64) {
        let s = (now, v);
        if Self::beats(v, self.best[0].1) || now.saturating_sub(self.best[2].0) > window {
            self.best = [s; 3];
            return;
        }
        if Self::beats(v, self.best[1].1) {
            self.best[1] = s;
            self.best[2] = s;
        } else if Self::beats(v, self.best[2].1) {
            self.best[2] = s;
        }
        let age = now.saturating_sub(self.best[0].0);
        if age > window {
            self.best = [self.best[1], self.best[2], s];
            if now.saturating_sub(self.best[0].0) > window {
                self.best = [self.best[1], self.best[2], s];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            self.best[1] = s;
            self.best[2] = s;
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_is_forgotten_after_its_window() {
        let mut m = WindowedMin::default();
        m.update(10, 0, 100);
        for t in 1..=200 {
            m.update(20, t, 100);
        }
        assert_eq!(m.get(), Some(20));
    }

    #[test]
    fn the_maximum_falls_to_the_best_of_the_later_parts() {
        let mut m = WindowedMax::default();
        m.update(50, 0, 10);
        m.update(30, 4, 10);
        m.update(20, 8, 10);
        assert_eq!(m.get(), Some(50));
        m.update(10, 11, 10);
        assert_eq!(m.get(), Some(30));
    }
}
