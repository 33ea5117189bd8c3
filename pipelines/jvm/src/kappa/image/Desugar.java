package kappa.image;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Collections;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;

/**
 * Replaces serializable lambda expressions in jars by ordinary classes, while the image is built.
 *
 * <p>Java makes the class of an expression when it is first evaluated. The archive of classes never holds those of serializable expressions
 * ({@code java.lang.invoke.LambdaProxyClassArchive}), and all of Scala's are.
 */
public final class Desugar {
    private Desugar() {}

    /** Rewrites the jars. A jar without such an expression remains the file that it is. */
    public static void main(String[] jars) throws IOException {
        for (String jar : jars) {
            rewrite(Path.of(jar));
        }
    }

    private static void rewrite(Path jar) throws IOException {
        Path part = jar.resolveSibling(jar.getFileName() + ".part");
        int written = 0;
        try (ZipFile source = new ZipFile(jar.toFile()); ZipOutputStream target = new ZipOutputStream(Files.newOutputStream(part))) {
            for (ZipEntry entry : Collections.list(source.entries())) {
                byte[] content = read(source, entry);
                Map<String, byte[]> classes = isHost(entry, content) ? Host.split(content) : Map.of();
                if (classes.isEmpty()) {
                    write(target, entry, entry.getName(), content);
                }
                for (Map.Entry<String, byte[]> each : classes.entrySet()) {
                    write(target, entry, each.getKey() + ".class", each.getValue());
                }
                written += classes.size();
            }
        }
        if (written > 0) {
            Files.move(part, jar, StandardCopyOption.REPLACE_EXISTING); // the file itself may be a link to another installation
        } else {
            Files.delete(part);
        }
    }

    private static boolean isHost(ZipEntry entry, byte[] content) {
        boolean isClass = entry.getName().endsWith(".class") && !entry.getName().startsWith("META-INF/");
        return isClass && new String(content, StandardCharsets.ISO_8859_1).contains(Lambda.FACTORY);
    }

    private static void write(ZipOutputStream target, ZipEntry source, String name, byte[] content) throws IOException {
        ZipEntry entry = new ZipEntry(name);
        entry.setTime(source.getTime());
        target.putNextEntry(entry);
        target.write(content);
        target.closeEntry();
    }

    private static byte[] read(ZipFile jar, ZipEntry entry) throws IOException {
        try (InputStream content = jar.getInputStream(entry)) {
            return content.readAllBytes();
        }
    }
}
