//! How a parsed value gets into a field of [`Config`] and out again.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::{
    BroadcastStrategy, BroadcastThreshold, Config, HighAvailabilityType, LogFormat, PortRange, RuntimeMode, Scheduler,
    SkewStrategy,
};
use crate::secret::Secret;
use crate::syntax::Value;

/// The field of one option.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub(crate) get: fn(&Config) -> Option<Value>,
    pub(crate) set: fn(&mut Config, Value),
}

/// `field!(rest.port)`: the accessors of `config.rest.port`.
macro_rules! field {
    ($($path:ident).+) => {
        $crate::setting::Field {
            get: |config| $crate::setting::Setting::to_value(&config.$($path).+),
            set: |config, value| $crate::setting::assign(&mut config.$($path).+, value),
        }
    };
}
pub(crate) use field;

/// Sets a field. The registry pairs kinds with fields, a test sets every one, so a mismatch cannot reach a user.
pub(crate) fn assign<T: Setting>(place: &mut T, value: Value) {
    let converted = T::from_value(value);
    debug_assert!(converted.is_some(), "an option's kind does not fit its field");
    if let Some(converted) = converted {
        *place = converted;
    }
}

/// A type that a field of the configuration may have.
pub(crate) trait Setting: Sized {
    /// `None` if a value of this kind does not belong into the field.
    fn from_value(value: Value) -> Option<Self>;
    /// `None` if unset.
    fn to_value(&self) -> Option<Value>;
}

impl<T: Setting> Setting for Option<T> {
    fn from_value(value: Value) -> Option<Self> {
        T::from_value(value).map(Some)
    }
    fn to_value(&self) -> Option<Value> {
        self.as_ref().and_then(T::to_value)
    }
}

macro_rules! direct {
    ($($type:ty => $variant:ident),+ $(,)?) => {$(
        impl Setting for $type {
            fn from_value(value: Value) -> Option<Self> {
                if let Value::$variant(inner) = value { Some(inner) } else { None }
            }
            fn to_value(&self) -> Option<Value> {
                Some(Value::$variant(self.clone()))
            }
        }
    )+};
}
direct! {
    bool => Bool, f64 => Float, u64 => Bytes, Duration => Duration, String => Text, PortRange => Ports,
    BroadcastThreshold => Broadcast, Secret => Secret,
}

macro_rules! integer {
    ($($type:ty),+) => {$(
        impl Setting for $type {
            fn from_value(value: Value) -> Option<Self> {
                if let Value::Int(number) = value { number.try_into().ok() } else { None }
            }
            fn to_value(&self) -> Option<Value> {
                Some(Value::Int(i64::from(*self)))
            }
        }
    )+};
}
integer!(u16, u32, i64);

macro_rules! named {
    ($type:ty, $($text:literal => $variant:path),+ $(,)?) => {
        impl Setting for $type {
            fn from_value(value: Value) -> Option<Self> {
                let Value::Text(text) = value else { return None };
                match text.as_str() { $($text => Some($variant),)+ _ => None }
            }
            #[allow(unreachable_patterns, reason = "two texts may mean one variant; the first is the one shown")]
            fn to_value(&self) -> Option<Value> {
                Some(Value::Text(match self { $($variant => $text,)+ }.to_string()))
            }
        }
    };
}
named!(Scheduler, "AdaptiveBatch" => Scheduler::AdaptiveBatch, "Default" => Scheduler::Default,
    "Adaptive" => Scheduler::AdaptiveBatch);
named!(HighAvailabilityType, "NONE" => HighAvailabilityType::None, "filesystem" => HighAvailabilityType::Filesystem);
named!(RuntimeMode, "automatic" => RuntimeMode::Automatic, "batch" => RuntimeMode::Batch,
    "streaming" => RuntimeMode::Streaming);
named!(BroadcastStrategy, "auto" => BroadcastStrategy::Auto, "runtime_only" => BroadcastStrategy::RuntimeOnly, "none" => BroadcastStrategy::None);
named!(SkewStrategy, "auto" => SkewStrategy::Auto, "forced" => SkewStrategy::Forced, "none" => SkewStrategy::None);
named!(LogFormat, "text" => LogFormat::Text, "json" => LogFormat::Json);

impl Setting for PathBuf {
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(PathBuf::from(text)) } else { None }
    }
    fn to_value(&self) -> Option<Value> {
        Some(Value::Text(self.display().to_string()))
    }
}

impl Setting for Vec<PathBuf> {
    fn from_value(value: Value) -> Option<Self> {
        if let Value::List(items) = value { Some(items.into_iter().map(PathBuf::from).collect()) } else { None }
    }
    fn to_value(&self) -> Option<Value> {
        Some(Value::List(self.iter().map(|path| path.display().to_string()).collect()))
    }
}
