package kappa.files;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local file system, which sets permissions by a call of the kernel. Without its native library, Hadoop starts the program chmod for each file. */
public final class LocalFiles extends LocalFileSystem {
    /** Hadoop creates it by its name in `fs.file.impl`. */
    public LocalFiles() {
        super(new Raw());
    }

    private static final class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission); // Java's API has no sticky bit
            } else {
                Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
            }
        }
    }
}
