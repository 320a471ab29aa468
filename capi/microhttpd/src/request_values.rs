//! The values of a request: `MHD_get_connection_values_n`, `MHD_lookup_connection_value_n`,
//! `MHD_set_connection_value_n`.
//!
//! The order is that of their addition: arguments, header fields, cookies, footers, then those of
//! the program. Values are shared and never moved, so that C may keep pointers to them for the life
//! of the request, and the program may add values while it is called for each.

use std::sync::{Arc, Mutex, PoisonError};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestValue {
    /// Bits of `enum MHD_ValueKind`.
    pub kinds: ValueKinds,
    /// `None` for a value that the program added without a name.
    pub name: Option<ValueText>,
    /// `None` for an argument without `=`.
    pub value: Option<ValueText>,
}

/// Bytes for C: a NUL follows them, and may be among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueText(Box<[u8]>);

/// A set of `enum MHD_ValueKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueKinds(pub u32);

/// The values of one request.
#[derive(Debug, Default)]
pub struct RequestValues {
    values: Mutex<Vec<Arc<RequestValue>>>,
}

impl ValueKinds {
    /// `MHD_HEADER_KIND`.
    pub const HEADER: Self = Self(1);
    /// `MHD_COOKIE_KIND`.
    pub const COOKIE: Self = Self(2);
    /// `MHD_POSTDATA_KIND`: never set by the library.
    pub const POSTDATA: Self = Self(4);
    /// `MHD_GET_ARGUMENT_KIND`.
    pub const ARGUMENT: Self = Self(8);
    /// `MHD_FOOTER_KIND`.
    pub const FOOTER: Self = Self(16);

    /// True if both have a kind in common.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl ValueText {
    /// A copy of the bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self([bytes, b"\0"].concat().into_boxed_slice())
    }

    /// The bytes, without the NUL that follows them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.split_last().expect("a NUL follows the bytes").1
    }

    /// The bytes and the NUL that follows them.
    #[must_use]
    pub fn bytes_with_nul(&self) -> &[u8] {
        &self.0
    }
}

impl RequestValues {
    /// Adds a value.
    pub fn add(&self, kinds: ValueKinds, name: Option<&[u8]>, value: Option<&[u8]>) {
        let (name, value) = (name.map(ValueText::new), value.map(ValueText::new));
        self.with(|values| values.push(Arc::new(RequestValue { kinds, name, value })));
    }

