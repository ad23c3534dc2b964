import java.util.Map;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * View namesrv= topic= ids=ID,ID,...: prints the message of each offset id (or the broker's refusal), then the offsets
 * that the broker gives for each queue of the topic: the first, the next, and the one at the time at_ms= if given.
 */
public class View {
    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(args);
        String topic = lines.get("topic");
        DefaultMQProducer client = new DefaultMQProducer("view");
        client.setNamesrvAddr(lines.get("namesrv"));
        client.setMqClientApiTimeout(30_000);
        client.start();
        for (String id : lines.get("ids", "").split(",")) {
            if (id.isEmpty()) {
                continue;
            }
            try {
                Lines.printMessage(client.getDefaultMQProducerImpl().getMqClientFactory().getMQAdminImpl().viewMessage(id));
            } catch (MQBrokerException e) {
                Map<String, Object> line = Lines.line("refused");
                line.put("code", e.getResponseCode());
                line.put("remark", e.getErrorMessage());
                Lines.print(line);
            }
        }
        for (MessageQueue queue : client.fetchPublishMessageQueues(topic)) {
            Map<String, Object> line = Lines.line("offsets");
            line.put("brokerName", queue.getBrokerName());
            line.put("queueId", queue.getQueueId());
            line.put("min", client.minOffset(queue));
            line.put("max", client.maxOffset(queue));
            if (lines.get("at_ms", null) != null) {
                line.put("at", client.searchOffset(queue, Long.parseLong(lines.get("at_ms"))));
            }
            Lines.print(line);
        }
        client.shutdown();
        Lines.print(Lines.line("closed"));
        System.exit(0);
    }
}
