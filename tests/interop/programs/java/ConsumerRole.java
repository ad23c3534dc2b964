import com.alibaba.fastjson.JSONObject;
import java.util.List;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/**
 * A push consumer that prints a "message" for each; open takes namesrv, group, topic, namespace, expression or sql,
 * from (a ConsumeFromWhere) and timestamp, model (CLUSTERING, BROADCASTING), listener (concurrent, orderly), strategy (AVG, AVG_BY_CIRCLE, CONSISTENT_HASH), fails (so
 * many times each message fails, and comes again after a second), tries (after so many it is a dead letter), replies (true:
 * each message is answered with its body turned round), trace (true) and traceTopic.
 */
final class ConsumerRole implements Roles.Role {
    private final String name;
    private DefaultMQPushConsumer consumer;
    private DefaultMQProducer replier;
    private int fails;

    ConsumerRole(String name) {
        this.name = name;
    }

    @Override
    public void open(JSONObject settings) throws Exception {
        consumer = new DefaultMQPushConsumer(
            settings.getString("namespace"), settings.getString("group"), null, strategy(settings), settings.getBooleanValue("trace"), settings.getString("traceTopic"));
        consumer.setNamesrvAddr(settings.getString("namesrv"));
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(given(settings, "from", "CONSUME_FROM_FIRST_OFFSET")));
        if (settings.containsKey("timestamp")) {
            consumer.setConsumeTimestamp(settings.getString("timestamp"));
        }
        consumer.setMessageModel(MessageModel.valueOf(given(settings, "model", "CLUSTERING")));
        consumer.setPollNameServerInterval(1000); // by default it sees a topic that is new 30 seconds later
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setMqClientApiTimeout(30_000);
        consumer.setPullTimeDelayMillsWhenException(100);
        consumer.setAwaitTerminationMillisWhenShutdown(20_000); // commits what its threads are about to return from
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        consumer.setMaxReconsumeTimes(settings.containsKey("tries") ? settings.getIntValue("tries") : -1);
        fails = settings.getIntValue("fails");
        if (settings.containsKey("sql")) {
            consumer.subscribe(settings.getString("topic"), MessageSelector.bySql(settings.getString("sql")));
        } else {
            consumer.subscribe(settings.getString("topic"), given(settings, "expression", "*"));
        }
        if (settings.getBooleanValue("replies")) {
            openReplier(settings);
        }
        if (given(settings, "listener", "concurrent").equals("orderly")) {
            consumer.setMessageListener((MessageListenerOrderly) (messages, context) -> {
                take(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.setMessageListener((MessageListenerConcurrently) (messages, context) -> {
                take(messages);
                if (messages.get(0).getReconsumeTimes() < fails) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
    }

    @Override
    public void send(JSONObject command) {
        throw new IllegalArgumentException("a consumer does not send");
    }

    @Override
    public void close() {
        consumer.shutdown();
        if (replier != null) {
            replier.shutdown();
        }
    }

    private void openReplier(JSONObject settings) throws Exception {
        replier = new DefaultMQProducer(settings.getString("namespace"), settings.getString("group") + "_replier");
        replier.setNamesrvAddr(settings.getString("namesrv"));
        replier.setMqClientApiTimeout(30_000);
        replier.setInstanceName(name + "-replier");
        replier.start();
    }

    private void take(List<MessageExt> messages) {
        for (MessageExt each : messages) {
            Lines.print(Lines.of(Roles.line("message", name), each));
            if (replier != null) {
                reply(each);
            }
        }
    }

    private void reply(MessageExt message) {
        byte[] body = message.getBody();
        byte[] turned = new byte[body.length];
        for (int i = 0; i < body.length; i++) {
            turned[i] = body[body.length - 1 - i];
        }
        try {
            replier.send(MessageUtil.createReplyMessage(message, turned), 60_000);
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    private static AllocateMessageQueueStrategy strategy(JSONObject settings) {
        switch (given(settings, "strategy", "AVG")) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash();
            default:
                throw new IllegalArgumentException("strategy=" + settings.getString("strategy"));
        }
    }

    private static String given(JSONObject settings, String name, String otherwise) {
        return settings.containsKey(name) ? settings.getString(name) : otherwise;
    }
}
