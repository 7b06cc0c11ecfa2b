//! Functions that the library lacks, known to planner and TaskManagers alike.

use std::sync::Arc;

use arrow::array::Float64Array;
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

/// All of them; registered in every session and resolved by name when a fragment is decoded.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    vec![Arc::new(ScalarUDF::from(Rand::new()))]
}

/// `RAND()`: a DOUBLE in [0, 1), another one for every row and every run. Volatile: a stage that calls it is `Random`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Rand {
    signature: Signature,
}

impl Rand {
    fn new() -> Self {
        Self { signature: Signature::one_of(vec![TypeSignature::Nullary], Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Rand {
    fn name(&self) -> &str {
        "rand"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut seed = [0u8; 8];
        getrandom::fill(&mut seed).map_err(|e| DataFusionError::Execution(format!("no randomness from the system: {e}")))?;
        let mut state = u64::from_le_bytes(seed);
        let values: Float64Array = (0..args.number_rows).map(|_| Some(next_unit(&mut state))).collect();
        Ok(ColumnarValue::Array(Arc::new(values)))
    }
}

/// splitmix64 (Steele, Lea, Flood 2014), its top 53 bits as a fraction.
fn next_unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    (z >> 11) as f64 / (1u64 << 53) as f64
}
