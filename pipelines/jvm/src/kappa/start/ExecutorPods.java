package kappa.start;

import io.fabric8.kubernetes.client.KubernetesClient;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SecurityManager;
import org.apache.spark.SparkConf;
import org.apache.spark.internal.LogEntry;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsAllocator;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsLifecycleManager;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshotsStore;
import org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBuilder;
import org.apache.spark.util.Clock;

/**
 * Creates the pods of executors as Spark does, but one that the API server refuses, for example for a ResourceQuota, is no failed executor (ADR 100).
 *
 * <p>Spark requests them again each second. It logs the answer, and counts it as an executor that has failed, of which it permits few. Here it is not
 * counted, the answer is kept for the driver, and the log has it once in a minute. Spark makes it by `spark.kubernetes.allocation.pods.allocator`.
 */
public final class ExecutorPods extends ExecutorPodsAllocator {
    private static final String BEGIN = "Failed to ";
    private static final long LOGGED = TimeUnit.MINUTES.toNanos(1);

    private static String last = "";
    private static long at;
    private static long logged;

    public ExecutorPods(
            SparkConf conf,
            SecurityManager security,
            KubernetesExecutorBuilder builder,
            KubernetesClient client,
            ExecutorPodsSnapshotsStore snapshots,
            Clock clock) {
        super(conf, security, builder, client, snapshots, clock);
    }

    /** Return the last answer if it is at most so old; empty otherwise. */
    public static synchronized String findRefusal(long seconds) {
        return System.nanoTime() - at > TimeUnit.SECONDS.toNanos(seconds) ? "" : last;
    }

    /** Ignore the manager, which counts executors that end and would count refused ones too. */
    @Override
    public void setExecutorPodsLifecycleManager(ExecutorPodsLifecycleManager manager) {}

    @Override
    public void logError(LogEntry entry, Throwable thrown) {
        if (!entry.message().startsWith(BEGIN) || keep(String.valueOf(thrown.getMessage()))) {
            super.logError(entry, thrown);
        }
    }

    /** Keep an answer, and return whether to log it. */
    private static synchronized boolean keep(String answer) {
        last = answer;
        at = System.nanoTime();
        boolean isDue = logged == 0 || at - logged > LOGGED;
        logged = isDue ? at : logged;
        return isDue;
    }
}
