package bench;

import java.io.BufferedWriter;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.types.Row;

/** A result as CSV, in the format of driver.py: NULL is an empty field, the empty string is "", decimals keep their scale. */
final class Csv {
    private Csv() {}

    static void write(Path file, List<String> names, List<Row> rows) throws IOException {
        try (BufferedWriter out = Files.newBufferedWriter(file)) {
            out.write(names.stream().map(Csv::field).collect(Collectors.joining(",", "", "\n")));
            for (Row row : rows) {
                out.write(IntStream.range(0, row.getArity()).mapToObj(i -> field(row.getField(i))).collect(Collectors.joining(",", "", "\n")));
            }
        }
    }

    private static String field(Object value) {
        if (value == null) {
            return "";
        }
        String text = value instanceof BigDecimal decimal ? decimal.toPlainString() : value.toString();
        boolean quoted = text.isEmpty() || text.chars().anyMatch(c -> ",\"\r\n".indexOf(c) >= 0);
        return quoted ? '"' + text.replace("\"", "\"\"") + '"' : text;
    }
}
