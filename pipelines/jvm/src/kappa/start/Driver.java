package kappa.start;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.api.python.PythonGatewayServer;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;

/**
 * The main class of a driver's JVM: PySpark's gateway, and a session that is opened while the driver loads its modules and checks Kafka.
 *
 * The settings of the session are the first that the JVM reads: their number, then names and values by turns, each with its length before it.
 * Without any setting, no session is opened.
 */
public final class Driver {
    private static final CompletableFuture<SparkSession> SESSION = new CompletableFuture<>();

    private Driver() {}

    /** Read settings and open a session in a thread, and run PySpark's gateway, which ends the JVM at the end of its input. */
    public static void main(String[] arguments) {
        InputStream input = System.in;
        CompletableFuture<Void> read = new CompletableFuture<>();
        Thread thread = new Thread(() -> open(input, read), "session");
        thread.setDaemon(true);
        thread.start();
        System.setIn(new InputStream() {
            @Override
            public int read() throws IOException {
                read.join();
                return input.read();
            }
        });
        PythonGatewayServer.main(arguments);
    }

    /** Return the session, which is ready or is waited for; null if none was opened, or it failed. */
    public static SparkSession take() {
        try {
            return SESSION.join();
        } catch (CompletionException error) {
            Option<SparkContext> started = SparkContext$.MODULE$.getActive();
            if (started.isDefined()) {
                started.get().stop();
            }
            return null;
        }
    }

    private static void open(InputStream input, CompletableFuture<Void> read) {
        try {
            Map<String, String> settings;
            try {
                settings = readSettings(new DataInputStream(input));
            } finally {
                read.complete(null);
            }
            SESSION.complete(settings.isEmpty() ? null : open(settings));
        } catch (Throwable error) {  // the driver opens a session itself then, and reports why it cannot
            SESSION.completeExceptionally(error);
        }
    }

    private static SparkSession open(Map<String, String> settings) throws IOException {
        SparkConf conf = new SparkConf();
        settings.forEach(conf::set);
        FirstUse.begin();
        SparkSession session = new SparkSession(new SparkContext(conf), new HashMap<>(settings));
        SparkSession.setDefaultSession(session);
        FileSystem.getLocal(session.sessionState().newHadoopConf()).setWriteChecksum(false);
        return session;
    }

    private static Map<String, String> readSettings(DataInputStream input) throws IOException {
        Map<String, String> found = new HashMap<>();
        for (int left = input.readInt(); left > 0; left--) {
            found.put(readText(input), readText(input));
        }
        return found;
    }

    private static String readText(DataInputStream input) throws IOException {
        return new String(input.readNBytes(input.readInt()), StandardCharsets.UTF_8);
    }
}
