package bench;

import java.util.Set;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.connector.file.table.factories.BulkReaderFormatFactory;
import org.apache.flink.connector.file.table.format.BulkDecodingFormat;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableFactory;

/**
 * Answers to {@code 'format'='parquet'} in Flink's filesystem connector.
 *
 * <p>Stands in for flink-parquet, which Flink's wheel does not hold. It works alike: column vectors filled from one row group after the other,
 * projected columns only, files split between row groups, footer statistics for the planner, no filter pushed down. The bytes are decoded by
 * parquet-mr, value by value. What a scan costs is therefore close to flink-parquet, but it is not flink-parquet.
 *
 * <p>Only what the benchmark's tables need: local files, flat schemas, the types that {@link Column} lists.
 */
public final class ParquetFormatFactory implements BulkReaderFormatFactory {
    @Override
    public String factoryIdentifier() {
        return "parquet";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public BulkDecodingFormat<RowData> createDecodingFormat(DynamicTableFactory.Context context, ReadableConfig options) {
        return new ParquetDecodingFormat();
    }
}