    /// `MHD_set_connection_value_n`. False for texts with a NUL among their bytes.
    pub fn add_of_program(
        &self,
        kinds: ValueKinds,
        name: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> bool {
        let is_text = [name, value].iter().flatten().all(|text| !text.contains(&0));
        if is_text {
            self.add(kinds, name, value);
        }
        is_text
    }

    /// The values of these kinds at this time, in order.
    #[must_use]
    pub fn of(&self, kinds: ValueKinds) -> Vec<Arc<RequestValue>> {
        let is_of = |value: &&Arc<RequestValue>| value.kinds.intersects(kinds);
        self.with(|values| values.iter().filter(is_of).map(Arc::clone).collect())
    }

    /// The first value of these kinds with this name, compared without case. The value may have no
    /// text. Without a name, the first value without a name.
    #[must_use]
    pub fn find(&self, kinds: ValueKinds, name: Option<&[u8]>) -> Option<Arc<RequestValue>> {
        let is_named = |value: &RequestValue| match (&value.name, name) {
            (Some(found), Some(name)) => found.bytes().eq_ignore_ascii_case(name),
            (None, None) => true,
            _ => false,
        };
        let is_found =
            |value: &&Arc<RequestValue>| value.kinds.intersects(kinds) && is_named(value);
        self.with(|values| values.iter().find(is_found).map(Arc::clone))
    }

    /// The lock is not held during a call of the program.
    fn with<T>(&self, access: impl FnOnce(&mut Vec<Arc<RequestValue>>) -> T) -> T {
        access(&mut self.values.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `POST /u?a=1&b=2&n&q%00r=z%00y` with fields, a cookie and a footer, in the order in which
    /// 0.9.75 reports them.
    fn recorded() -> RequestValues {
        let values = RequestValues::default();
        type Added = (ValueKinds, &'static [u8], Option<&'static [u8]>);
        let all: [Added; 11] = [
            (ValueKinds::ARGUMENT, b"a", Some(b"1")),
            (ValueKinds::ARGUMENT, b"b", Some(b"2")),
            (ValueKinds::ARGUMENT, b"n", None),
            (ValueKinds::ARGUMENT, b"q\0r", Some(b"z\0y")),
            (ValueKinds::HEADER, b"Host", Some(b"h")),
            (ValueKinds::HEADER, b"X-Y", Some(b"1")),
            (ValueKinds::HEADER, b"Cookie", Some(b"c=d")),
            (ValueKinds::HEADER, b"x-y", Some(b"2")),
            (ValueKinds::HEADER, b"Transfer-Encoding", Some(b"chunked")),
            (ValueKinds::COOKIE, b"c", Some(b"d")),
            (ValueKinds::FOOTER, b"F", Some(b"foot")),
        ];
        for (kinds, name, value) in all {
            values.add(kinds, Some(name), value);
        }
        values
    }

    fn lookup(values: &RequestValues, kinds: u32, name: &[u8]) -> Option<Option<Vec<u8>>> {
        let found = values.find(ValueKinds(kinds), Some(name))?;
        Some(found.value.as_ref().map(|value| value.bytes().to_vec()))
    }

    #[test]
    fn lookups_have_the_results_of_the_original() {
        let values = recorded();
        type Case = (u32, &'static [u8], Option<Option<&'static [u8]>>);
        let cases: &[Case] = &[
            (8, b"a", Some(Some(b"1"))),
            (8, b"A", Some(Some(b"1"))),
            (1, b"x-y", Some(Some(b"1"))),
            (9, b"b", Some(Some(b"2"))),
            (8, b"n", Some(None)),
            (8, b"z", None),
            (8, b"", None),
            (1, b"host", Some(Some(b"h"))),
            (2, b"C", Some(Some(b"d"))),
            (8, b"q\0r", Some(Some(b"z\0y"))),
            (8, b"q", None),
            (16, b"f", Some(Some(b"foot"))),
            (u32::MAX, b"x-y", Some(Some(b"1"))),
            (0, b"a", None),
        ];
        for (kinds, name, expected) in cases {
            let expected = expected.map(|value| value.map(<[u8]>::to_vec));
            assert_eq!(lookup(&values, *kinds, name), expected, "{kinds} {name:?}");
        }
        assert_eq!(values.find(ValueKinds::HEADER, None), None);
    }

    #[test]
    fn kinds_select_values() {
        let values = recorded();
        let counts =
            [u32::MAX, 0, 1, 2, 4, 8, 16, 9].map(|kinds| values.of(ValueKinds(kinds)).len());
        assert_eq!(counts, [11, 0, 5, 1, 0, 4, 1, 9]);
    }

    #[test]
    fn values_of_the_program_follow() {
        let values = recorded();
        assert!(values.add_of_program(ValueKinds(12), Some(b"two"), Some(b"t")));
        assert!(values.add_of_program(ValueKinds::ARGUMENT, Some(b"a"), Some(b"second")));
        assert!(values.add_of_program(ValueKinds::HEADER, Some(b"New"), None));
        assert!(values.add_of_program(ValueKinds::POSTDATA, Some(b""), Some(b"e")));
        assert!(values.add_of_program(ValueKinds::POSTDATA, None, Some(b"x")));
        assert!(!values.add_of_program(ValueKinds::POSTDATA, Some(b"pn"), Some(b"a\0b")));
        assert_eq!(values.of(ValueKinds(u32::MAX)).len(), 16);
        assert_eq!(lookup(&values, 4, b"two"), Some(Some(b"t".to_vec())));
        assert_eq!(lookup(&values, 8, b"a"), Some(Some(b"1".to_vec())));
        assert_eq!(lookup(&values, 1, b"new"), Some(None));
        let unnamed = values.find(ValueKinds::POSTDATA, None).unwrap();
        assert_eq!(unnamed.value, Some(ValueText::new(b"x")));
    }

    #[test]
    fn values_stay_where_they_are_while_others_are_added() {
        let values = recorded();
        let first = values.find(ValueKinds::ARGUMENT, Some(b"a")).unwrap();
        let address = first.value.as_ref().unwrap().bytes_with_nul().as_ptr();
        for value in values.of(ValueKinds::ARGUMENT) {
            let name = value.name.as_ref().map(ValueText::bytes);
            values.add(ValueKinds::POSTDATA, name, None);
        }
        let again = values.find(ValueKinds::ARGUMENT, Some(b"a")).unwrap();
        assert_eq!(again.value.as_ref().unwrap().bytes_with_nul().as_ptr(), address);
        assert_eq!(first.value.as_ref().unwrap().bytes_with_nul(), b"1\0");
    }
}
