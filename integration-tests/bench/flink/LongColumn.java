package bench;

import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.columnar.vector.DecimalColumnVector;
import org.apache.flink.table.data.columnar.vector.LongColumnVector;
import org.apache.parquet.column.ColumnReader;

/** BIGINT, and DECIMAL of up to 18 digits as its unscaled value. */
final class LongColumn extends Column implements LongColumnVector, DecimalColumnVector {
    private final long[] values = new long[RowBatch.CAPACITY];

    @Override
    void take(ColumnReader from, int count, int defined) {
        for (int row = 0; row < count; row++) {
            if (from.getCurrentDefinitionLevel() == defined) {
                values[row] = from.getLong();
            } else {
                setNull(row);
            }
            from.consume();
        }
    }

    @Override
    public long getLong(int row) {
        return values[row];
    }

    @Override
    public DecimalData getDecimal(int row, int precision, int scale) {
        return DecimalData.fromUnscaledLong(values[row], precision, scale);
    }
}
