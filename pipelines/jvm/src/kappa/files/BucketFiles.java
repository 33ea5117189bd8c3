package kappa.files;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Files of a checkpoint in a bucket, written under their own names: an object appears as a whole, when its stream is closed (ADR 97).
 *
 * <p>Spark's own manager writes another object and renames it. In a bucket a rename is a copy, with a request for each check before and after it.
 */
public final class BucketFiles extends FileSystemBasedCheckpointFileManager {
    /** Spark creates it by its name in `spark.sql.streaming.checkpointFileManagerClass`. */
    public BucketFiles(Path path, Configuration conf) {
        super(path, conf);
    }

    /** Return a stream whose file exists once it is closed. Without `replaces` closing fails where there is a file meanwhile. */
    @Override
    public CancellableFSDataOutputStream createAtomic(Path path, boolean replaces) {
        try {
            return new ObjectStream(fs().create(path, true), path, replaces);
        } catch (IOException error) {
            throw BucketFiles.<RuntimeException>fail(error);
        }
    }

    /** Throw a checked exception, which methods of Scala do not declare. */
    @SuppressWarnings("unchecked")
    private static <E extends Exception> E fail(IOException error) throws E {
        throw (E) error;
    }

    private final class ObjectStream extends CancellableFSDataOutputStream {
        private final FSDataOutputStream target;
        private final Path path;
        private final boolean replaces;
        private boolean ended;

        ObjectStream(FSDataOutputStream target, Path path, boolean replaces) {
            super(target);
            this.target = target;
            this.path = path;
            this.replaces = replaces;
        }

        @Override
        public synchronized void close() throws IOException {
            if (ended) {
                return;
            }
            if (!replaces && exists(path)) {
                cancel();
                throw new FileAlreadyExistsException(path + " already exists");
            }
            ended = true;
            super.close();
        }

        @Override
        public synchronized void cancel() {
            if (!ended) {
                ended = true;
                target.abort();
            }
        }
    }
}
