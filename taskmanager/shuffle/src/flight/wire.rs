//! The `app_metadata` of every message of a stream.

use arrow::datatypes::{DataType, Schema};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const VERSION: u8 = 1;
const LEN: usize = 1 + 1 + 1 + 1 + 4 + 4 + 4 + 8;

/// What kind of message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first of a stream; `checksum` is the fingerprint of its column types.
    Schema,
    Batch,
}

/// Version (1 byte), kind (1), end of map (1), zero (1), map (4), attempt (4), rows (4), checksum (8); little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Metadata {
    pub kind: Kind,
    /// Nothing more of this map follows.
    pub end_of_map: bool,
    pub map: u32,
    pub attempt: u32,
    pub rows: u32,
    /// xxh3-64 of header and body.
    pub checksum: u64,
}

impl Metadata {
    pub fn schema(schema: &Schema) -> Self {
        let checksum = fingerprint(schema);
        Self { kind: Kind::Schema, end_of_map: false, map: 0, attempt: 0, rows: 0, checksum }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(LEN);
        out.extend([VERSION, u8::from(self.kind == Kind::Batch), u8::from(self.end_of_map), 0]);
        for word in [self.map, self.attempt, self.rows] {
            out.extend(word.to_le_bytes());
        }
        out.extend(self.checksum.to_le_bytes());
        out
    }

    /// `None` if the bytes are no metadata of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = match (bytes[0], bytes[1]) {
            (VERSION, 0) => Kind::Schema,
            (VERSION, 1) => Kind::Batch,
            _ => return None,
        };
        let end_of_map = match bytes[2] {
            0 => false,
            1 => true,
            _ => return None,
        };
        let checksum = u64::from(word(16)) | u64::from(word(20)) << 32;
        Some(Self { kind, end_of_map, map: word(4), attempt: word(8), rows: word(12), checksum })
    }
}

/// Checksum of a message.
pub(super) fn checksum(header: &[u8], body: &[u8]) -> u64 {
    xxh3_64_with_seed(body, xxh3_64_with_seed(header, 0))
}

/// Of the column types alone: names, nullability and metadata may differ between producer and consumer.
pub(super) fn fingerprint(schema: &Schema) -> u64 {
    let mut text = String::new();
    schema.fields().iter().for_each(|f| describe(f.data_type(), &mut text));
    xxh3_64_with_seed(text.as_bytes(), 0)
}

fn describe(data_type: &DataType, out: &mut String) {
    match data_type {
        DataType::List(f) => nested("list", [f.data_type()], out),
        DataType::LargeList(f) => nested("large-list", [f.data_type()], out),
        DataType::FixedSizeList(f, n) => nested(&format!("list-{n}"), [f.data_type()], out),
        DataType::Map(f, _) => nested("map", [f.data_type()], out),
        DataType::Struct(fields) => nested("struct", fields.iter().map(|f| f.data_type()), out),
        plain => {
            out.push_str(&plain.to_string());
            out.push(';');
        }
    }
}

fn nested<'a>(name: &str, children: impl IntoIterator<Item = &'a DataType>, out: &mut String) {
    out.push_str(name);
    out.push('(');
    children.into_iter().for_each(|c| describe(c, out));
    out.push_str(");");
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    #[test]
    fn metadata_reads_back_and_garbage_does_not() {
        let m = Metadata { kind: Kind::Batch, end_of_map: true, map: 1, attempt: 2, rows: 3, checksum: u64::MAX - 5 };
        let bytes = m.encode();
        assert_eq!(Metadata::decode(&bytes), Some(m));
        assert_eq!(Metadata::decode(&bytes[1..]), None);
        for (at, value) in [(0, 9), (1, 7), (2, 2)] {
            let mut bad = bytes.clone();
            bad[at] = value;
            assert_eq!(Metadata::decode(&bad), None);
        }
    }

    #[test]
    fn a_fingerprint_depends_on_types_and_their_order_alone() {
        let schema = |fields: &[(&str, DataType)]| {
            Schema::new(fields.iter().map(|(n, t)| Field::new(*n, t.clone(), true)).collect::<Vec<_>>())
        };
        let a = fingerprint(&schema(&[("a", DataType::Int32), ("b", DataType::Utf8)]));
        assert_eq!(a, fingerprint(&schema(&[("x", DataType::Int32), ("y", DataType::Utf8)])));
        assert_ne!(a, fingerprint(&schema(&[("a", DataType::Utf8), ("b", DataType::Int32)])));
        assert_ne!(
            fingerprint(&schema(&[("a", DataType::Decimal128(10, 2))])),
            fingerprint(&schema(&[("a", DataType::Decimal128(10, 3))]))
        );
    }
}
