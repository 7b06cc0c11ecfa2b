//! The syntax of values, and that every option in effect reaches its field.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::registry;
use crate::syntax::{Kind, Raw, format_duration, format_memory, parse_duration, parse_memory};
use crate::{BroadcastThreshold, PortRange};

#[test]
fn durations() {
    let ms = |text| parse_duration(text).map(|d| d.as_millis());
    for (text, expected) in [
        ("10 s", 10_000),
        ("3 min", 180_000),
        ("3m", 180_000),
        ("100ms", 100),
        ("1 h", 3_600_000),
        ("2 DAYS", 172_800_000),
        ("5", 5),
        (" 7 Sec ", 7_000),
        ("PT5S", 5_000),
        ("pt1h2m3.5s", 3_723_500),
        ("P1DT1S", 86_401_000),
        ("P2D", 172_800_000),
        ("0", 0),
    ] {
        assert_eq!(ms(text), Some(expected), "{text}");
    }
    assert_eq!(parse_duration("3 µs"), Some(Duration::from_micros(3)));
    assert_eq!(parse_duration("3 ns"), Some(Duration::from_nanos(3)));
    for text in [
        "",
        "s",
        "-1 s",
        "+1 s",
        "1.5 s",
        "1 fortnight",
        "1 s 2 ms",
        "P",
        "PT",
        "P1S",
        "PT1D",
        "PT1S1H",
        "PT1.5H",
        "PTS",
        "PT.S",
        "P1DT",
        "PT-5S",
        "99999999999999999999 s",
        "18446744073709551615 d",
        "PT99999999999999999999999999999999999999999S",
    ] {
        assert_eq!(parse_duration(text), None, "{text}");
    }
}

#[test]
fn sizes() {
    for (text, expected) in [
        ("16 mb", 16 << 20),
        ("1g", 1 << 30),
        ("10 MiB", 10 << 20),
        ("4096", 4096),
        ("7 Bytes", 7),
        ("3K", 3 << 10),
        ("2 TB", 2 << 40),
        ("0", 0),
    ] {
        assert_eq!(parse_memory(text), Some(expected), "{text}");
    }
    for text in ["", "mb", "-1", "1.5g", "1 pb", "16777216 tb", "1 m b"] {
        assert_eq!(parse_memory(text), None, "{text}");
    }
    assert_eq!(parse_memory("16777215 tb"), Some(16_777_215 << 40));
    assert_eq!(
        (format_memory(64 << 20), format_memory(1025), format_memory(0)),
        ("64 mb".into(), "1025".into(), "0".into())
    );
}

#[test]
fn values_are_read_in_every_spelling() {
    let text = "\
rest.port: 8081-8090
execution.runtime-mode: Batch
jobmanager.scheduler: adaptive_batch
io.tmp.dirs: /a;/b
filesystem.allowed-roots: [/data, '/with;semicolon']
table.local-time-zone: Europe/Berlin
table.optimizer.join.broadcast-threshold: -1
security.insecure: TRUE
log: {format: JSON, level: 'info,thalweg_core=debug'}
taskmanager.resource-id: 1e3
taskmanager.memory.network.fraction: 0.2
";
    let config = config(text);
    assert_eq!(config.rest.port, PortRange { first: 8081, last: 8090 });
    assert_eq!(config.rest.port.iter().count(), 10);
    assert_eq!(config.get("execution.runtime-mode").as_deref(), Some("batch"));
    assert_eq!(config.tmp_dirs, ["/a", "/b"].map(PathBuf::from));
    assert_eq!(config.filesystem.allowed_roots, Some(["/data", "/with;semicolon"].map(PathBuf::from).into()));
    assert_eq!(config.table.local_time_zone, "Europe/Berlin");
    assert_eq!(config.table.broadcast_threshold, BroadcastThreshold::Off);
    assert!(config.security.insecure);
    assert_eq!(config.log.level, "info,thalweg_core=debug");
    assert_eq!(config.taskmanager.resource_id.as_deref(), Some("1e3"));
}

#[test]
fn bad_values_are_refused() {
    for bad in [
        "rest.port: 70000",
        "rest.port: 90-80",
        "rest.port: 0-10",
        "rest.port: +80",
        "jobmanager.rpc.port: 80-90",
        "jobmanager.rpc.address: host:6123",
        "jobmanager.rpc.address: http://host",
        "jobmanager.rpc.address: ''",
        "taskmanager.memory.managed.fraction: 1",
        "taskmanager.memory.network.fraction: 0",
        "taskmanager.memory.network.fraction: NaN",
        "parallelism.default: 0",
        "parallelism.default: 1.0",
        "heartbeat.interval: 0 s",
        "job.stall-timeout: 100000 d",
        "security.insecure: yes",
        "execution.runtime-mode: fast",
        "table.local-time-zone: ''",
        "table.local-time-zone: a b",
        "table.optimizer.join.broadcast-threshold: -2",
        "io.tmp.dirs: /a,/b",
        "io.tmp.dirs: /a;;/b",
        "log.level: loud",
        "log.level: 'info,=debug'",
        "security.token: ''",
        "client.result.max-size: 0",
    ] {
        assert_eq!(problems(bad).len(), 1, "{bad}");
    }
}

