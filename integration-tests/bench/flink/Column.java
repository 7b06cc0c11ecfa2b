package bench;

import java.util.Arrays;
import org.apache.flink.table.data.columnar.vector.ColumnVector;
import org.apache.flink.table.types.logical.RowType;
import org.apache.parquet.column.ColumnReader;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;

/** A vector of one column's values that is filled from parquet again and again. Stands in for the vectorized readers of flink-parquet. */
abstract class Column implements ColumnVector {
    private final boolean[] isNull = new boolean[RowBatch.CAPACITY];
    private boolean anyNull;

    /** The vectors for a row's columns, which are stored as the schema says. */
    static Column[] of(RowType type, MessageType stored) {
        Column[] columns = new Column[type.getFieldCount()];
        for (int i = 0; i < columns.length; i++) {
            PrimitiveTypeName physical = stored.getType(i).asPrimitiveType().getPrimitiveTypeName();
            columns[i] = switch (type.getTypeAt(i).getTypeRoot()) {
                case INTEGER, DATE -> only(PrimitiveTypeName.INT32, physical, new IntColumn());
                case BIGINT, DECIMAL -> only(PrimitiveTypeName.INT64, physical, new LongColumn());
                case CHAR, VARCHAR -> only(PrimitiveTypeName.BINARY, physical, new TextColumn());
                default -> throw new IllegalArgumentException("no parquet reader for " + type.getTypeAt(i));
            };
        }
        return columns;
    }

    private static Column only(PrimitiveTypeName readable, PrimitiveTypeName stored, Column column) {
        if (readable != stored) {
            throw new IllegalArgumentException("stored as " + stored + ", but only " + readable + " can be read into " + column.getClass());
        }
        return column;
    }

    /** Replaces what is here with the next values. */
    final void fill(ColumnReader from, int count) {
        if (anyNull) {
            Arrays.fill(isNull, false);
            anyNull = false;
        }
        take(from, count, from.getDescriptor().getMaxDefinitionLevel());
    }

    /** Takes `count` values; one whose definition level is not `defined` is NULL. */
    abstract void take(ColumnReader from, int count, int defined);

    final void setNull(int row) {
        isNull[row] = true;
        anyNull = true;
    }

    @Override
    public final boolean isNullAt(int row) {
        return isNull[row];
    }
}
