package bench;

import org.apache.flink.connector.file.src.reader.BulkFormat;
import org.apache.flink.connector.file.src.util.MutableRecordAndPosition;
import org.apache.flink.connector.file.src.util.Pool;
import org.apache.flink.connector.file.src.util.RecordAndPosition;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.columnar.ColumnarRowData;
import org.apache.flink.table.data.columnar.vector.VectorizedColumnBatch;
import org.apache.parquet.column.ColumnReader;

/** Some rows as column vectors, walked by one row object that points into them; goes back to its reader's pool when done with. */
final class RowBatch implements BulkFormat.RecordIterator<RowData> {
    static final int CAPACITY = VectorizedColumnBatch.DEFAULT_SIZE;

    private final Column[] columns;
    private final ColumnarRowData row;
    private final Pool.Recycler<RowBatch> pool;
    private final MutableRecordAndPosition<RowData> found = new MutableRecordAndPosition<>();
    private long rowsBefore;
    private int rows;
    private int next;

    RowBatch(Column[] columns, Pool.Recycler<RowBatch> pool) {
        this.columns = columns;
        this.pool = pool;
        row = new ColumnarRowData(new VectorizedColumnBatch(columns));
    }

    /** Takes the readers' next rows; the first of them may be skipped. `rowsBefore` counts the split's rows in front of these. */
    void fill(ColumnReader[] readers, int rows, int skipped, long rowsBefore) {
        for (int i = 0; i < columns.length; i++) {
            columns[i].fill(readers[i], rows);
        }
        this.rows = rows;
        this.rowsBefore = rowsBefore;
        next = skipped;
    }

    @Override
    public RecordAndPosition<RowData> next() {
        if (next == rows) {
            return null;
        }
        row.setRowId(next++);
        found.set(row, RecordAndPosition.NO_OFFSET, rowsBefore + next);
        return found;
    }

    @Override
    public void releaseBatch() {
        pool.recycle(this);
    }
}
