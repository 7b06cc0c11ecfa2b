//! Logging to standard error, as lines for people or as JSON for machines.

use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

impl FromStr for LogFormat {
    type Err = LoggingError;

    fn from_str(s: &str) -> Result<Self, LoggingError> {
        match s.to_ascii_lowercase().as_str() {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(LoggingError::Format(s.to_owned())),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    #[error("log format {0:?} is unknown: expected text or json")]
    Format(String),
    #[error(
        "log level {level:?} is not understood: expected error, warn, info, debug, trace or a list of target=level"
    )]
    Level {
        level: String,
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    #[error("logging was set up already")]
    Twice(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Sets up logging for the process; once. `level` is a level, or a list such as `info,thalweg_jobmanager=debug`.
pub fn init_logging(level: &str, format: LogFormat) -> Result<(), LoggingError> {
    let filter = EnvFilter::try_new(level).map_err(|source| LoggingError::Level { level: level.to_owned(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(LoggingError::Twice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_levels_are_checked() {
        assert_eq!("JSON".parse::<LogFormat>().unwrap(), LogFormat::Json);
        assert!("yaml".parse::<LogFormat>().unwrap_err().to_string().contains("text or json"));
        let wrong = init_logging("thalweg=loud=very", LogFormat::Text).unwrap_err();
        assert!(matches!(wrong, LoggingError::Level { .. }));
    }
}
