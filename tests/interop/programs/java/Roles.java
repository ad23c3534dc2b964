import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Roles: many producers and consumers in one JVM. Each line of stdin is a command, {"do": ..., "role": NAME, ...}; those of
 * one role are done one after the other, those of several side by side. Every line that is printed names its role.
 *
 *   open     "kind": "producer", "consumer" or "lite", with the settings that ProducerRole, ConsumerRole and LiteRole name;
 *            prints "opened"
 *   send     a producer sends "messages" as "mode" says; prints a "sent" for each
 *   close    prints "closed"
 *
 * A command that fails prints "failed" with the error.
 */
public class Roles {
    private static final Map<String, Role> ROLES = new ConcurrentHashMap<>();
    private static final Map<String, ExecutorService> THREADS = new ConcurrentHashMap<>();

    /** A producer or a consumer. */
    interface Role {
        void open(JSONObject settings) throws Exception;

        void send(JSONObject command) throws Exception;

        void close() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        new Lines(args);
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        Lines.each(command -> {
            String name = command.getString("role");
            THREADS.computeIfAbsent(name, each -> Executors.newSingleThreadExecutor()).execute(() -> run(name, command));
        });
        Runtime.getRuntime().halt(0);
    }

    static Map<String, Object> line(String event, String role) {
        Map<String, Object> line = Lines.line(event);
        line.put("role", role);
        return line;
    }

    private static void run(String name, JSONObject command) {
        try {
            switch (command.getString("do")) {
                case "open":
                    Role role = newRole(name, command.getString("kind"));
                    role.open(command);
                    ROLES.put(name, role);
                    Lines.print(line("opened", name));
                    break;
                case "send":
                    ROLES.get(name).send(command);
                    break;
                case "close":
                    ROLES.remove(name).close();
                    Lines.print(line("closed", name));
                    break;
                default:
                    throw new IllegalArgumentException("do=" + command.getString("do"));
            }
        } catch (Exception e) {
            e.printStackTrace();
            Map<String, Object> line = line("failed", name);
            line.put("error", e.toString());
            Lines.print(line);
        }
    }

    private static Role newRole(String name, String kind) {
        switch (kind) {
            case "producer":
                return new ProducerRole(name);
            case "consumer":
                return new ConsumerRole(name);
            case "lite":
                return new LiteRole(name);
            default:
                throw new IllegalArgumentException("kind=" + kind);
        }
    }
}
