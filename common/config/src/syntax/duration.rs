//! Durations: `10 s`, `3 min`, `100ms`, ISO 8601 such as `PT5S`; a bare number is milliseconds. Units in any case.

use std::time::Duration;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Nanoseconds of each unit, and its names. The first name is the one written.
const UNITS: [(u64, &[&str]); 7] = [
    (DAY, &["d", "day", "days"]),
    (HOUR, &["h", "hour", "hours"]),
    (MINUTE, &["min", "m", "minute", "minutes"]),
    (SECOND, &["s", "sec", "secs", "second", "seconds"]),
    (MILLI, &["ms", "", "milli", "millis", "millisecond", "milliseconds"]),
    (MICRO, &["us", "µs", "μs", "micro", "micros", "microsecond", "microseconds"]),
    (1, &["ns", "nano", "nanos", "nanosecond", "nanoseconds"]),
];

/// `None` if the text is not a duration; see the module for the syntax. Never negative.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text.starts_with(['p', 'P']) {
        return parse_iso(text);
    }
    let (number, unit) = super::number_and_unit(text)?;
    let (nanos, _) = UNITS.iter().find(|(_, names)| names.contains(&unit.as_str()))?;
    from_nanos(u128::from(number) * u128::from(*nanos))
}

/// The shortest exact text in whole units: `5 min`, `1500 ms`.
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0 ms".to_string();
    }
    let (unit, names) =
        UNITS.iter().find(|(unit, _)| nanos.is_multiple_of(u128::from(*unit))).unwrap_or(&UNITS[UNITS.len() - 1]);
    format!("{} {}", nanos / u128::from(*unit), names[0])
}

fn from_nanos(nanos: u128) -> Option<Duration> {
    let seconds = u64::try_from(nanos / u128::from(SECOND)).ok()?;
    let rest = u32::try_from(nanos % u128::from(SECOND)).ok()?;
    Some(Duration::new(seconds, rest))
}

/// `PnDTnHnMn.nS`: days, hours, minutes and seconds in this order, each at most once, at least one.
fn parse_iso(text: &str) -> Option<Duration> {
    let upper = text.to_ascii_uppercase();
    let body = upper.strip_prefix('P')?;
    let (date, time) = match body.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (body, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let mut nanos = parse_iso_part(date, &[('D', DAY)])?;
    nanos = nanos.checked_add(parse_iso_part(time, &[('H', HOUR), ('M', MINUTE), ('S', SECOND)])?)?;
    from_nanos(nanos)
}

/// The sum of `number designator` pairs; designators keep the order given. Only seconds may have a fraction.
fn parse_iso_part(mut text: &str, designators: &[(char, u64)]) -> Option<u128> {
    let mut total: u128 = 0;
    let mut allowed = designators.iter();
    while !text.is_empty() {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let designator = text[end..].chars().next()?;
        let (_, unit) = allowed.find(|(name, _)| *name == designator)?;
        let number = &text[..end];
        let part =
            if *unit == SECOND { decimal_seconds(number)? } else { whole(number)?.checked_mul((*unit).into())? };
        total = total.checked_add(part)?;
        text = &text[end + designator.len_utf8()..];
    }
    Some(total)
}

fn whole(text: &str) -> Option<u128> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Nanoseconds of `12` or `12.345`, with up to nine digits after the point.
fn decimal_seconds(text: &str) -> Option<u128> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.len() > 9 {
        return None;
    }
    let scale = 10u128.pow(9 - u32::try_from(fraction.len()).ok()?);
    whole(seconds)?.checked_mul(SECOND.into())?.checked_add(whole(fraction)? * scale)
}
