import com.fasterxml.jackson.annotation.JsonFormat;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.datatype.jsr310.JavaTimeModule;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Runs topologies of Kafka Streams, one after the other, in one JVM. Each line of the input is the path of a file of properties: "query",
 * "source", "out", "records", and options of Kafka Streams. A run ends once all records are processed and the application is closed, which
 * writes and commits everything. The answer is one line with the seconds that it took. The query "latency" has no last record.
 */
public final class StreamsPeer {
    private static final ObjectMapper MAPPER =
            new ObjectMapper()
                    .registerModule(new JavaTimeModule())
                    .disable(SerializationFeature.WRITE_DATES_AS_TIMESTAMPS);

    record Row(
            long k,
            double v,
            @JsonFormat(shape = JsonFormat.Shape.STRING) Instant ts,
            String note) {}

    record Sum(double total, long count) {}

    record Mean(long k, Instant start, double mean) {}

    record Event(long n, long sent, String note) {}

    record Marked(long n, long sent, String note, String mark) {}

    public static void main(String[] args) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = input.readLine()) != null; ) {
            var options = new Properties();
            options.load(new StringReader(Files.readString(Path.of(line))));
            long begin = System.nanoTime();
            run(options);
            System.out.println((System.nanoTime() - begin) / 1e9);
        }
    }

    private static void run(Properties options) throws Exception {
        var processed = new LongAdder();
        long wanted = Long.parseLong(options.getProperty("records"));
        var failed = new CountDownLatch(1);
        try (var streams = new KafkaStreams(build(options, processed), options)) {
            streams.setUncaughtExceptionHandler(
                    error -> {
                        error.printStackTrace();
                        failed.countDown();
                        return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
                                .StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
                    });
            streams.start();
            while (processed.sum() < wanted) {
                if (failed.await(20, TimeUnit.MILLISECONDS)) {
                    throw new IllegalStateException("the application failed");
                }
            }
        }
    }

    private static Topology build(Properties options, LongAdder processed) {
        var builder = new StreamsBuilder();
        if (options.getProperty("query").equals("latency")) {
            return mark(builder, options, processed);
        }
        var rows =
                builder.stream(
                        options.getProperty("source"),
                        Consumed.with(Serdes.ByteArray(), json(Row.class))
                                .withTimestampExtractor(
                                        (message, before) -> ((Row) message.value()).ts.toEpochMilli()));
        var out = options.getProperty("out");
        if (options.getProperty("query").equals("window")) {
            rows.groupBy((key, row) -> Long.toString(row.k), Grouped.with(Serdes.String(), json(Row.class)))
                    .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofMinutes(10)))
                    .aggregate(
                            () -> new Sum(0, 0),
                            (key, row, sum) -> {
                                processed.increment();
                                return new Sum(sum.total + row.v, sum.count + 1);
                            },
                            Materialized.with(Serdes.String(), json(Sum.class)))
                    .toStream()
                    .map(
                            (window, sum) ->
                                    KeyValue.pair(
                                            window.key(),
                                            new Mean(
                                                    Long.parseLong(window.key()),
                                                    window.window().startTime(),
                                                    sum.total / sum.count)))
                    .to(out, Produced.with(Serdes.String(), json(Mean.class)));
        } else {
            rows.map(
                            (key, row) -> {
                                processed.increment();
                                return KeyValue.pair(Long.toString(row.k), row);
                            })
                    .to(out, Produced.with(Serdes.String(), json(Row.class)));
        }
        return builder.build();
    }

    private static Topology mark(StreamsBuilder builder, Properties options, LongAdder processed) {
        builder.stream(options.getProperty("source"), Consumed.with(Serdes.ByteArray(), json(Event.class)))
                .filter((key, event) -> event.n >= 0)
                .map(
                        (key, event) -> {
                            processed.increment();
                            String mark = event.note.toUpperCase(Locale.ROOT);
                            return KeyValue.pair(
                                    Long.toString(event.n),
                                    new Marked(event.n, event.sent, event.note, mark));
                        })
                .to(options.getProperty("out"), Produced.with(Serdes.String(), json(Marked.class)));
        return builder.build();
    }

    private static <T> Serde<T> json(Class<T> kind) {
        ObjectReader reader = MAPPER.readerFor(kind);
        ObjectWriter writer = MAPPER.writerFor(kind);
        Deserializer<T> read =
                (topic, bytes) -> {
                    try {
                        return bytes == null ? null : reader.readValue(bytes);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                };
        return Serdes.serdeFrom(
                (topic, value) -> {
                    try {
                        return value == null ? null : writer.writeValueAsBytes(value);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                },
                read);
    }
}
