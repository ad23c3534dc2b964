import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.Feature;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;

/** What the programs of this folder share: name=value arguments, JSON lines in and out, a limit on their life. */
final class Lines {
    private static final PrintStream OUT = stream();

    private final Map<String, String> arguments = new LinkedHashMap<>();

    Lines(String[] given) {
        for (String each : given) {
            int at = each.indexOf('=');
            arguments.put(each.substring(0, at), each.substring(at + 1));
        }
        Thread.currentThread().setUncaughtExceptionHandler((thread, e) -> {
            e.printStackTrace();
            Runtime.getRuntime().halt(1); // a library's threads would keep the program alive
        });
        System.setOut(System.err); // a library that prints must not end up between our lines
        long limitMs = Long.parseLong(get("limit_s", "60")) * 1000;
        Thread watch = new Thread(() -> {
            try {
                Thread.sleep(limitMs);
            } catch (InterruptedException e) {
                return;
            }
            System.err.println("the time limit has passed");
            Runtime.getRuntime().halt(3);
        }, "limit");
        watch.setDaemon(true);
        watch.start();
    }

    private static PrintStream stream() {
        try {
            return new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    String get(String name) {
        String value = arguments.get(name);
        if (value == null) {
            throw new IllegalArgumentException("no " + name + "= given");
        }
        return value;
    }

    String get(String name, String otherwise) {
        return arguments.getOrDefault(name, otherwise);
    }

    static synchronized void print(Map<String, Object> line) {
        OUT.println(JSON.toJSONString(line));
    }

    static Map<String, Object> line(String event) {
        Map<String, Object> line = new TreeMap<>();
        line.put("event", event);
        return line;
    }

    static void printMessage(MessageExt message) {
        print(of(line("message"), message));
    }

    /** Adds all that a test wants to know of a message. */
    static Map<String, Object> of(Map<String, Object> line, MessageExt message) {
        line.put("topic", message.getTopic());
        line.put("queueId", message.getQueueId());
        line.put("queueOffset", message.getQueueOffset());
        line.put("msgId", message.getMsgId());
        if (message instanceof MessageClientExt) {
            line.put("offsetMsgId", ((MessageClientExt) message).getOffsetMsgId());
        }
        line.put("brokerName", message.getBrokerName());
        line.put("sysFlag", message.getSysFlag());
        line.put("flag", message.getFlag());
        line.put("storeSize", message.getStoreSize());
        line.put("commitLogOffset", message.getCommitLogOffset());
        line.put("bornTimestamp", message.getBornTimestamp());
        line.put("storeTimestamp", message.getStoreTimestamp());
        line.put("bornHost", message.getBornHostString());
        line.put("reconsumeTimes", message.getReconsumeTimes());
        line.put("tags", message.getTags());
        line.put("keys", message.getKeys());
        line.put("properties", new TreeMap<>(message.getProperties()));
        line.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        return line;
    }

    /** The messages that stdin describes, one JSON object per line, up to its end. */
    static List<JSONObject> read() throws IOException {
        List<JSONObject> all = new ArrayList<>();
        each(all::add);
        return all;
    }

    /** Takes what stdin says, one JSON object per line, as it comes, up to its end. */
    static void each(Consumer<JSONObject> taker) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String text = in.readLine(); text != null; text = in.readLine()) {
            taker.accept(JSON.parseObject(text, Feature.OrderedField));
        }
    }

    static Message message(JSONObject from) {
        Message message = new Message(from.getString("topic"), Base64.getDecoder().decode(from.getString("body")));
        if (from.getString("tags") != null) {
            message.setTags(from.getString("tags"));
        }
        if (from.getString("keys") != null) {
            message.setKeys(from.getString("keys"));
        }
        if (from.containsKey("delay")) {
            message.setDelayTimeLevel(from.getIntValue("delay"));
        }
        JSONObject properties = from.getJSONObject("properties");
        if (properties != null) {
            for (String name : properties.keySet()) {
                message.putUserProperty(name, properties.getString(name));
            }
        }
        return message;
    }

    /** Returns when whoever started this program closes its stdin. */
    static void awaitEndOfInput() throws IOException {
        while (System.in.read() >= 0) {
            // whatever comes only says that there is no end yet
        }
    }
}
