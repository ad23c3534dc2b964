import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Produce namesrv= group= mode=sync|async|oneway|batch|orderly: sends what stdin describes and prints a line per result, in
 * the order of stdin. batch: all lines are one batch, and have one result. orderly: the line's "shard" chooses the queue.
 */
public class Produce {
    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(args);
        DefaultMQProducer producer = new DefaultMQProducer(lines.get("group"));
        producer.setNamesrvAddr(lines.get("namesrv"));
        producer.setMqClientApiTimeout(30_000);
        producer.setSendMsgTimeout(60_000);
        producer.start();
        try {
            send(producer, lines.get("mode", "sync"));
        } finally {
            producer.shutdown();
        }
        Lines.print(Lines.line("closed"));
        System.exit(0);
    }

    private static void send(DefaultMQProducer producer, String mode) throws Exception {
        List<JSONObject> asked = Lines.read();
        List<Message> messages = new ArrayList<>();
        for (JSONObject each : asked) {
            messages.add(Lines.message(each));
        }
        if (mode.equals("batch")) {
            print(0, producer.send(messages));
        } else if (mode.equals("async")) {
            sendAsync(producer, messages);
        } else {
            for (int i = 0; i < messages.size(); i++) {
                print(i, sendOne(producer, mode, messages.get(i), asked.get(i)));
            }
        }
    }

    private static SendResult sendOne(DefaultMQProducer producer, String mode, Message message, JSONObject asked) throws Exception {
        switch (mode) {
            case "sync":
                return producer.send(message);
            case "oneway":
                producer.sendOneway(message);
                return null;
            case "orderly":
                return producer.send(message, (queues, m, shard) -> queues.get((Integer) shard % queues.size()), asked.getInteger("shard"));
            default:
                throw new IllegalArgumentException("mode=" + mode);
        }
    }

    private static void sendAsync(DefaultMQProducer producer, List<Message> messages) throws Exception {
        SendResult[] results = new SendResult[messages.size()];
        CountDownLatch left = new CountDownLatch(messages.size());
        for (int i = 0; i < results.length; i++) {
            int index = i;
            producer.send(messages.get(i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    results[index] = result;
                    left.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    e.printStackTrace();
                    left.countDown();
                }
            });
        }
        left.await();
        for (int i = 0; i < results.length; i++) {
            print(i, results[i]);
        }
    }

    private static void print(int index, SendResult result) {
        Map<String, Object> line = Lines.line("sent");
        line.put("index", index);
        if (result != null) {
            line.put("status", result.getSendStatus().name());
            line.put("msgId", result.getMsgId());
            line.put("offsetMsgId", result.getOffsetMsgId());
            line.put("brokerName", result.getMessageQueue().getBrokerName());
            line.put("queueId", result.getMessageQueue().getQueueId());
            line.put("queueOffset", result.getQueueOffset());
        }
        Lines.print(line);
    }
}
