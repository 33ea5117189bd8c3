package kappa.start;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.concurrent.TimeUnit;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.config.LoggerConfig;
import org.apache.logging.log4j.core.filter.AbstractFilter;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.deploy.ExecutorFailureTracker;
import scala.Option;
import scala.collection.mutable.Queue;

/**
 * Pods of executors that the API server refuses, for example for a ResourceQuota (ADR 100).
 *
 * <p>Spark requests them again each second. It only logs the answer, and counts it as an executor that has failed, of which it permits few. Here the
 * answer is kept for the driver, the log has it once in a minute, and it is no failure any more: no executor has failed.
 */
public final class Refusals extends AbstractFilter {
    private static final String ALLOCATOR = "org.apache.spark.scheduler.cluster.k8s.ExecutorPodsAllocator";
    private static final String BEGIN = "Failed to ";
    private static final long LOGGED = TimeUnit.MINUTES.toNanos(1);
    private static final Refusals FOUND = new Refusals();

    private String last = "";
    private long at;
    private long logged;

    private Refusals() {}

    /** Keep the answers from now on. */
    public static synchronized void watch() {
        LoggerContext context = (LoggerContext) LogManager.getContext(false);
        LoggerConfig logger = context.getConfiguration().getLoggerConfig(ALLOCATOR);
        if (!logger.getName().equals(ALLOCATOR)) {
            logger = new LoggerConfig(ALLOCATOR, Level.WARN, true);
            context.getConfiguration().addLogger(ALLOCATOR, logger);
        }
        logger.removeFilter(FOUND);
        logger.addFilter(FOUND);
        context.updateLoggers();
    }

    /** Return the last answer if it is at most so old; empty otherwise. */
    public static String find(long seconds) {
        synchronized (FOUND) {
            boolean isOld = System.nanoTime() - FOUND.at > TimeUnit.SECONDS.toNanos(seconds);
            return isOld ? "" : FOUND.last;
        }
    }

    @Override
    public Result filter(LogEvent event) {
        Throwable thrown = event.getThrown();
        if (thrown == null || !event.getMessage().getFormattedMessage().startsWith(BEGIN)) {
            return Result.NEUTRAL;
        }
        forget();
        return keep(String.valueOf(thrown.getMessage())) ? Result.NEUTRAL : Result.DENY;
    }

    /** Keep an answer, and return whether to log it. */
    private synchronized boolean keep(String answer) {
        last = answer;
        at = System.nanoTime();
        boolean isDue = logged == 0 || at - logged > LOGGED;
        logged = isDue ? at : logged;
        return isDue;
    }

    private static void forget() {
        Option<SparkContext> context = SparkContext$.MODULE$.getActive();
        if (context.isEmpty()) {
            return;
        }
        Object backend = context.get().schedulerBackend();
        try {
            Object manager = read(backend.getClass(), backend, "lifecycleManager");
            Method tracker = manager.getClass().getMethod("failureTracker");
            forgetLast((ExecutorFailureTracker) tracker.invoke(manager));
        } catch (ReflectiveOperationException error) {
            LogManager.getLogger(Refusals.class).warn("refused executors count as failed ones", error);
        }
    }

    /** Take the last failure back. */
    public static void forgetLast(ExecutorFailureTracker tracker) throws ReflectiveOperationException {
        synchronized (tracker) {
            ((Queue<?>) read(ExecutorFailureTracker.class, tracker, "failedExecutorsTimeStamps")).dropRightInPlace(1);
        }
    }

    private static Object read(Class<?> kind, Object owner, String name) throws ReflectiveOperationException {
        Field field = kind.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }
}
