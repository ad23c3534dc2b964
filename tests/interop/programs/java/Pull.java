import java.util.Collection;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Pull namesrv= group= topic= count=: a lite pull consumer that is assigned every queue of the topic, begins each at its
 * first message, prints count messages, commits its offsets, prints the committed one of each queue and ends.
 */
public class Pull {
    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(args);
        int count = Integer.parseInt(lines.get("count"));
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(lines.get("group"));
        consumer.setNamesrvAddr(lines.get("namesrv"));
        consumer.setMqClientApiTimeout(30_000);
        consumer.setAutoCommit(false);
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(lines.get("topic"));
        consumer.assign(queues);
        for (MessageQueue queue : queues) {
            consumer.seekToBegin(queue);
        }
        for (int seen = 0; seen < count; ) {
            List<MessageExt> messages = consumer.poll(1000);
            for (MessageExt each : messages) {
                Lines.printMessage(each);
            }
            seen += messages.size();
        }
        consumer.commitSync();
        for (MessageQueue queue : queues) {
            java.util.Map<String, Object> line = Lines.line("committed");
            line.put("brokerName", queue.getBrokerName());
            line.put("queueId", queue.getQueueId());
            line.put("consumerOffset", consumer.committed(queue));
            Lines.print(line);
        }
        consumer.shutdown();
        Lines.print(Lines.line("closed"));
        System.exit(0);
    }
}
