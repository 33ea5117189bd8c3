package kappa.kafka;

import java.io.IOException;
import java.util.Set;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.protocol.Errors;

/** Rows could not be written, and none of their batch was. The message has Kafka's name of the error, which the driver classifies. */
final class PublishError extends IOException {
    private static final long serialVersionUID = 1L;
    private static final Set<Errors> TAKEN = Set.of(
            Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH, Errors.INVALID_TXN_STATE, Errors.INVALID_PRODUCER_ID_MAPPING);

    PublishError(Publisher publisher, String name, String text) {
        super("[ROWS_NOT_WRITTEN] " + name + ": topic " + publisher.topic() + ": " + text);
    }

    /** Return the error for a transaction that has lasted so long. The other one is not its cause: the driver reports the innermost. */
    static PublishError explain(Publisher publisher, KafkaException error, long seconds) {
        PublishError explained = name(publisher, error, seconds);
        explained.addSuppressed(error);
        return explained;
    }

    private static PublishError name(Publisher publisher, KafkaException error, long seconds) {
        Throwable found = find(error);
        Errors code = Errors.forException(found);
        if (!TAKEN.contains(code)) {
            String name = code == Errors.UNKNOWN_SERVER_ERROR ? found.getClass().getSimpleName() : code.name();
            return new PublishError(publisher, name, found.getMessage() + detail(publisher, code));
        }
        long longest = publisher.duration("transaction.timeout.ms").toSeconds();
        if (seconds >= longest) {
            String text = "writing took " + seconds + " s, and Kafka ends a transaction after " + longest + " s";
            return new PublishError(publisher, "TRANSACTION_TIMED_OUT", text);
        }
        return new PublishError(publisher, "FENCED", "another process uses the same transactional.id (" + code + ")");
    }

    /** Return the first exception of a chain that has a name in Kafka's protocol; the innermost if none has. */
    private static Throwable find(Throwable error) {
        Throwable found = error;
        while (Errors.forException(found) == Errors.UNKNOWN_SERVER_ERROR && found.getCause() != null) {
            found = found.getCause();
        }
        return found;
    }

    /** Return details that Kafka's messages lack. */
    private static String detail(Publisher publisher, Errors code) {
        return switch (code) {
            case GROUP_AUTHORIZATION_FAILED -> " (group " + publisher.group() + ")";
            case TRANSACTIONAL_ID_AUTHORIZATION_FAILED -> " (transactional ids " + publisher.group() + ".*)";
            default -> "";
        };
    }
}
