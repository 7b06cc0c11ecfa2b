package bench;

import java.io.IOException;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.FileSourceSplit;
import org.apache.flink.connector.file.src.reader.BulkFormat;
import org.apache.flink.connector.file.src.util.CheckpointedPosition;
import org.apache.flink.core.fs.Path;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.RowType;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.conf.PlainParquetConfiguration;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.io.LocalInputFile;

/** The task's side of the format: travels with the job and opens the splits. Stands in for the columnar input format of flink-parquet. */
final class ParquetFormat implements BulkFormat<RowData, FileSourceSplit> {
    private static final long serialVersionUID = 1;

    private final RowType type;
    private final TypeInformation<RowData> produced;

    ParquetFormat(RowType type, TypeInformation<RowData> produced) {
        this.type = type;
        this.produced = produced;
    }

    /** Opens a file for the row groups whose middle lies in the range of bytes. */
    static ParquetFileReader open(Path file, long start, long end) throws IOException {
        ParquetReadOptions options = ParquetReadOptions.builder(new PlainParquetConfiguration()).withRange(start, end).build();
        return ParquetFileReader.open(new LocalInputFile(java.nio.file.Path.of(file.getPath())), options);
    }

    @Override
    public RowGroupReader createReader(Configuration config, FileSourceSplit split) throws IOException {
        return new RowGroupReader(open(split.path(), split.offset(), split.offset() + split.length()), type, 0);
    }

    @Override
    public RowGroupReader restoreReader(Configuration config, FileSourceSplit split) throws IOException {
        long skipped = split.getReaderPosition().map(CheckpointedPosition::getRecordsAfterOffset).orElse(0L);
        return new RowGroupReader(open(split.path(), split.offset(), split.offset() + split.length()), type, skipped);
    }

    @Override
    public boolean isSplittable() {
        return true;
    }

    @Override
    public TypeInformation<RowData> getProducedType() {
        return produced;
    }
}
