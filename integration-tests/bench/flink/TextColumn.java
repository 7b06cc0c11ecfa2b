package bench;

import org.apache.flink.table.data.columnar.vector.BytesColumnVector;
import org.apache.parquet.column.ColumnReader;

/** Text as UTF-8. Values of a dictionary are shared, not copied. */
final class TextColumn extends Column implements BytesColumnVector {
    private final byte[][] values = new byte[RowBatch.CAPACITY][];

    @Override
    void take(ColumnReader from, int count, int defined) {
        for (int row = 0; row < count; row++) {
            if (from.getCurrentDefinitionLevel() == defined) {
                values[row] = from.getBinary().getBytesUnsafe();
            } else {
                setNull(row);
            }
            from.consume();
        }
    }

    @Override
    public Bytes getBytes(int row) {
        return new Bytes(values[row], 0, values[row].length);
    }
}
