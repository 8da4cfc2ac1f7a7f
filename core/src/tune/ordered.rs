//! A table that keeps the order of its rows, for JSON objects whose order matters.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Rows by name, in the order of their insertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered<V>(pub Vec<(String, V)>);

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        Ordered(Vec::new())
    }
}

impl<V: Default> Ordered<V> {
    /// The value of a row, which is added if it is new.
    pub fn entry(&mut self, name: &str) -> &mut V {
        let at = self.0.iter().position(|(own, _)| own == name);
        let at = at.unwrap_or_else(|| {
            self.0.push((name.into(), V::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

impl<V: Serialize> Serialize for Ordered<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Ordered<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rows<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Rows<V> {
            type Value = Ordered<V>;
            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut rows = Vec::new();
                while let Some(row) = map.next_entry()? {
                    rows.push(row);
                }
                Ok(Ordered(rows))
            }
        }
        deserializer.deserialize_map(Rows(PhantomData))
    }
}
