package kappa.kafka;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkEnv;
import org.apache.spark.scheduler.ExecutorCacheTaskLocation;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.BlockManagerId;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What one task reads of several partitions (ADR 99).
 *
 * <p>Each partition is in the same group in all batches, which the same executor reads if it can, so a consumer that is assigned `home`, all
 * partitions of the group, has nothing to change for a batch.
 */
record PartitionGroup(ArrayList<KafkaBatchInputPartition> ranges, HashSet<TopicPartition> home, String location) implements InputPartition {
    private static final long serialVersionUID = 1L;

    @Override
    public String[] preferredLocations() {
        return location == null ? new String[0] : new String[] {location};
    }

    /** Return what so many tasks read of these ranges, 0 for one for each of them; `all` are the partitions of the source. */
    static InputPartition[] divide(InputPartition[] ranges, int tasks, Collection<TopicPartition> all) {
        if (tasks == 0 || all.size() <= tasks) {
            return ranges;
        }
        Map<Integer, HashSet<TopicPartition>> homes = new TreeMap<>();
        all.forEach(each -> homes.computeIfAbsent(place(each, tasks), place -> new HashSet<>()).add(each));
        String[] executors = listExecutors();
        return divide(ranges, tasks).entrySet().stream()
                .map(each -> group(each.getKey() % tasks, each.getValue(), homes, executors))
                .toArray(InputPartition[]::new);
    }

    private static int place(TopicPartition partition, int tasks) {
        return Math.floorMod(partition.topic().hashCode() + partition.partition(), tasks);
    }

    /** Return the ranges of each task by its place. Where there is a task for each range, several may have the same place, modulo the tasks. */
    private static Map<Integer, ArrayList<KafkaBatchInputPartition>> divide(InputPartition[] ranges, int tasks) {
        Map<Integer, ArrayList<KafkaBatchInputPartition>> found = new TreeMap<>();
        for (InputPartition each : ranges) {
            KafkaBatchInputPartition range = (KafkaBatchInputPartition) each;
            int place = place(range.offsetRange().topicPartition(), tasks);
            // A consumer has one position of a partition, so those of the same partition are for different tasks.
            while (ranges.length <= tasks ? found.containsKey(place) : reads(found.get(place), range)) {
                place += tasks;
            }
            found.computeIfAbsent(place, key -> new ArrayList<>()).add(range);
        }
        return found;
    }

    private static boolean reads(List<KafkaBatchInputPartition> ranges, KafkaBatchInputPartition other) {
        TopicPartition partition = other.offsetRange().topicPartition();
        return ranges != null && ranges.get(ranges.size() - 1).offsetRange().topicPartition().equals(partition);
    }

    private static PartitionGroup group(
            int place, ArrayList<KafkaBatchInputPartition> ranges, Map<Integer, HashSet<TopicPartition>> homes, String[] executors) {
        String location = executors.length == 0 ? null : executors[place % executors.length];
        return new PartitionGroup(ranges, homes.get(place), location);
    }

    /** Return the executors as Spark's source names them. */
    private static String[] listExecutors() {
        BlockManager own = SparkEnv.get().blockManager();
        Collection<BlockManagerId> executors = CollectionConverters.asJava(own.master().getPeers(own.blockManagerId()));
        String[] found = executors.stream()
                .map(each -> new ExecutorCacheTaskLocation(each.host(), each.executorId()).toString())
                .toArray(String[]::new);
        Arrays.sort(found);
        return found;
    }
}
