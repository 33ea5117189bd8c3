import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Runs scripts of Flink SQL, one after the other, in one JVM. Each line of the input is the path of a script, whose statements end with
 * ";" at the end of a line. "SET name = value" sets an option. The answer to a script is one line with the seconds that it took.
 */
public final class FlinkPeer {
    public static void main(String[] args) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = input.readLine()) != null; ) {
            long begin = System.nanoTime();
            run(Files.readString(Path.of(line)));
            System.out.println((System.nanoTime() - begin) / 1e9);
        }
    }

    private static void run(String script) throws Exception {
        var environment = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        for (String statement : script.split(";\\s*(\\n|$)")) {
            if (statement.startsWith("SET ")) {
                String[] option = statement.substring(4).split("=", 2);
                environment.getConfig().set(option[0].strip(), option[1].strip());
            } else if (!statement.isBlank()) {
                var result = environment.executeSql(statement);
                if (statement.startsWith("INSERT")) {
                    result.await();
                }
            }
        }
    }
}
