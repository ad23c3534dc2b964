import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/**
 * Consume namesrv= group= topic= expression=* model=clustering|broadcasting listener=concurrent|orderly: prints a line per
 * message, and one with its queues of the topic each time that they change, until stdin ends. rebalance_ms=20000 is the
 * time after which it looks again whose queues are whose when nobody told it to. With fails=N each message fails N times,
 * and comes again after a second; after tries=N of them it is a dead letter.
 */
public class Consume {
    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(args);
        System.setProperty("rocketmq.client.rebalance.waitInterval", lines.get("rebalance_ms", "20000"));
        String topic = lines.get("topic");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(lines.get("group"));
        consumer.setNamesrvAddr(lines.get("namesrv"));
        consumer.setInstanceName(lines.get("instance", "DEFAULT"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMessageModel(MessageModel.valueOf(lines.get("model", "clustering").toUpperCase()));
        consumer.setPollNameServerInterval(1000); // by default it sees a topic that is new 30 seconds later
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setMqClientApiTimeout(30_000);
        consumer.setAwaitTerminationMillisWhenShutdown(120_000); // commits what its threads are about to return from
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        int fails = Integer.parseInt(lines.get("fails", "0"));
        consumer.setMaxReconsumeTimes(Integer.parseInt(lines.get("tries", "-1")));
        consumer.subscribe(topic, lines.get("expression", "*"));
        if (lines.get("listener", "concurrent").equals("orderly")) {
            consumer.setMessageListener((MessageListenerOrderly) (messages, context) -> {
                print(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.setMessageListener((MessageListenerConcurrently) (messages, context) -> {
                print(messages);
                if (messages.get(0).getReconsumeTimes() < fails) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        Lines.print(Lines.line("started"));
        Thread watch = new Thread(() -> watchQueues(consumer, topic), "queues");
        watch.setDaemon(true);
        watch.start();
        Lines.awaitEndOfInput();
        consumer.shutdown();
        Lines.print(Lines.line("closed"));
        System.exit(0);
    }

    private static void print(List<MessageExt> messages) {
        for (MessageExt each : messages) {
            Lines.printMessage(each);
        }
    }

    private static void watchQueues(DefaultMQPushConsumer consumer, String topic) {
        Set<String> before = new TreeSet<>();
        while (true) {
            Set<String> now = new TreeSet<>();
            for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
                if (queue.getTopic().equals(topic)) {
                    now.add(queue.getBrokerName() + ":" + queue.getQueueId());
                }
            }
            if (!now.equals(before)) {
                Map<String, Object> line = Lines.line("queues");
                line.put("queues", now);
                Lines.print(line);
                before = now;
            }
            try {
                Thread.sleep(50);
            } catch (InterruptedException e) {
                return;
            }
        }
    }
}
