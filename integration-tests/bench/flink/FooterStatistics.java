package bench;

import java.io.IOException;
import java.math.BigDecimal;
import java.sql.Date;
import java.time.LocalDate;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.core.fs.Path;
import org.apache.flink.table.plan.stats.ColumnStats;
import org.apache.flink.table.plan.stats.TableStats;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.parquet.column.statistics.Statistics;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.io.api.Binary;

/** Rows, and each column's bounds and NULLs, summed over the footers of a table's files: what flink-parquet tells the planner. */
final class FooterStatistics {
    private final RowType type;
    private final Map<String, Range> ranges = new HashMap<>();
    private long rows;

    FooterStatistics(RowType type) {
        this.type = type;
    }

    void add(Path file) throws IOException {
        try (ParquetFileReader reader = ParquetFormat.open(file, 0, Long.MAX_VALUE)) {
            for (BlockMetaData rowGroup : reader.getFooter().getBlocks()) {
                rows += rowGroup.getRowCount();
                rowGroup.getColumns().forEach(this::add);
            }
        }
    }

    private void add(ColumnChunkMetaData chunk) {
        String name = chunk.getPath().toDotString();
        int index = type.getFieldIndex(name);
        Statistics<?> statistics = chunk.getStatistics();
        if (index >= 0 && statistics != null && statistics.hasNonNullValue()) {
            ranges.computeIfAbsent(name, n -> new Range(type.getTypeAt(index))).add(statistics);
        }
    }

    TableStats table() {
        Map<String, ColumnStats> columns = new HashMap<>();
        ranges.forEach((name, range) -> columns.put(name, range.column()));
        return new TableStats(rows, columns);
    }

    private static final class Range {
        private final LogicalType type;
        private Comparable<Object> low;
        private Comparable<Object> high;
        private long nulls;

        Range(LogicalType type) {
            this.type = type;
        }

        void add(Statistics<?> of) {
            Comparable<Object> lowest = planned(of.genericGetMin());
            Comparable<Object> highest = planned(of.genericGetMax());
            low = low == null || lowest.compareTo(low) < 0 ? lowest : low;
            high = high == null || highest.compareTo(high) > 0 ? highest : high;
            nulls += Math.max(0, of.getNumNulls());
        }

        ColumnStats column() {
            return new ColumnStats.Builder().setMin(low).setMax(high).setNullCount(nulls).build();
        }

        /** A stored value as the class the planner has for the column's type. */
        @SuppressWarnings("unchecked")
        private Comparable<Object> planned(Object stored) {
            Object value = switch (type.getTypeRoot()) {
                case DATE -> Date.valueOf(LocalDate.ofEpochDay((Integer) stored));
                case DECIMAL -> BigDecimal.valueOf((Long) stored, ((DecimalType) type).getScale());
                case CHAR, VARCHAR -> ((Binary) stored).toStringUsingUTF8();
                default -> stored;
            };
            return (Comparable<Object>) value;
        }
    }
}
