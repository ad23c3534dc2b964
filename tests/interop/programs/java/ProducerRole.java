import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer; open takes namesrv, group, namespace, compress (ZLIB, LZ4, ZSTD), trace (true) and traceTopic. Modes of send: sync, async, oneway,
 * batch; hash (the key "shard" chooses the queue as SelectMessageQueueByHash does); transaction (the properties "first" and
 * "then" say what the local transaction and a check of it come to: commit, rollback or unknown; a check prints
 * "checked"); request (prints "replied" with the reply, or "failed").
 */
final class ProducerRole implements Roles.Role {
    private final String name;
    private TransactionMQProducer producer;

    ProducerRole(String name) {
        this.name = name;
    }

    @Override
    public void open(JSONObject settings) throws Exception {
        synchronized (ProducerRole.class) { // the compressor is chosen when the producer is made, by a property
            System.setProperty("rocketmq.message.compressType", settings.containsKey("compress") ? settings.getString("compress") : "ZLIB");
            producer = new TransactionMQProducer(
                settings.getString("namespace"), settings.getString("group"), null, settings.getBooleanValue("trace"), settings.getString("traceTopic"));
        }
        producer.setNamesrvAddr(settings.getString("namesrv"));
        producer.setMqClientApiTimeout(30_000);
        producer.setSendMsgTimeout(60_000);
        producer.setHeartbeatBrokerInterval(500);
        producer.setInstanceName(name);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return state(message.getUserProperty("first"));
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                Lines.print(Lines.of(Roles.line("checked", name), message));
                return state(message.getUserProperty("then"));
            }
        });
        producer.start();
    }

    @Override
    public void send(JSONObject command) throws Exception {
        JSONArray asked = command.getJSONArray("messages");
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < asked.size(); i++) {
            messages.add(Lines.message(asked.getJSONObject(i)));
        }
        String mode = command.getString("mode");
        if (mode.equals("batch")) {
            print(0, producer.send(messages));
        } else if (mode.equals("async")) {
            sendAsync(messages);
        } else {
            for (int i = 0; i < messages.size(); i++) {
                sendOne(mode, i, messages.get(i), asked.getJSONObject(i));
            }
        }
    }

    @Override
    public void close() {
        producer.shutdown();
    }

    private void sendOne(String mode, int index, Message message, JSONObject asked) throws Exception {
        switch (mode) {
            case "sync":
                print(index, producer.send(message));
                break;
            case "oneway":
                producer.sendOneway(message);
                print(index, null);
                break;
            case "hash":
                print(index, producer.send(message, new SelectMessageQueueByHash(), asked.getString("shard")));
                break;
            case "transaction":
                print(index, producer.sendMessageInTransaction(message, null));
                break;
            case "request":
                MessageExt reply = (MessageExt) producer.request(message, 60_000);
                Map<String, Object> line = Lines.of(Roles.line("replied", name), reply);
                line.put("index", index);
                Lines.print(line);
                break;
            default:
                throw new IllegalArgumentException("mode=" + mode);
        }
    }

    private void sendAsync(List<Message> messages) throws Exception {
        Map<Integer, SendResult> results = new TreeMap<>();
        CountDownLatch left = new CountDownLatch(messages.size());
        for (int i = 0; i < messages.size(); i++) {
            int index = i;
            producer.send(messages.get(i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    synchronized (results) {
                        results.put(index, result);
                    }
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
        results.forEach(this::print);
    }

    private void print(int index, SendResult result) {
        Map<String, Object> line = Roles.line("sent", name);
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

    private static LocalTransactionState state(String verdict) {
        switch (verdict) {
            case "commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }
}
