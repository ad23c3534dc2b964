import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Acl namesrv= group= access= secret= token=: a client that signs as Java's clients do; without access= it does not sign.
 * Steps come from stdin as JSON, one per line, and each is answered by {"event":"done","outcome":TEXT}: what came of it,
 * or the messages of the exception and its causes.
 * {"send":TOPIC} {"batch":TOPIC}                one message, a batch of three
 * {"byKey":TOPIC,"key":KEY} {"byId":TOPIC,"id":ID}   how many are found by key, or "found" by unique id
 * {"consume":TOPIC,"count":N,"within_s":N}      how many came within the time, at most count
 */
public class Acl {
    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(args);
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        String access = lines.get("access", "");
        String token = lines.get("token", "");
        RPCHook hook = access.isEmpty() ? null : new AclClientRPCHook(token.isEmpty()
            ? new SessionCredentials(access, lines.get("secret")) : new SessionCredentials(access, lines.get("secret"), token));
        DefaultMQProducer producer = new DefaultMQProducer(lines.get("group"), hook);
        producer.setNamesrvAddr(lines.get("namesrv"));
        producer.setMqClientApiTimeout(30_000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        for (JSONObject step : Lines.read()) {
            Map<String, Object> line = Lines.line("done");
            try {
                line.put("outcome", run(producer, hook, lines, step));
            } catch (Exception e) {
                StringBuilder why = new StringBuilder();
                for (Throwable each = e; each != null; each = each.getCause()) {
                    why.append(each.getMessage()).append('\n');
                }
                line.put("outcome", why.toString());
            }
            Lines.print(line);
        }
        producer.shutdown();
        Lines.print(Lines.line("closed"));
        System.exit(0);
    }

    private static String run(DefaultMQProducer producer, RPCHook hook, Lines lines, JSONObject step) throws Exception {
        if (step.containsKey("send")) {
            return producer.send(new Message(step.getString("send"), "TagA", "akey", "body".getBytes())).getMsgId();
        }
        if (step.containsKey("batch")) {
            List<Message> messages = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                messages.add(new Message(step.getString("batch"), ("body" + i).getBytes()));
            }
            return producer.send(messages).getSendStatus().name();
        }
        if (step.containsKey("byKey")) {
            long now = System.currentTimeMillis();
            QueryResult found = producer.queryMessage(step.getString("byKey"), step.getString("key"), 32, now - 600_000, now + 600_000);
            return String.valueOf(found.getMessageList().size());
        }
        if (step.containsKey("byId")) {
            return producer.viewMessage(step.getString("byId"), step.getString("id")) == null ? "nothing" : "found";
        }
        return consume(hook, lines, step);
    }

    private static String consume(RPCHook hook, Lines lines, JSONObject step) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(lines.get("group"), hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(lines.get("namesrv"));
        consumer.setMqClientApiTimeout(30_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(step.getString("consume"), "*");
        int count = step.getIntValue("count");
        CountDownLatch left = new CountDownLatch(count);
        consumer.setMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(each -> left.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        left.await(step.getIntValue("within_s"), TimeUnit.SECONDS);
        consumer.shutdown();
        return String.valueOf(count - left.getCount());
    }
}
