import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A lite pull consumer that polls, prints a "message" for each, and commits when it closes; open takes namesrv, group, namespace, topic. */
final class LiteRole implements Roles.Role {
    private final String name;
    private DefaultLitePullConsumer consumer;
    private Thread poller;
    private volatile boolean ends;

    LiteRole(String name) {
        this.name = name;
    }

    @Override
    public void open(JSONObject settings) throws Exception {
        consumer = new DefaultLitePullConsumer(settings.getString("namespace"), settings.getString("group"), null);
        consumer.setNamesrvAddr(settings.getString("namesrv"));
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMqClientApiTimeout(30_000);
        consumer.setHeartbeatBrokerInterval(500);
        consumer.setAutoCommit(false);
        consumer.subscribe(settings.getString("topic"), "*");
        consumer.start();
        poller = new Thread(this::poll, name);
        poller.start();
    }

    @Override
    public void send(JSONObject command) {
        throw new IllegalArgumentException("a consumer does not send");
    }

    @Override
    public void close() throws Exception {
        ends = true;
        poller.join();
        consumer.commitSync();
        consumer.shutdown();
    }

    private void poll() {
        while (!ends) {
            for (MessageExt each : consumer.poll(100)) {
                Lines.print(Lines.of(Roles.line("message", name), each));
            }
        }
    }
}