/// A value of this kind that is no option's default.
fn other_value(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "true",
        Kind::Int { .. } => "7",
        Kind::Fraction => "0.25",
        Kind::Float { max: 1.0, .. } => "0.25",
        Kind::Float { .. } => "1.5",
        Kind::Duration { .. } => "7 s",
        Kind::Memory { .. } => "900 mb",
        Kind::Enum(names) => names[1],
        Kind::Text => "x-1",
        Kind::List => "x;y",
        Kind::Path => "/x/token",
        Kind::Paths => "/x;/y",
        Kind::Host => "127.0.0.7",
        Kind::Port => "777",
        Kind::PortRange => "777-778",
        Kind::Secret => "abc",
        Kind::TimeZone => "Asia/Tokyo",
        Kind::BroadcastThreshold => "7 mb",
        Kind::LogFilter => "warn",
        Kind::Any => "x",
    }
}

#[test]
fn every_option_in_effect_reaches_a_field_of_its_own() {
    let mut changed: Vec<(&str, Config)> = Vec::new();
    for option in registry::in_effect() {
        let mut text = other_value(option.kind);
        if option.get_default() == Some("true") {
            text = "false";
        }
        let mut config = Config::default();
        let field = option.field.unwrap();
        (field.set)(&mut config, option.kind.parse(&Raw::Scalar(text.into())).unwrap());
        assert_ne!(config, Config::default(), "{} sets nothing", option.key);
        let shown = config.get(option.key).unwrap_or_else(|| panic!("{} is not shown", option.key));
        assert_eq!(shown, if option.kind == Kind::Secret { "******" } else { text }, "{}", option.key);
        for (other, of_other) in &changed {
            assert_ne!(&config, of_other, "{} and {other} set the same field", option.key);
        }
        changed.push((option.key, config));
    }
    assert_eq!(Config::default().get("no.such.key"), None);
    assert_eq!(Config::default().get("execution.checkpointing.interval"), None);
}

impl registry::OptionSpec {
    fn get_default(&self) -> Option<&'static str> {
        self.default.text()
    }
}

#[test]
fn every_kind_accepts_its_own_example_and_says_what_is_allowed() {
    for option in registry::options() {
        assert!(!option.kind.allowed().is_empty() && !option.kind.name().is_empty());
        if option.kind != Kind::Secret {
            let example = option.kind.example();
            assert!(option.kind.parse(&Raw::Scalar(example.clone())).is_some(), "{}: {example}", option.key);
        }
    }
}

proptest! {
    #[test]
    fn durations_round_trip(nanos in any::<u64>(), shift in 0..60u32) {
        let duration = Duration::from_nanos(nanos >> shift);
        prop_assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
    }

    #[test]
    fn long_durations_round_trip(seconds in 0..u64::MAX / 2_000_000_000) {
        let duration = Duration::from_secs(seconds);
        prop_assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
        prop_assert_eq!(parse_duration(&format!("PT{seconds}S")), Some(duration));
    }

    #[test]
    fn sizes_round_trip(bytes in any::<u64>(), shift in 0..64u32) {
        let bytes = bytes >> shift << (shift / 2);
        prop_assert_eq!(parse_memory(&format_memory(bytes)), Some(bytes));
    }

    #[test]
    fn values_in_every_case(number in 0..1000u64, unit in "(b|kb?|mb?|gb?|kib|mib|gib)", space in " {0,2}") {
        let text = format!("{number}{space}{unit}");
        prop_assert_eq!(parse_memory(&text), parse_memory(&text.to_uppercase()));
        prop_assert!(parse_memory(&text).is_some());
    }

    #[test]
    fn no_value_panics(text in any::<String>(), ascii in "[0-9PpTtSsHMDd.,;:/+\\-\\[\\] a-z=]{0,24}") {
        for option in registry::options() {
            for text in [&text, &ascii] {
                if let Some(value) = option.kind.parse(&Raw::Scalar(text.clone())) {
                    // What is shown reads back as the same value.
                    let shown = value.to_string();
                    if !matches!(option.kind, Kind::Secret | Kind::Any | Kind::List | Kind::Paths) {
                        prop_assert_eq!(option.kind.parse(&Raw::Scalar(shown)), Some(value));
                    }
                }
            }
        }
    }

    #[test]
    fn no_file_panics(text in "([a-z.:{}\\[\\]'\"#|&* \n-]{0,6}(rest|port|security.token|: |\n|taskmanager)){0,12}") {
        let _ = load(&text);
    }
}
