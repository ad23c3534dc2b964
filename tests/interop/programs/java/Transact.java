import java.util.Map;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Transact namesrv= group=: sends each message that stdin describes in a transaction, as it comes, up to the end of stdin.
 * The properties "first" and "then" say what its local transaction, and a check of it, come to: commit, rollback or unknown.
 */
public class Transact {
    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(args);
        TransactionMQProducer producer = new TransactionMQProducer(lines.get("group"));
        producer.setNamesrvAddr(lines.get("namesrv"));
        producer.setMqClientApiTimeout(30_000);
        producer.setSendMsgTimeout(60_000);
        producer.setHeartbeatBrokerInterval(500);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return state(message.getUserProperty("first"));
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                Map<String, Object> line = Lines.line("checked");
                line.put("keys", message.getKeys());
                line.put("topic", message.getTopic());
                line.put("transactionId", message.getTransactionId());
                Lines.print(line);
                return state(message.getUserProperty("then"));
            }
        });
        producer.start();
        Lines.print(Lines.line("started"));
        Lines.each(each -> {
            try {
                Map<String, Object> line = Lines.line("sent");
                line.put("status", producer.sendMessageInTransaction(Lines.message(each), null).getSendStatus().name());
                Lines.print(line);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        producer.shutdown();
        Lines.print(Lines.line("closed"));
        System.exit(0);
    }

    private static LocalTransactionState state(String name) {
        switch (name) {
            case "commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }
}
