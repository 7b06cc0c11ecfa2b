//! Sizes: `16 mb`, `1g`, `10 MiB`; a bare number is bytes. All units are powers of 1024, in any case.

const UNITS: [(u64, &[&str]); 5] = [
    (1, &["", "b", "byte", "bytes"]),
    (1 << 10, &["k", "kb", "kib", "kibibyte", "kibibytes"]),
    (1 << 20, &["m", "mb", "mib", "mebibyte", "mebibytes"]),
    (1 << 30, &["g", "gb", "gib", "gibibyte", "gibibytes"]),
    (1 << 40, &["t", "tb", "tib", "tebibyte", "tebibytes"]),
];

/// Bytes; `None` if the text is not a size or does not fit into 64 bits.
pub fn parse_memory(text: &str) -> Option<u64> {
    let (number, unit) = super::number_and_unit(text)?;
    let (factor, _) = UNITS.iter().find(|(_, names)| names.contains(&unit.as_str()))?;
    number.checked_mul(*factor)
}

/// The shortest exact text: `64 mb`, `1025` for bytes that are not a whole number of a unit.
pub fn format_memory(bytes: u64) -> String {
    match UNITS.iter().rev().find(|(factor, _)| bytes != 0 && bytes.is_multiple_of(*factor)) {
        Some((factor, names)) if *factor > 1 => format!("{} {}", bytes / factor, names[1]),
        _ => bytes.to_string(),
    }
}
