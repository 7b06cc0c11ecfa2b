//! The DataFusion configuration that plans and tasks share.

use datafusion::prelude::SessionConfig;

/// Settings a distributed engine must force, whatever the defaults of the library's next release are.
///
/// `partitions` is 2 to make the planner show where exchanges belong, 1 for a plan that runs in one task.
pub fn session_config(partitions: usize, batch_size: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(batch_size)
        .with_round_robin_repartition(false)
        .with_repartition_file_scans(false)
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false);
    let options = config.options_mut();
    // dynamic filters cross stage boundaries and wait for partitions of other tasks
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    options.optimizer.enable_topk_dynamic_filter_pushdown = false;
    // its container is shared inside one process
    options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    // who broadcasts is decided by our own rule
    options.optimizer.hash_join_single_partition_threshold = 0;
    options.optimizer.hash_join_single_partition_threshold_rows = 0;
    options.optimizer.prefer_hash_join = true;
    // one physical type per logical type
    options.execution.parquet.schema_force_view_types = false;
    options.execution.parquet.pushdown_filters = false;
    options.sql_parser.map_string_types_to_utf8view = false;
    // the dialect
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.default_null_ordering = "nulls_min".to_owned();
    options.catalog.default_catalog = "default_catalog".to_owned();
    options.catalog.default_schema = "default_database".to_owned();
    config
}
