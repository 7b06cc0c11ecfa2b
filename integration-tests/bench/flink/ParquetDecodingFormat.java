package bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import org.apache.flink.connector.file.src.FileSourceSplit;
import org.apache.flink.connector.file.src.reader.BulkFormat;
import org.apache.flink.connector.file.table.format.BulkDecodingFormat;
import org.apache.flink.core.fs.Path;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.Projection;
import org.apache.flink.table.connector.format.FileBasedStatisticsReportableInputFormat;
import org.apache.flink.table.connector.format.ProjectableDecodingFormat;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.plan.stats.TableStats;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;

/** The planner's side of the format: takes the projection, gives statistics. Stands in for the decoding format of flink-parquet. */
final class ParquetDecodingFormat
        implements BulkDecodingFormat<RowData>,
                ProjectableDecodingFormat<BulkFormat<RowData, FileSourceSplit>>,
                FileBasedStatisticsReportableInputFormat {
    @Override
    public BulkFormat<RowData, FileSourceSplit> createRuntimeDecoder(
            DynamicTableSource.Context context, DataType table, int[][] projections) {
        DataType projected = Projection.of(projections).project(table);
        return new ParquetFormat((RowType) projected.getLogicalType(), context.createTypeInformation(projected));
    }

    @Override
    public ChangelogMode getChangelogMode() {
        return ChangelogMode.insertOnly();
    }

    @Override
    public TableStats reportStatistics(List<Path> files, DataType produced) {
        try {
            FooterStatistics found = new FooterStatistics((RowType) produced.getLogicalType());
            for (Path file : files) {
                found.add(file);
            }
            return found.table();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
