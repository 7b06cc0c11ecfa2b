//! Counts, sizes and times in the form that is easy to read.

/// `0 B`, `1023 B`, `1.5 KB`, `3.2 GB`; powers of 1024.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// `12 ms`, `1.25 s`, `3 min 05 s`, `2 h 03 min`, `4 d 02 h`.
pub fn duration_ms(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{}.{:02} s", seconds, ms % 1000 / 10),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// `1 row`, `2 rows`.
pub fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Unix milliseconds as `2024-01-31 12:00:00.000` in UTC; the number itself beyond the calendar.
pub fn utc_ms(unix_ms: u64) -> String {
    i64::try_from(unix_ms)
        .ok()
        .and_then(chrono::DateTime::from_timestamp_millis)
        .map_or_else(|| unix_ms.to_string(), |time| time.format("%Y-%m-%d %H:%M:%S%.3f").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_few_digits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MB");
        assert_eq!(bytes(u64::MAX), "16.0 EB");
        assert_eq!(duration_ms(12), "12 ms");
        assert_eq!(duration_ms(1256), "1.25 s");
        assert_eq!(duration_ms(59_999), "59.99 s");
        assert_eq!(duration_ms(185_000), "3 min 05 s");
        assert_eq!(duration_ms(7_380_000), "2 h 03 min");
        assert_eq!(duration_ms(u64::MAX), "213503982334 d 14 h");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(0, "row"), "0 rows");
        assert_eq!(utc_ms(0), "1970-01-01 00:00:00.000");
        assert_eq!(utc_ms(u64::MAX), u64::MAX.to_string());
    }
}
