//! State that most transfers never have.

use std::ops::{Deref, DerefMut};

/// A value that has no memory of its own until it is changed.
#[derive(Debug)]
pub(crate) struct Rare<T>(Option<Box<T>>);

/// A type whose default is a constant.
pub(crate) trait ConstDefault: Default + 'static {
    /// The default value.
    const DEFAULT: &'static Self;
}

impl<T> Rare<T> {
    /// A changed value.
    pub(crate) fn of(value: T) -> Self {
        Self(Some(Box::new(value)))
    }

    /// The value, if it was changed.
    pub(crate) fn changed(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// The default again, without memory of its own.
    pub(crate) fn reset(&mut self) {
        self.0 = None;
    }
}

impl<T: Default> Rare<T> {
    /// The default again. Its memory is kept: it is about to be changed.
    pub(crate) fn restore(&mut self) {
        if let Some(value) = self.changed() {
            *value = T::default();
        }
    }
}

impl<T: ConstDefault + PartialEq> From<T> for Rare<T> {
    fn from(value: T) -> Self {
        Self((value != *T::DEFAULT).then(|| Box::new(value)))
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Clone> Clone for Rare<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ConstDefault> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::DEFAULT)
    }
}

impl<T: ConstDefault> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ConstDefault for [u64; 2] {
        const DEFAULT: &'static Self = &[0; 2];
    }

    #[test]
    fn memory_is_for_changed_values() {
        let mut rare = Rare::<[u64; 2]>::default();
        assert_eq!((*rare, rare.changed().is_some()), ([0, 0], false));
        rare[1] = 7;
        assert_eq!((*rare, *rare.clone(), rare.changed().is_some()), ([0, 7], [0, 7], true));
        rare.restore();
        assert_eq!((*rare, rare.changed()), ([0, 0], Some(&mut [0, 0])));
        rare.reset();
        assert_eq!((*rare, Rare::from([0, 0]).changed()), ([0, 0], None));
        assert_eq!(*Rare::from([1, 2]), [1, 2]);
    }
}
