//! The syntax of values: what each kind of option accepts, and how a value is written back.

mod duration;
mod kind;
mod memory;

use std::fmt;
use std::time::Duration;

pub use duration::{format_duration, parse_duration};
pub use kind::Kind;
pub use memory::{format_memory, parse_memory};

use crate::config::{BroadcastThreshold, PortRange};
use crate::secret::Secret;

/// A value as written: from YAML, `-D` or `SET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw {
    Scalar(String),
    List(Vec<String>),
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raw::Scalar(text) => f.write_str(text),
            Raw::List(items) => write!(f, "[{}]", items.join(", ")),
        }
    }
}

/// A value that was read and is within the limits of its option.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Float(f64),
    Duration(Duration),
    Bytes(u64),
    Text(String),
    List(Vec<String>),
    Ports(PortRange),
    Broadcast(BroadcastThreshold),
    Secret(Secret),
}

impl fmt::Display for Value {
    /// In the syntax of the file: what is printed here reads back as the same value, secrets apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Duration(value) => f.write_str(&format_duration(*value)),
            Value::Bytes(value) => f.write_str(&format_memory(*value)),
            Value::Text(value) => f.write_str(value),
            Value::List(items) => f.write_str(&items.join(";")),
            Value::Ports(ports) if ports.first == ports.last => write!(f, "{}", ports.first),
            Value::Ports(ports) => write!(f, "{}-{}", ports.first, ports.last),
            Value::Broadcast(BroadcastThreshold::Auto) => f.write_str("auto"),
            Value::Broadcast(BroadcastThreshold::Off) => f.write_str("-1"),
            Value::Broadcast(BroadcastThreshold::Bytes(bytes)) => f.write_str(&format_memory(*bytes)),
            Value::Secret(secret) => write!(f, "{secret}"),
        }
    }
}

/// `(digits, unit in lower case)` of texts such as `10 s` or `16MB`; `None` unless it starts with a whole number.
fn number_and_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().ok()?;
    Some((number, text[end..].trim_start().to_lowercase()))
}
