import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Request namesrv= group= topic=: asks with each message that stdin describes, and prints the reply. Who replies, with the
 * body turned round, is a consumer and a producer of this program too.
 */
public class Request {
    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(args);
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        DefaultMQProducer replier = producer(lines, "replier");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(lines.get("group"));
        consumer.setNamesrvAddr(lines.get("namesrv"));
        consumer.setMqClientApiTimeout(30_000);
        consumer.setPullTimeDelayMillsWhenException(100);
        consumer.subscribe(lines.get("topic"), "*");
        consumer.setMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                String body = new StringBuilder(new String(each.getBody())).reverse().toString();
                try {
                    replier.send(MessageUtil.createReplyMessage(each, body.getBytes()), 60_000);
                } catch (Exception e) {
                    e.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer requester = producer(lines, "requester");
        Lines.print(Lines.line("started"));
        for (JSONObject each : Lines.read()) {
            Message reply = requester.request(Lines.message(each), 100_000);
            Lines.printMessage((MessageExt) reply);
        }
        consumer.shutdown();
        replier.shutdown();
        requester.shutdown();
        Lines.print(Lines.line("closed"));
        System.exit(0);
    }

    private static DefaultMQProducer producer(Lines lines, String name) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(lines.get("group") + "_" + name);
        producer.setNamesrvAddr(lines.get("namesrv"));
        producer.setMqClientApiTimeout(30_000);
        producer.setInstanceName(name);
        producer.start();
        return producer;
    }
}
