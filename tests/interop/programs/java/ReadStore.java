import java.io.File;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * ReadStore path= log_file_size= keys=KEY,KEY,... index_slots= index_entries=: opens a store with Java's DefaultMessageStore,
 * which recovers it, and prints what it then holds: every message of every queue, the queues, and for each key (of topic=)
 * the physical offsets that the index leads to. The folder is Java's from then on: give it a copy.
 */
public class ReadStore {
    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(args);
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(lines.get("path"));
        config.setStorePathCommitLog(lines.get("path") + File.separator + "commitlog");
        config.setMappedFileSizeCommitLog(Integer.parseInt(lines.get("log_file_size")));
        config.setMaxHashSlotNum(Integer.parseInt(lines.get("index_slots")));
        config.setMaxIndexNum(Integer.parseInt(lines.get("index_entries")));
        config.setHaListenPort(0); // any: nobody is to connect
        config.setDuplicationEnable(false);
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager("reader", false), null, new BrokerConfig());
        if (!store.load()) {
            throw new IllegalStateException("load() returned false");
        }
        store.start();
        for (String topic : sorted(store.getConsumeQueueTable().keySet())) {
            for (Integer queueId : sorted(store.getConsumeQueueTable().get(topic).keySet())) {
                printQueue(store, topic, queueId);
            }
        }
        for (String key : lines.get("keys", "").split(",")) {
            if (!key.isEmpty()) {
                printKey(store, lines.get("topic"), key);
            }
        }
        Map<String, Object> line = Lines.line("log");
        line.put("minPhysicalOffset", store.getMinPhyOffset());
        line.put("maxPhysicalOffset", store.getMaxPhyOffset());
        Lines.print(line);
        Lines.print(Lines.line("closed"));
        Runtime.getRuntime().halt(0); // an orderly shutdown takes seconds, and nothing is to be kept
    }

    private static <T extends Comparable<T>> List<T> sorted(Iterable<T> all) {
        List<T> list = new ArrayList<>();
        all.forEach(list::add);
        Collections.sort(list);
        return list;
    }

    private static void printQueue(MessageStore store, String topic, int queueId) {
        Map<String, Object> line = Lines.line("queue");
        line.put("topic", topic);
        line.put("queueId", queueId);
        line.put("min", store.getMinOffsetInQueue(topic, queueId));
        line.put("max", store.getMaxOffsetInQueue(topic, queueId));
        Lines.print(line);
        long end = store.getMaxOffsetInQueue(topic, queueId);
        for (long next = store.getMinOffsetInQueue(topic, queueId); next < end; ) {
            GetMessageResult result = store.getMessage("reader", topic, queueId, next, 32, null);
            if (result == null || result.getStatus() != GetMessageStatus.FOUND) {
                throw new IllegalStateException(topic + ":" + queueId + " at " + next + ": " + (result == null ? null : result.getStatus()));
            }
            for (SelectMappedBufferResult each : result.getMessageMapedList()) {
                MessageExt message = MessageDecoder.decode(each.getByteBuffer(), true, true, true);
                if (message == null) {
                    throw new IllegalStateException(topic + ":" + queueId + " at " + next + ": not decoded");
                }
                Lines.printMessage(message);
            }
            next = result.getNextBeginOffset();
            result.release();
        }
    }

    private static void printKey(DefaultMessageStore store, String topic, String key) {
        Map<String, Object> line = Lines.line("key");
        line.put("key", key);
        List<Long> offsets = new ArrayList<>();
        QueryMessageResult result = store.queryMessage(topic, key, 64, 0, Long.MAX_VALUE);
        for (ByteBuffer each : result.getMessageBufferList()) {
            offsets.add(MessageDecoder.decode(each, false).getCommitLogOffset());
        }
        result.release();
        line.put("physicalOffsets", sorted(offsets));
        Lines.print(line);
    }
}
