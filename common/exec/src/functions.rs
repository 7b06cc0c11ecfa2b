//! Functions that the library lacks, known to planner and TaskManagers alike.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, Float64Array, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

/// All of them; registered in every session and resolved by name when a fragment is decoded.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    vec![Arc::new(ScalarUDF::from(Rand::new()))]
}

/// `RAND()` and `RAND(seed)`: a DOUBLE in [0, 1), another one for every row.
///
/// Volatile with and without a seed: the seed sets where a batch's numbers begin, but which batches exist and in what order
/// they come is the engine's. An empty seed counts as 0.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Rand {
    signature: Signature,
}

impl Rand {
    fn new() -> Self {
        let signatures = vec![TypeSignature::Nullary, TypeSignature::Exact(vec![DataType::Int64])];
        Rand { signature: Signature::one_of(signatures, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Rand {
    fn name(&self) -> &str {
        "rand"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let start = next_start();
        let values: Float64Array = match args.args.first() {
            None => (0..rows as u64).map(|row| Some(unit_interval(mix(start.wrapping_add(row))))).collect(),
            Some(ColumnarValue::Scalar(ScalarValue::Int64(seed))) => {
                let start = start_of_seed(seed.unwrap_or(0));
                (0..rows as u64).map(|row| Some(unit_interval(mix(start.wrapping_add(row))))).collect()
            }
            Some(ColumnarValue::Array(seeds)) => match seeds.as_any().downcast_ref::<Int64Array>() {
                Some(seeds) => (0..rows)
                    .map(|row| {
                        let seed = if seeds.is_null(row) { 0 } else { seeds.value(row) };
                        Some(unit_interval(mix(start_of_seed(seed).wrapping_add(row as u64))))
                    })
                    .collect(),
                None => return exec_err!("rand: the seed must be an integer, found {}", seeds.data_type()),
            },
            Some(ColumnarValue::Scalar(other)) => {
                return exec_err!("rand: the seed must be an integer, found {}", other.data_type());
            }
        };
        Ok(ColumnarValue::Array(Arc::new(values)))
    }
}

static CALLS: AtomicU64 = AtomicU64::new(0);
/// Differs from process to process.
static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());

fn next_start() -> u64 {
    mix(PROCESS.wrapping_add(mix(CALLS.fetch_add(1, Ordering::Relaxed))))
}

fn start_of_seed(seed: i64) -> u64 {
    mix(seed as u64 ^ 0x5_EED0_F7A1)
}

/// The finaliser of SplitMix64: neighbouring inputs give unrelated outputs.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The upper 53 bits as a fraction.
fn unit_interval(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
