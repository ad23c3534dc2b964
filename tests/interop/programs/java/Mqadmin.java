import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.header.QueryConsumerOffsetRequestHeader;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Mqadmin namesrv=: many mqadmin commands in one JVM, and the clients that they are to find. Steps come from stdin as
 * JSON, one per line, and each is answered by one line when it is done:
 * {"run":[COMMAND,ARGUMENT...],"within_s":N,"until":TEXT}   {"event":"printed","text":...,"exit":STATUS or null,"late":BOOLEAN}
 * {"send":{topic,queue,body,tags,keys}}        {"event":"sent","msgId":...,"offsetMsgId":...}
 * {"consume":{group,topic,instance,count}}     {"event":"consumed"} when the group has so many; it stays online
 * {"leave":GROUP}                              {"event":"left"}
 * A command that asks for the end of the JVM ends alone; one that is not done within its time, or has printed the line
 * with the TEXT, is stopped ("late").
 */
public class Mqadmin {
    private static final Map<String, DefaultMQPushConsumer> CONSUMERS = new HashMap<>();
    private static DefaultMQProducer producer;

    private static final class Exit extends Error {
        final int status;

        Exit(int status) {
            this.status = status;
        }
    }

    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(args);
        String namesrv = lines.get("namesrv");
        System.setSecurityManager(new SecurityManager() {
            @Override
            public void checkExit(int status) {
                throw new Exit(status);
            }

            @Override
            public void checkPermission(Permission permission) {
            }

            @Override
            public void checkPermission(Permission permission, Object context) {
            }
        });
        producer = new DefaultMQProducer("GoldProducer2");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("i6");
        producer.setClientIP("127.0.0.1");
        producer.start();
        Lines.print(Lines.line("ready"));
        Lines.each(step -> {
            try {
                Lines.print(done(step, namesrv));
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        CONSUMERS.values().forEach(DefaultMQPushConsumer::shutdown);
        producer.shutdown();
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> done(JSONObject step, String namesrv) throws Exception {
        if (step.containsKey("run")) {
            return printed(step.getJSONArray("run"), step.getLongValue("within_s"), step.getString("until"));
        }
        if (step.containsKey("send")) {
            return sent(step.getJSONObject("send"));
        }
        if (step.containsKey("consume")) {
            return consumed(step.getJSONObject("consume"), namesrv);
        }
        CONSUMERS.remove(step.getString("leave")).shutdown();
        return Lines.line("left");
    }

    private static Map<String, Object> printed(JSONArray command, long withinSeconds, String until) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream out = new PrintStream(bytes, true, "UTF-8");
        PrintStream outBefore = System.out;
        PrintStream errBefore = System.err;
        Integer[] exit = new Integer[1];
        Thread thread = new Thread(() -> {
            try {
                MQAdminStartup.main0(command.toArray(new String[0]), null);
            } catch (Exit e) {
                exit[0] = e.status;
            } catch (ThreadDeath e) {
                // told to stop
            }
        }, "mqadmin");
        System.setOut(out);
        System.setErr(out);
        try {
            thread.start();
            long deadline = System.nanoTime() + withinSeconds * 1_000_000_000L;
            while (thread.isAlive() && System.nanoTime() < deadline && !hasLineWith(until, bytes)) {
                thread.join(20);
            }
        } finally {
            System.setOut(outBefore);
            System.setErr(errBefore);
        }
        boolean isLate = thread.isAlive();
        if (isLate) {
            thread.stop();
        }
        Map<String, Object> line = Lines.line("printed");
        line.put("text", new String(bytes.toByteArray(), StandardCharsets.UTF_8));
        line.put("exit", exit[0]);
        line.put("late", isLate);
        return line;
    }

    private static boolean hasLineWith(String text, ByteArrayOutputStream bytes) {
        String printed = new String(bytes.toByteArray(), StandardCharsets.UTF_8);
        return text != null && printed.contains(text) && printed.indexOf('\n', printed.indexOf(text)) >= 0;
    }

    private static Map<String, Object> sent(JSONObject from) throws Exception {
        Message message = new Message(from.getString("topic"), from.getString("body").getBytes(StandardCharsets.UTF_8));
        if (from.getString("tags") != null) {
            message.setTags(from.getString("tags"));
        }
        if (from.getString("keys") != null) {
            message.setKeys(from.getString("keys"));
        }
        int wanted = from.getIntValue("queue");
        SendResult result = producer.send(message, (queues, each, argument) -> {
            for (MessageQueue queue : queues) {
                if (queue.getQueueId() == wanted) {
                    return queue;
                }
            }
            throw new IllegalArgumentException("no queue " + wanted + " among " + queues);
        }, null);
        // Its broker knows it from now on; by itself it says so after half a minute.
        producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
        Map<String, Object> line = Lines.line("sent");
        line.put("msgId", result.getMsgId());
        line.put("offsetMsgId", result.getOffsetMsgId());
        return line;
    }

    private static Map<String, Object> consumed(JSONObject from, String namesrv) throws Exception {
        String group = from.getString("group");
        AtomicInteger count = new AtomicInteger();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(from.getString("instance"));
        consumer.setClientIP("127.0.0.1");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(200);
        // To be told of a reset keeps one of them busy for ten seconds; others may ask something meanwhile.
        consumer.setClientCallbackExecutorThreads(8);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.subscribe(from.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            count.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        CONSUMERS.put(group, consumer);
        while (count.get() < from.getIntValue("count") || committed(consumer, from.getString("topic")) < count.get()) {
            Thread.sleep(20);
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset(); // which its client begins to do after 10 s
        }
        return Lines.line("consumed");
    }

    /** How many messages of the topic the broker knows to be consumed. */
    private static long committed(DefaultMQPushConsumer consumer, String topic) throws Exception {
        MQClientInstance client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        long sum = 0;
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            QueryConsumerOffsetRequestHeader header = new QueryConsumerOffsetRequestHeader();
            header.setTopic(topic);
            header.setConsumerGroup(consumer.getConsumerGroup());
            header.setQueueId(queue.getQueueId());
            String address = client.findBrokerAddressInPublish(queue.getBrokerName());
            sum += client.getMQClientAPIImpl().queryConsumerOffset(address, header, 10_000);
        }
        return sum;
    }
}
