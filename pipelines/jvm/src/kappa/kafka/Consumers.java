package kappa.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;

/**
 * The consumers of a JVM (ADR 99). A task has one of its own while it reads. There are as many as tasks need, whatever the number of partitions,
 * because each has a copy of the metadata of its topics. Those that no task has stay open for the next ones, for some minutes.
 */
final class Consumers {
    private static final int LEAST = Math.max(4, 2 * Runtime.getRuntime().availableProcessors());
    private static final long IDLE_NANOS = Duration.ofMinutes(5).toNanos();
    private static final Map<Map<String, Object>, Consumers> BY_SETTINGS = new HashMap<>();

    /** The longest idle one first. */
    private final Set<SharedConsumer> idle = new LinkedHashSet<>();
    private int limit = LEAST;
    private int used;

    private Consumers() {}

    /** Return a consumer that no other task has, the best one for these ranges. The largest limit of all tasks counts, 0 for none. */
    static SharedConsumer take(Map<String, Object> settings, int limit, Collection<TopicRange> ranges, Set<TopicPartition> home) {
        synchronized (BY_SETTINGS) {
            Consumers found = BY_SETTINGS.computeIfAbsent(identify(settings), each -> new Consumers());
            found.limit = Math.max(found.limit, limit);
            found.used++;
            SharedConsumer best = found.choose(ranges, home);
            if (best != null) {
                return best;
            }
        }
        try {
            return new SharedConsumer(settings);
        } catch (RuntimeException error) {
            drop(settings, null);
            throw error;
        }
    }

    /** Return settings without the group, which is another one for each query and table, and which Kafka's client does not use here. */
    private static Map<String, Object> identify(Map<String, Object> settings) {
        Map<String, Object> found = new HashMap<>(settings);
        found.remove(ConsumerConfig.GROUP_ID_CONFIG);
        return found;
    }

    private SharedConsumer choose(Collection<TopicRange> ranges, Set<TopicPartition> home) {
        SharedConsumer best = null;
        int most = -1;
        for (SharedConsumer each : idle) {
            int fits = each.fit(ranges, home);
            if (fits > most) {
                best = each;
                most = fits;
            }
        }
        if (most <= 1 && idle.size() + used <= limit) {
            return null;
        }
        idle.remove(best);
        return best;
    }

    /** Keep a consumer whose task has read its ranges to their ends. */
    static void keep(Map<String, Object> settings, SharedConsumer consumer) {
        List<SharedConsumer> closed = new ArrayList<>();
        long now = System.nanoTime();
        synchronized (BY_SETTINGS) {
            Consumers own = BY_SETTINGS.get(identify(settings));
            own.used--;
            own.idle.add(consumer);
            consumer.rest(now);
            for (Consumers each : BY_SETTINGS.values()) {
                each.expire(now, closed);
            }
            BY_SETTINGS.values().removeIf(each -> each.idle.isEmpty() && each.used == 0);
        }
        closed.forEach(SharedConsumer::close);
    }

    private void expire(long now, List<SharedConsumer> closed) {
        for (Iterator<SharedConsumer> each = idle.iterator(); each.hasNext(); ) {
            SharedConsumer found = each.next();
            if (idle.size() + used > limit || found.isIdle(now, IDLE_NANOS)) {
                each.remove();
                closed.add(found);
            }
        }
    }

    /** Close a consumer whose task has ended before; null if none could be made. */
    static void drop(Map<String, Object> settings, SharedConsumer consumer) {
        synchronized (BY_SETTINGS) {
            BY_SETTINGS.get(identify(settings)).used--;
        }
        if (consumer != null) {
            consumer.close();
        }
    }
}
