package bench;

import org.apache.flink.table.data.columnar.vector.IntColumnVector;
import org.apache.parquet.column.ColumnReader;

/** INT, and DATE as days since 1970. */
final class IntColumn extends Column implements IntColumnVector {
    private final int[] values = new int[RowBatch.CAPACITY];

    @Override
    void take(ColumnReader from, int count, int defined) {
        for (int row = 0; row < count; row++) {
            if (from.getCurrentDefinitionLevel() == defined) {
                values[row] = from.getInteger();
            } else {
                setNull(row);
            }
            from.consume();
        }
    }

    @Override
    public int getInt(int row) {
        return values[row];
    }
}
