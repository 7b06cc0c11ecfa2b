//! The kinds of options: one parser, one description of what is allowed and one example for each.

use std::net::IpAddr;
use std::time::Duration;

use super::{Raw, Value, format_memory, parse_duration, parse_memory};
use crate::config::{BroadcastThreshold, PortRange};
use crate::secret::Secret;

/// Longer durations are refused: they are mistakes, and sums with them could overflow a clock.
const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 3600);
/// A token goes into a request header.
const LONGEST_SECRET: usize = 4096;
const LONGEST_TEXT: usize = 4096;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// What an option accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Bool,
    /// Both ends included.
    Int {
        min: i64,
        max: i64,
    },
    /// Strictly between 0 and 1.
    Fraction,
    /// Both ends included.
    Float {
        min: f64,
        max: f64,
    },
    /// With `zero`, no time at all is a value too.
    Duration {
        zero: bool,
    },
    /// In bytes.
    Memory {
        min: u64,
    },
    /// Any case, with or without `-` and `_`; read as the spelling given here.
    Enum(&'static [&'static str]),
    Text,
    List,
    Path,
    Paths,
    Host,
    Port,
    PortRange,
    Secret,
    TimeZone,
    BroadcastThreshold,
    LogFilter,
    /// Not checked: an option whose values are not ours to judge.
    Any,
}

impl Kind {
    /// The value, or `None` if the text is not one; [`Kind::allowed`] then says what would be.
    pub fn parse(&self, raw: &Raw) -> Option<Value> {
        match (self, raw) {
            (Kind::Any, Raw::List(items)) => Some(Value::List(items.clone())),
            (Kind::List | Kind::Paths, Raw::List(items)) => list(items.iter().map(String::as_str)),
            (_, Raw::List(_)) => None,
            // A comma-separated list of paths would otherwise be read as one odd path.
            (Kind::Paths, Raw::Scalar(text)) if text.contains([',', '|']) => None,
            (Kind::List | Kind::Paths, Raw::Scalar(text)) => list(text.split(';')),
            (_, Raw::Scalar(text)) => self.parse_scalar(text.trim()),
        }
    }

    fn parse_scalar(&self, text: &str) -> Option<Value> {
        match self {
            Kind::Bool if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
            Kind::Bool if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
            Kind::Bool => None,
            Kind::Int { min, max } => {
                let number = text.parse().ok()?;
                (*min..=*max).contains(&number).then_some(Value::Int(number))
            }
            Kind::Fraction => float(text).filter(|x| *x > 0.0 && *x < 1.0).map(Value::Float),
            Kind::Float { min, max } => float(text).filter(|x| x >= min && x <= max).map(Value::Float),
            Kind::Duration { zero } => {
                let duration = parse_duration(text)?;
                ((*zero || !duration.is_zero()) && duration <= LONGEST).then_some(Value::Duration(duration))
            }
            Kind::Memory { min } => parse_memory(text).filter(|bytes| bytes >= min).map(Value::Bytes),
            Kind::Enum(names) => {
                let wanted = plain_spelling(text);
                let name = names.iter().find(|name| plain_spelling(name) == wanted)?;
                Some(Value::Text((*name).to_string()))
            }
            Kind::Text | Kind::Path => {
                let fits = !text.is_empty() && text.len() <= LONGEST_TEXT && !text.chars().any(char::is_control);
                fits.then(|| Value::Text(text.to_string()))
            }
            Kind::Host => is_host(text).then(|| Value::Text(text.to_string())),
            Kind::Port => port(text).map(|port| Value::Int(port.into())),
            Kind::PortRange => port_range(text).map(Value::Ports),
            Kind::Secret => {
                let fits =
                    !text.is_empty() && text.len() <= LONGEST_SECRET && text.bytes().all(|b| b.is_ascii_graphic());
                fits.then(|| Value::Secret(Secret::new(text)))
            }
            Kind::TimeZone => time_zone(text).map(Value::Text),
            Kind::BroadcastThreshold => broadcast_threshold(text).map(Value::Broadcast),
            Kind::LogFilter => is_log_filter(text).then(|| Value::Text(text.to_string())),
            Kind::Any => Some(Value::Text(text.to_string())),
            Kind::List | Kind::Paths => None,
        }
    }

    /// What is allowed, for error messages and the reference page.
    pub fn allowed(&self) -> String {
        match self {
            Kind::Bool => "allowed are true and false".into(),
            Kind::Int { min, max: i64::MAX } => format!("a whole number of at least {min} is expected"),
            Kind::Int { min, max } => format!("a whole number from {min} to {max} is expected"),
            Kind::Fraction => "a number between 0 and 1, both excluded, is expected".into(),
            Kind::Float { min, max: f64::MAX } => format!("a number of at least {min} is expected"),
            Kind::Float { min, max } => format!("a number from {min} to {max} is expected"),
            Kind::Duration { zero } => format!(
                "a duration{} of at most 36500 d is expected: a whole number with a unit of d, h, min, s, ms, us or ns \
                 (none means ms), or ISO 8601 such as PT5S",
                if *zero { "" } else { " longer than 0" }
            ),
            Kind::Memory { min } => format!(
                "a size{} is expected: a whole number with a unit of b, kb, mb, gb or tb (none means bytes)",
                if *min == 0 { String::new() } else { format!(" of at least {}", format_memory(*min)) }
            ),
            Kind::Enum(names) => format!("allowed are {}", names.join(", ")),
            Kind::Text => "a text that is not empty is expected".into(),
            Kind::List => "a list is expected, as a YAML sequence or separated by ;".into(),
            Kind::Path => "a path is expected".into(),
            Kind::Paths => "paths are expected, as a YAML sequence or separated by ;".into(),
            Kind::Host => "a host name or an IP address, without a port, is expected".into(),
            Kind::Port => "a port from 0 to 65535 is expected (0 means any free one)".into(),
            Kind::PortRange => "a port from 0 to 65535 (0 means any free one) or a range of ports is expected".into(),
            Kind::Secret => format!("1 to {LONGEST_SECRET} visible ASCII characters without spaces are expected"),
            Kind::TimeZone => "`default` (UTC) or the IANA name of a time zone is expected".into(),
            Kind::BroadcastThreshold => {
                "auto, a size (a whole number with a unit of b, kb, mb, gb or tb; none means bytes), or -1 for never, \
                 is expected"
                    .into()
            }
            Kind::LogFilter => {
                format!("a level ({}) or directives such as info,thalweg_core=debug are expected", LEVELS.join(", "))
            }
            Kind::Any => "any text".into(),
        }
    }

