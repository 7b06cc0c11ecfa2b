//! From the settings that come with a stage to how its operators work.

use thalweg_exec::environment::{LocalAggregates, OperatorOptions};

const BATCH_SIZE: usize = 8192;

/// The JobManager has checked the settings; what is missing or not understood has its default.
pub fn operator_options(settings: &[(String, String)]) -> OperatorOptions {
    let text = |name: &str| settings.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let local = |name: &str| text(&format!("table.exec.local-hash-agg.adaptive.{name}"));
    let local_aggregates = match local("enabled") {
        Some("false") => LocalAggregates::Always,
        _ => LocalAggregates::StopIfUseless {
            rows: local("sampling-threshold").and_then(|v| v.parse().ok()).unwrap_or(500_000),
            groups_per_row: local("distinct-value-rate-threshold").and_then(|v| v.parse().ok()).unwrap_or(0.5),
        },
    };
    let batch_size = text("batch-size").and_then(|v| v.parse().ok()).unwrap_or(BATCH_SIZE);
    OperatorOptions { batch_size, local_aggregates }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_understood_and_missing_ones_have_defaults() {
        let of = |settings: &[(&str, &str)]| {
            let settings: Vec<_> = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            operator_options(&settings)
        };
        let stops = LocalAggregates::StopIfUseless { rows: 500_000, groups_per_row: 0.5 };
        assert_eq!(of(&[]), OperatorOptions { batch_size: 8192, local_aggregates: stops });
        let off = of(&[("table.exec.local-hash-agg.adaptive.enabled", "false"), ("batch-size", "10")]);
        assert_eq!(off, OperatorOptions { batch_size: 10, local_aggregates: LocalAggregates::Always });
        let sooner = of(&[
            ("table.exec.local-hash-agg.adaptive.sampling-threshold", "7"),
            ("table.exec.local-hash-agg.adaptive.distinct-value-rate-threshold", "0.25"),
        ]);
        assert_eq!(sooner.local_aggregates, LocalAggregates::StopIfUseless { rows: 7, groups_per_row: 0.25 });
    }
}
