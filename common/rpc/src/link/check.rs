//! The checks every field from a socket passes before it is believed.

use thalweg_types::Interval;

use crate::error::Malformed;

/// Longest text that explains something, bytes. Senders shorten to a quarter of it.
pub(super) const MAX_TEXT: usize = 64 << 10;
/// Longest name, id or address, bytes.
pub(super) const MAX_NAME: usize = 512;
pub(super) const MAX_SETTINGS: usize = 1000;
pub(super) const MAX_SUBPARTITIONS: usize = 65_536;
/// Sources, inputs: leaves of a fragment.
pub(super) const MAX_LEAVES: usize = 10_000;
pub(super) const MAX_OPERATORS: usize = 10_000;
/// Tasks of a stage and, with it, maps of an exchange.
pub(super) const MAX_TASKS: usize = 1 << 20;

pub(super) fn required<T>(field: &'static str, value: Option<T>) -> Result<T, Malformed> {
    value.ok_or(Malformed::Missing(field))
}

pub(super) fn at_most(field: &'static str, found: usize, limit: usize) -> Result<(), Malformed> {
    if found > limit { Err(Malformed::TooLong { field, found, limit }) } else { Ok(()) }
}

pub(super) fn name(field: &'static str, value: String) -> Result<String, Malformed> {
    at_most(field, value.len(), MAX_NAME)?;
    if value.is_empty() {
        return Err(Malformed::Missing(field));
    }
    if value.chars().any(char::is_control) {
        return Err(Malformed::Value {
            field,
            found: format!("{value:?}"),
            expected: "text without control characters",
        });
    }
    Ok(value)
}

pub(super) fn text(field: &'static str, value: String) -> Result<String, Malformed> {
    at_most(field, value.len(), MAX_TEXT)?;
    Ok(value)
}

/// host:port, where host may be a name, an IPv4 or a bracketed IPv6 address.
pub(super) fn address(field: &'static str, value: String) -> Result<String, Malformed> {
    let value = name(field, value)?;
    let valid = value.rsplit_once(':').is_some_and(|(host, port)| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty()
            && (bracketed || !host.contains(':'))
            && !host.contains(['/', ' ', '@'])
            && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    if !valid {
        return Err(Malformed::Value { field, found: format!("{value:?}"), expected: "host:port" });
    }
    Ok(value)
}

pub(super) fn between(
    field: &'static str,
    value: u32,
    low: u32,
    high: usize,
    expected: &'static str,
) -> Result<u32, Malformed> {
    if value < low || value as usize > high {
        return Err(Malformed::Value { field, found: value.to_string(), expected });
    }
    Ok(value)
}

pub(super) fn range64(field: &'static str, range: thalweg_proto::v1::Range) -> Result<Interval<u64>, Malformed> {
    if range.start > range.end {
        let found = format!("[{},{})", range.start, range.end);
        return Err(Malformed::Value { field, found, expected: "an interval that does not end before it starts" });
    }
    Ok(Interval::new(range.start, range.end))
}

pub(super) fn range32(
    field: &'static str,
    range: Option<thalweg_proto::v1::Range>,
    limit: usize,
) -> Result<Interval<u32>, Malformed> {
    let range = range64(field, required(field, range)?)?;
    match (u32::try_from(range.start), u32::try_from(range.end)) {
        (Ok(start), Ok(end)) if end as usize <= limit => Ok(Interval::new(start, end)),
        _ => Err(Malformed::Value { field, found: range.to_string(), expected: "an interval within bounds" }),
    }
}