    /// A value of this kind.
    pub fn example(&self) -> String {
        match self {
            Kind::Bool => "true".into(),
            Kind::Int { min, .. } => (*min).max(1).to_string(),
            Kind::Fraction => "0.4".into(),
            Kind::Float { min, .. } => min.max(1.0).to_string(),
            Kind::Duration { .. } => "10 s".into(),
            Kind::Memory { min } => format_memory((*min).max(1 << 30)),
            Kind::Enum(names) => names.first().copied().unwrap_or_default().into(),
            Kind::Text => "tm-1".into(),
            Kind::List => "a;b".into(),
            Kind::Path => "/etc/thalweg/token".into(),
            Kind::Paths => "/data/a;/data/b".into(),
            Kind::Host => "127.0.0.1".into(),
            Kind::Port => "6123".into(),
            Kind::PortRange => "8081-8090".into(),
            Kind::Secret => "the output of `openssl rand -hex 32`".into(),
            Kind::TimeZone => "Europe/Berlin".into(),
            Kind::BroadcastThreshold => "64 mb".into(),
            Kind::LogFilter => "info".into(),
            Kind::Any => "a text".into(),
        }
    }

    /// One word for the reference page.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Bool => "boolean",
            Kind::Int { .. } => "integer",
            Kind::Fraction => "fraction",
            Kind::Float { .. } => "number",
            Kind::Duration { .. } => "duration",
            Kind::Memory { .. } => "memory",
            Kind::Enum(_) => "enum",
            Kind::Text | Kind::Any => "text",
            Kind::List => "list",
            Kind::Path => "path",
            Kind::Paths => "paths",
            Kind::Host => "host",
            Kind::Port => "port",
            Kind::PortRange => "ports",
            Kind::Secret => "secret",
            Kind::TimeZone => "time zone",
            Kind::BroadcastThreshold => "auto or memory",
            Kind::LogFilter => "log filter",
        }
    }
}

/// `ALL_EXCHANGES_BLOCKING`, `all-exchanges-blocking` and `AllExchangesBlocking` are one spelling.
fn plain_spelling(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

fn float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// At least one item, none of them empty.
fn list<'a>(items: impl Iterator<Item = &'a str>) -> Option<Value> {
    let items: Vec<String> = items.map(|item| item.trim().to_string()).collect();
    let fits = |item: &String| !item.is_empty() && !item.chars().any(char::is_control);
    (!items.is_empty() && items.iter().all(fits)).then_some(Value::List(items))
}

/// Plausible, not resolved. A colon is only part of an IPv6 address: `host:port` is a common slip.
fn is_host(text: &str) -> bool {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if bare.contains(':') {
        return matches!(bare.parse(), Ok(IpAddr::V6(_)));
    }
    let label_fits = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    bare.len() == text.len() && text.len() <= 253 && text.split('.').all(label_fits)
}

/// Digits only: `u16::from_str` would take a sign.
fn port(text: &str) -> Option<u16> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn port_range(text: &str) -> Option<PortRange> {
    let Some((first, last)) = text.split_once('-') else {
        return port(text).map(|port| PortRange { first: port, last: port });
    };
    let (first, last) = (port(first.trim())?, port(last.trim())?);
    (first > 0 && first <= last).then_some(PortRange { first, last })
}

fn time_zone(text: &str) -> Option<String> {
    if text.eq_ignore_ascii_case("default") {
        return Some("UTC".to_string());
    }
    let fits = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '+' || c == '-')
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/_+-:".contains(&b));
    fits.then(|| text.to_string())
}

fn broadcast_threshold(text: &str) -> Option<BroadcastThreshold> {
    match text {
        "-1" => Some(BroadcastThreshold::Off),
        _ if text.eq_ignore_ascii_case("auto") => Some(BroadcastThreshold::Auto),
        _ => parse_memory(text).map(BroadcastThreshold::Bytes),
    }
}

fn is_log_filter(text: &str) -> bool {
    let is_level = |level: &str| LEVELS.iter().any(|name| name.eq_ignore_ascii_case(level.trim()));
    let is_target = |target: &str| {
        let target = target.trim();
        !target.is_empty() && target.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:-".contains(&b))
    };
    text.split(',').all(|directive| match directive.split_once('=') {
        Some((target, level)) => is_target(target) && is_level(level),
        None => is_level(directive),
    })
}
