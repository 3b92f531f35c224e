//! Values that are written as one whole number.

use std::time::Duration;

/// A number of some type.
pub(super) trait Number {
    /// Tells whether the number fits; if not, nothing changes.
    fn set(&mut self, number: u64) -> bool;
    fn get(&self) -> Option<u64>;
}

impl Number for u64 {
    fn set(&mut self, number: u64) -> bool {
        *self = number;
        true
    }

    fn get(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Number for u32 {
    fn set(&mut self, number: u64) -> bool {
        Self::try_from(number).map(|number| *self = number).is_ok()
    }

    fn get(&self) -> Option<u64> {
        Some((*self).into())
    }
}

impl Number for usize {
    fn set(&mut self, number: u64) -> bool {
        Self::try_from(number).map(|number| *self = number).is_ok()
    }

    fn get(&self) -> Option<u64> {
        u64::try_from(*self).ok()
    }
}

impl Number for Option<u64> {
    fn set(&mut self, number: u64) -> bool {
        *self = Some(number);
        true
    }

    fn get(&self) -> Option<u64> {
        *self
    }
}

/// In milliseconds.
impl Number for Duration {
    fn set(&mut self, number: u64) -> bool {
        *self = Self::from_millis(number);
        true
    }

    fn get(&self) -> Option<u64> {
        u64::try_from(self.as_millis()).ok()
    }
}
