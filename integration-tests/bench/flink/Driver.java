package bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.configuration.GlobalConfiguration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * {@code Driver SECONDS}: runs statements read from standard input on the cluster that FLINK_CONF_DIR describes.
 *
 * <p>A line is {@code DDL TEXT} or {@code QUERY FILE TEXT}; it is answered by {@code OK MICROSECONDS ROWS} or {@code ERR MESSAGE}, timed from
 * handing over the text to holding all rows. Stands in for driver.py, which cannot reach Flink without Flink's many Python dependencies.
 *
 * <p>A statement that is not done within SECONDS has its job cancelled and is answered by ERR. When that does not end it either, the driver
 * exits without an answer, and whoever started it has to start the cluster anew. The end of the input ends the driver, whatever it is at.
 */
public final class Driver {
    private static final Duration PATIENCE_WITH_CANCELLING = Duration.ofSeconds(30);

    private final long seconds;
    private final ExecutorService worker = Executors.newSingleThreadExecutor();
    private final TableEnvironment tables;
    private volatile JobClient job;

    private Driver(long seconds) throws Exception {
        this.seconds = seconds;
        EnvironmentSettings settings =
                EnvironmentSettings.newInstance().inBatchMode().withConfiguration(GlobalConfiguration.loadConfiguration()).build();
        tables = worker.submit(() -> TableEnvironment.create(settings)).get(); // the planner keeps state in the thread that makes it
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints goes to the log
        Driver driver = new Driver(Long.parseLong(args[0]));
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        new Thread(() -> readInto(lines)).start();
        answers.println("OK 0 0");
        while (true) {
            answers.println(driver.answer(lines.take()));
        }
    }

    private static void readInto(BlockingQueue<String> lines) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            in.lines().forEach(lines::add);
        } catch (Exception e) {
            e.printStackTrace();
        }
        Runtime.getRuntime().halt(0);
    }

    private String answer(String line) throws InterruptedException {
        job = null;
        Future<String> result = worker.submit(() -> run(line));
        try {
            return result.get(seconds, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            return "ERR " + reason(e.getCause());
        } catch (TimeoutException e) {
            giveUp(result);
            return "ERR not done within " + seconds + " s, cancelled";
        }
    }

    private String run(String line) throws Exception {
        String[] words = line.split(" ", 2);
        if (words[0].equals("DDL")) {
            long start = System.nanoTime();
            tables.executeSql(words[1]);
            return "OK " + (System.nanoTime() - start) / 1000 + " 0";
        }
        if (!words[0].equals("QUERY")) {
            throw new IllegalArgumentException(words[0] + " is neither DDL nor QUERY");
        }
        words = words[1].split(" ", 2);
        long start = System.nanoTime();
        TableResult result = tables.executeSql(words[1]);
        job = result.getJobClient().orElse(null);
        List<Row> rows = new ArrayList<>();
        try (CloseableIterator<Row> found = result.collect()) {
            found.forEachRemaining(rows::add);
        }
        long micros = (System.nanoTime() - start) / 1000;
        Csv.write(Path.of(words[0]), result.getResolvedSchema().getColumnNames(), rows);
        return "OK " + micros + " " + rows.size();
    }

    /** Cancels the job of a statement and sees both end; ends this process when they do not. */
    private void giveUp(Future<String> statement) {
        long deadline = System.nanoTime() + PATIENCE_WITH_CANCELLING.toNanos();
        try {
            if (job == null) {
                throw new TimeoutException("it is still being planned, which nothing interrupts");
            }
            job.cancel().get(PATIENCE_WITH_CANCELLING.toSeconds(), TimeUnit.SECONDS);
            while (!statement.isDone() || !job.getJobStatus().get(5, TimeUnit.SECONDS).isGloballyTerminalState()) {
                if (System.nanoTime() > deadline) {
                    throw new TimeoutException("the cancelled job goes on");
                }
                Thread.sleep(100);
            }
        } catch (Exception e) {
            System.err.println("giving up: a statement neither ended nor could be cancelled");
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** What went wrong in one line: the outermost message and the innermost, which names the cause. */
    private static String reason(Throwable error) {
        error.printStackTrace();
        Throwable cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        String text = (cause == error ? "" : error.getMessage() + ": ") + cause;
        text = text.replaceAll("\\s+", " ");
        return text.substring(0, Math.min(text.length(), 600));
    }
}
