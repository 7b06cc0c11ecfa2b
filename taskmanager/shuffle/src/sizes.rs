//! Raw referenced bytes: what a batch would take if its rows were copied out.
//!
//! `get_array_memory_size` counts whole buffers, so two slices of one block would count it twice; nothing here does.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{ArrowNativeType, BinaryType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow::datatypes::{ByteArrayType, DataType};

/// Bytes of the values that the rows of `batch` refer to, validity included.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(array_bytes).sum()
}

fn array_bytes(array: &ArrayRef) -> usize {
    let rows = array.len();
    let validity = if array.nulls().is_some() { rows.div_ceil(8) } else { 0 };
    validity
        + match array.data_type() {
            DataType::Null => 0,
            DataType::Boolean => rows.div_ceil(8),
            DataType::FixedSizeBinary(width) => rows * *width as usize,
            DataType::Utf8 => string_bytes::<Utf8Type>(array),
            DataType::LargeUtf8 => string_bytes::<LargeUtf8Type>(array),
            DataType::Binary => string_bytes::<BinaryType>(array),
            DataType::LargeBinary => string_bytes::<LargeBinaryType>(array),
            data_type => match data_type.primitive_width() {
                Some(width) => rows * width,
                None => nested_bytes(array),
            },
        }
}

fn string_bytes<T: ByteArrayType>(array: &ArrayRef) -> usize {
    let offsets = array.as_bytes::<T>().value_offsets();
    let first = offsets[0].as_usize();
    let last = offsets[offsets.len() - 1].as_usize();
    (last - first) + array.len() * T::Offset::get_byte_width()
}

/// Lists count the children their offsets span; what has no better answer counts what arrow says.
fn nested_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (from, to) = (list.value_offsets()[0] as usize, list.value_offsets()[list.len()] as usize);
            array_bytes(&list.values().slice(from, to - from)) + 4 * list.len()
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(array_bytes).sum(),
        DataType::Dictionary(_, _) => array.get_buffer_memory_size(),
        DataType::Utf8View => array.as_string_view().iter().flatten().map(str::len).sum::<usize>() + 16 * array.len(),
        DataType::BinaryView => {
            array.as_binary_view().iter().flatten().map(<[u8]>::len).sum::<usize>() + 16 * array.len()
        }
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_buffer_memory_size()),
    }
}

/// Bytes that stay in memory as long as `batch` does: whole buffers, each counted once per column.
pub fn pinned_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|c| c.get_buffer_memory_size()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn a_slice_counts_only_its_rows() {
        let ints: ArrayRef = Arc::new(Int64Array::from((0..1000).collect::<Vec<i64>>()));
        let strings: ArrayRef = Arc::new(StringArray::from(vec!["abcd"; 1000]));
        let batch = RecordBatch::try_from_iter([("i", ints), ("s", strings)]).unwrap();
        assert_eq!(batch_bytes(&batch), 1000 * (8 + 4 + 4));
        let slice = batch.slice(10, 5);
        assert_eq!(batch_bytes(&slice), 5 * (8 + 4 + 4));
        assert!(pinned_bytes(&slice) >= 1000 * 16);
    }
}
