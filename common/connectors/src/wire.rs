//! Arrow schemas and small batches as plain data: Arrow IPC bytes, written as hexadecimal text.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A schema that can be serialised.
#[derive(Debug, Clone, PartialEq)]
pub struct WireSchema(pub SchemaRef);

/// A batch that can be serialised.
#[derive(Debug, Clone, PartialEq)]
pub struct WireBatch(pub RecordBatch);

impl Serialize for WireSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = encode(&self.0, &[]).map_err(S::Error::custom)?;
        serializer.serialize_str(&to_hex(&bytes))
    }
}

impl<'de> Deserialize<'de> for WireSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = from_hex(&String::deserialize(deserializer)?).ok_or_else(|| D::Error::custom(NOT_HEX))?;
        decode(&bytes).map(|(schema, _)| WireSchema(schema)).map_err(D::Error::custom)
    }
}

impl Serialize for WireBatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = encode(&self.0.schema(), std::slice::from_ref(&self.0)).map_err(S::Error::custom)?;
        serializer.serialize_str(&to_hex(&bytes))
    }
}

impl<'de> Deserialize<'de> for WireBatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = from_hex(&String::deserialize(deserializer)?).ok_or_else(|| D::Error::custom(NOT_HEX))?;
        match decode(&bytes).map_err(D::Error::custom)? {
            (_, Some(batch)) => Ok(WireBatch(batch)),
            (_, None) => Err(D::Error::custom("no batch in the stream")),
        }
    }
}

const NOT_HEX: &str = "not hexadecimal text";

fn encode(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.into_inner()
}

fn decode(bytes: &[u8]) -> Result<(SchemaRef, Option<RecordBatch>), ArrowError> {
    let mut reader = StreamReader::try_new(bytes, None)?;
    let schema = Arc::clone(&reader.schema());
    let batch = reader.next().transpose()?;
    Ok((schema, batch))
}

fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
    }
    text
}

/// The bytes of hexadecimal `text` (either case), or `None` if it is not that.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let value = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
    digits.chunks_exact(2).map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn schema_and_batch_survive() {
        let schema: SchemaRef =
            Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false), Field::new("b", DataType::Utf8, true)]));
        let json = serde_json::to_string(&WireSchema(schema.clone())).unwrap();
        assert_eq!(serde_json::from_str::<WireSchema>(&json).unwrap().0, schema);
        for rows in [0_usize, 2] {
            let a = Int64Array::from_iter_values(0..rows as i64);
            let b = StringArray::from_iter((0..rows).map(|row| (row > 0).then_some("ä")));
            let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(a), Arc::new(b)]).unwrap();
            let json = serde_json::to_string(&WireBatch(batch.clone())).unwrap();
            assert_eq!(serde_json::from_str::<WireBatch>(&json).unwrap().0, batch);
        }
    }

    #[test]
    fn garbage_is_an_error() {
        for text in ["\"0\"", "\"zz\"", "\"00ff\"", "\"\"", "7"] {
            assert!(serde_json::from_str::<WireSchema>(text).is_err(), "{text}");
            assert!(serde_json::from_str::<WireBatch>(text).is_err(), "{text}");
        }
        assert_eq!(from_hex("00Ff"), Some(vec![0, 255]));
        assert_eq!(from_hex("é"), None);
    }
}
