package bench;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.flink.connector.file.src.reader.BulkFormat;
import org.apache.flink.connector.file.src.util.Pool;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.RowType;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.column.ColumnReader;
import org.apache.parquet.column.impl.ColumnReadStoreImpl;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.io.api.Converter;
import org.apache.parquet.io.api.GroupConverter;
import org.apache.parquet.io.api.PrimitiveConverter;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;

/** Reads the projected columns of a split, one row group after the other, into batches of column vectors. */
final class RowGroupReader implements BulkFormat.Reader<RowData> {
    private static final int BATCHES = 3; // one being filled, one handed over, one waiting in between

    private final ParquetFileReader file;
    private final MessageType projected;
    private final Iterator<BlockMetaData> rowGroups;
    private final Pool<RowBatch> batches = new Pool<>(BATCHES);
    private final ColumnReader[] readers;
    private long rowsLeftInGroup;
    private long rowsRead;
    private long rowsToSkip;

    RowGroupReader(ParquetFileReader file, RowType type, long rowsToSkip) {
        this.file = file;
        this.rowsToSkip = rowsToSkip;
        MessageType stored = file.getFooter().getFileMetaData().getSchema();
        List<Type> fields = new ArrayList<>();
        type.getFieldNames().forEach(name -> fields.add(stored.getType(name)));
        projected = new MessageType(stored.getName(), fields);
        if (!fields.isEmpty()) {
            file.setRequestedSchema(projected);
        }
        readers = new ColumnReader[fields.size()];
        rowGroups = file.getRowGroups().iterator();
        for (int i = 0; i < BATCHES; i++) {
            batches.add(new RowBatch(Column.of(type, projected), batches.recycler()));
        }
    }

    @Override
    public BulkFormat.RecordIterator<RowData> readBatch() throws IOException {
        while (rowsLeftInGroup == 0) {
            if (!rowGroups.hasNext()) {
                return null;
            }
            openRowGroup(rowGroups.next());
        }
        RowBatch batch = freeBatch();
        int rows = (int) Math.min(RowBatch.CAPACITY, rowsLeftInGroup);
        int skipped = (int) Math.min(rows, rowsToSkip);
        batch.fill(readers, rows, skipped, rowsRead);
        rowsLeftInGroup -= rows;
        rowsRead += rows;
        rowsToSkip -= skipped;
        return batch;
    }

    private void openRowGroup(BlockMetaData rowGroup) throws IOException {
        rowsLeftInGroup = rowGroup.getRowCount();
        if (readers.length == 0) {
            return; // rows are counted, no column is read
        }
        PageReadStore pages = file.readNextRowGroup();
        String writer = file.getFooter().getFileMetaData().getCreatedBy();
        ColumnReadStoreImpl columns = new ColumnReadStoreImpl(pages, new Unconverted(), projected, writer);
        List<ColumnDescriptor> descriptors = projected.getColumns();
        for (int i = 0; i < readers.length; i++) {
            readers[i] = columns.getColumnReader(descriptors.get(i));
        }
    }

    private RowBatch freeBatch() throws IOException {
        try {
            return batches.pollEntry();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while waiting for a free batch");
        }
    }

    @Override
    public void close() throws IOException {
        file.close();
    }

    /** Parquet-mr wants to know who converts records; values are taken from its column readers instead. */
    private static final class Unconverted extends GroupConverter {
        @Override
        public Converter getConverter(int field) {
            return new PrimitiveConverter() {};
        }

        @Override
        public void start() {}

        @Override
        public void end() {}
    }
}
