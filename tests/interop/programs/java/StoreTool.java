import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.ConsumeQueueExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * StoreTool: works with Java's DefaultMessageStore as the lines on stdin tell it, each a JSON object with "do" and the
 * "store" (its path) it is about; answers each with one line, in order. One JVM for as many stores as a test run needs.
 *
 * open    "settings" of MessageStoreConfig by their names; answers whether load() was true
 * put     "messages", each with status, place and queue offset in the answer; with "batchBody" one batch, and one answer
 * view    everything that the store holds, and what it finds for "keys" and "times"
 * get     what a read of "topic", "queueId" at "offset" answers
 * units   the raw units of a queue, "topic" and "queueId", and the ext units that they lead to
 * expire  deletes all but the last CommitLog file, whatever its age, and what queues and index had for them
 * close   the orderly stop; answers whether the abort file is gone
 * drop    ends a store in the background: for directories that nobody looks at again; waits while many are ending
 */
public class StoreTool {
    private final BrokerStatsManager stats = new BrokerStatsManager("tool", false);

    private final Map<String, DefaultMessageStore> stores = new HashMap<>();

    /** How many stores may be ending at a time: each holds two buffers of 4 MiB (HAClient) until it has ended. */
    private final Semaphore endings = new Semaphore(12);

    public static void main(String[] args) throws Exception {
        new Lines(args);
        StoreTool tool = new StoreTool();
        Lines.each(job -> {
            Map<String, Object> answer = Lines.line("answer");
            try {
                tool.run(job, answer);
            } catch (Exception | Error e) {
                e.printStackTrace();
                answer.put("failed", e.toString());
            }
            Lines.print(answer);
        });
        Runtime.getRuntime().halt(0); // an orderly shutdown takes seconds, and nothing is to be kept
    }

    private void run(JSONObject job, Map<String, Object> answer) throws Exception {
        String path = job.getString("store");
        switch (job.getString("do")) {
            case "open":
                answer.put("loaded", open(path, job.getJSONObject("settings")));
                return;
            case "put":
                answer.put("put", put(open(path), job));
                return;
            case "view":
                view(open(path), job, answer);
                return;
            case "get":
                get(open(path), job, answer);
                return;
            case "units":
                answer.put("units", units(open(path).findConsumeQueue(job.getString("topic"), job.getInteger("queueId"))));
                return;
            case "expire":
                expire(open(path));
                return;
            case "close":
                awaitDispatch(open(path));
                stores.remove(path).shutdown();
                answer.put("inOrder", !new File(path, "abort").exists());
                return;
            case "drop":
                endLater(stores.remove(path));
                return;
            default:
                throw new IllegalArgumentException(job.getString("do"));
        }
    }

    private DefaultMessageStore open(String path) {
        return stores.get(path);
    }

    private boolean open(String path, JSONObject settings) throws Exception {
        Properties given = new Properties();
        settings.forEach((name, value) -> given.setProperty(name, value.toString()));
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(path);
        config.setStorePathCommitLog(path + File.separator + "commitlog");
        config.setHaListenPort(0); // any: nobody is to connect
        config.setMaxMessageSize(1 << 17); // a buffer of this size belongs to each store
        MixAll.properties2Object(given, config);
        DefaultMessageStore store = new DefaultMessageStore(config, stats, null, new BrokerConfig());
        if (!store.load()) {
            return false;
        }
        store.start();
        stores.put(path, store);
        return true;
    }

    private void endLater(DefaultMessageStore store) throws InterruptedException {
        endings.acquire();
        Thread ending = new Thread(() -> {
            try {
                store.shutdown();
            } finally {
                endings.release();
            }
        });
        ending.setDaemon(true);
        ending.start();
    }

    private static void awaitDispatch(DefaultMessageStore store) throws InterruptedException {
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
    }

    // ---- put ---------------------------------------------------------------------------------------------------------

    private static List<Object> put(DefaultMessageStore store, JSONObject job) throws Exception {
        List<Object> done = new ArrayList<>();
        JSONArray messages = job.getJSONArray("messages");
        if (job.containsKey("batchBody")) {
            MessageExtBatch batch = new MessageExtBatch();
            fill(batch, messages.getJSONObject(0));
            batch.setBody(bytes(job, "batchBody"));
            done.add(answered(store.putMessages(batch)));
            return done;
        }
        for (int i = 0; i < messages.size(); i++) {
            JSONObject from = messages.getJSONObject(i);
            MessageExtBrokerInner message = new MessageExtBrokerInner();
            fill(message, from);
            message.setBody(bytes(from, "body"));
            message.setPropertiesString(from.getString("properties"));
            MessageAccessor.setProperties(message, MessageDecoder.string2messageProperties(from.getString("properties")));
            done.add(answered(store.putMessage(message)));
            // Two index files must not begin in the same millisecond, they would have the same name: nor may they when
            // what was put for a while is indexed at once.
            awaitDispatch(store);
            Thread.sleep(1);
        }
        return done;
    }

    private static void fill(MessageExt message, JSONObject from) throws Exception {
        message.setTopic(from.getString("topic"));
        message.setQueueId(from.getIntValue("queueId"));
        message.setFlag(from.getIntValue("flag"));
        message.setSysFlag(from.getIntValue("sysFlag"));
        message.setBornTimestamp(from.getLongValue("bornTimestamp"));
        message.setBornHost(host(from, "bornHost"));
        message.setStoreHost(host(from, "storeHost"));
        message.setReconsumeTimes(from.getIntValue("reconsumeTimes"));
        message.setPreparedTransactionOffset(from.getLongValue("preparedTransactionOffset"));
        if (isV6(message.getBornHost())) {
            message.setBornHostV6Flag();
        }
        if (isV6(message.getStoreHost())) {
            message.setStoreHostAddressV6Flag();
        }
    }

    private static boolean isV6(java.net.SocketAddress address) {
        return ((InetSocketAddress) address).getAddress().getAddress().length == 16;
    }

    private static InetSocketAddress host(JSONObject from, String name) throws Exception {
        byte[] all = bytes(from, name);
        int at = all.length - 4;
        return new InetSocketAddress(InetAddress.getByAddress(Arrays.copyOf(all, at)), ByteBuffer.wrap(all, at, 4).getInt());
    }

    private static byte[] bytes(JSONObject from, String name) {
        return Base64.getDecoder().decode(from.getString(name));
    }

    private static Map<String, Object> answered(PutMessageResult result) {
        Map<String, Object> line = new TreeMap<>();
        line.put("status", result.getPutMessageStatus().name());
        if (result.getAppendMessageResult() != null && result.isOk()) {
            line.put("physicalOffset", result.getAppendMessageResult().getWroteOffset());
            line.put("queueOffset", result.getAppendMessageResult().getLogicsOffset());
        }
        return line;
    }

    // ---- look --------------------------------------------------------------------------------------------------------

    private static void view(DefaultMessageStore store, JSONObject job, Map<String, Object> answer) throws Exception {
        awaitDispatch(store);
        List<Object> queues = new ArrayList<>();
        for (String topic : store.getConsumeQueueTable().keySet()) {
            for (Integer queueId : store.getConsumeQueueTable().get(topic).keySet()) {
                queues.add(queue(store, topic, queueId));
            }
        }
        answer.put("queues", queues);
        answer.put("minPhysicalOffset", store.getMinPhyOffset());
        answer.put("maxPhysicalOffset", store.getMaxPhyOffset());
        List<Object> keys = new ArrayList<>();
        JSONArray asked = job.getJSONArray("keys");
        for (int i = 0; i < asked.size(); i++) {
            JSONObject key = asked.getJSONObject(i);
            keys.add(offsetsOf(store.queryMessage(key.getString("topic"), key.getString("key"), key.getIntValue("maxNum"),
                key.getLongValue("begin"), key.getLongValue("end"))));
        }
        answer.put("keys", keys);
        List<Object> times = new ArrayList<>();
        asked = job.getJSONArray("times");
        for (int i = 0; i < asked.size(); i++) {
            JSONObject time = asked.getJSONObject(i);
            times.add(store.getOffsetInQueueByTime(time.getString("topic"), time.getIntValue("queueId"), time.getLongValue("timestamp")));
        }
        answer.put("times", times);
    }

    private static Map<String, Object> queue(DefaultMessageStore store, String topic, int queueId) {
        Map<String, Object> line = new TreeMap<>();
        long end = store.getMaxOffsetInQueue(topic, queueId);
        line.put("topic", topic);
        line.put("queueId", queueId);
        line.put("min", store.getMinOffsetInQueue(topic, queueId));
        line.put("max", end);
        List<Object> messages = new ArrayList<>();
        line.put("messages", messages);
        for (long next = store.getMinOffsetInQueue(topic, queueId); next < end; ) {
            GetMessageResult result = store.getMessage("tool", topic, queueId, next, 32, null);
            if (result != null && result.getStatus() == GetMessageStatus.MESSAGE_WAS_REMOVING && result.getNextBeginOffset() > next) {
                next = result.getNextBeginOffset(); // the log has lost it; a consumer goes on
                continue;
            }
            if (result == null || result.getStatus() != GetMessageStatus.FOUND) {
                line.put("stopped", next + ": " + (result == null ? null : result.getStatus()));
                break;
            }
            for (SelectMappedBufferResult each : result.getMessageMapedList()) {
                messages.add(message(each.getByteBuffer()));
            }
            next = result.getNextBeginOffset();
            result.release();
        }
        return line;
    }

    private static Map<String, Object> message(ByteBuffer buffer) {
        byte[] record = new byte[buffer.remaining()];
        buffer.duplicate().get(record);
        Map<String, Object> line = new TreeMap<>();
        line.put("record", Base64.getEncoder().encodeToString(record));
        MessageExt message = MessageDecoder.decode(ByteBuffer.wrap(record), true, true, false);
        if (message == null) {
            return line;
        }
        line.put("topic", message.getTopic());
        line.put("queueId", message.getQueueId());
        line.put("queueOffset", message.getQueueOffset());
        line.put("msgId", message.getMsgId());
        line.put("sysFlag", message.getSysFlag());
        line.put("flag", message.getFlag());
        line.put("bodyCRC", message.getBodyCRC());
        line.put("storeSize", message.getStoreSize());
        line.put("commitLogOffset", message.getCommitLogOffset());
        line.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        line.put("bornTimestamp", message.getBornTimestamp());
        line.put("storeTimestamp", message.getStoreTimestamp());
        line.put("bornHost", address(message.getBornHost()));
        line.put("storeHost", address(message.getStoreHost()));
        line.put("reconsumeTimes", message.getReconsumeTimes());
        line.put("properties", message.getProperties() == null ? new TreeMap<>() : new TreeMap<>(message.getProperties()));
        line.put("body", message.getBody() == null ? "" : Base64.getEncoder().encodeToString(message.getBody()));
        return line;
    }

    private static String address(java.net.SocketAddress address) {
        InetSocketAddress of = (InetSocketAddress) address;
        byte[] ip = of.getAddress().getAddress();
        return Base64.getEncoder().encodeToString(ByteBuffer.allocate(ip.length + 4).put(ip).putInt(of.getPort()).array());
    }

    private static List<Long> offsetsOf(QueryMessageResult result) {
        List<Long> offsets = new ArrayList<>();
        for (ByteBuffer each : result.getMessageBufferList()) {
            offsets.add(each.getLong(each.position() + 28));
        }
        result.release();
        return offsets;
    }

    private static void get(DefaultMessageStore store, JSONObject job, Map<String, Object> answer) throws Exception {
        awaitDispatch(store);
        GetMessageResult result = store.getMessage("tool", job.getString("topic"), job.getIntValue("queueId"),
            job.getLongValue("offset"), job.getIntValue("maxNum"), null);
        answer.put("status", result.getStatus().name());
        answer.put("nextBeginOffset", result.getNextBeginOffset());
        answer.put("minOffset", result.getMinOffset());
        answer.put("maxOffset", result.getMaxOffset());
        answer.put("messageCount", result.getMessageCount());
        result.release();
    }

    private static List<Object> units(ConsumeQueue queue) {
        List<Object> units = new ArrayList<>();
        for (long next = queue.getMinOffsetInQueue(); next < queue.getMaxOffsetInQueue(); next++) {
            SelectMappedBufferResult found = queue.getIndexBuffer(next);
            ByteBuffer unit = found.getByteBuffer();
            List<Object> one = new ArrayList<>();
            one.add(unit.getLong());
            one.add(unit.getInt());
            long tagsCode = unit.getLong();
            one.add(tagsCode);
            found.release();
            ConsumeQueueExt.CqExtUnit ext = queue.isExtAddr(tagsCode) ? queue.getExt(tagsCode) : null;
            if (ext != null) {
                one.add(ext.getTagsCode());
                one.add(ext.getMsgStoreTime());
                one.add(ext.getFilterBitMap() == null ? "" : Base64.getEncoder().encodeToString(ext.getFilterBitMap()));
            }
            units.add(one);
        }
        return units;
    }

    // ---- expire ------------------------------------------------------------------------------------------------------

    private static void expire(DefaultMessageStore store) throws Exception {
        while (store.getCommitLog().deleteExpiredFile(0, 0, 0, true) > 0) {
            // ten files at a time
        }
        java.lang.reflect.Field field = DefaultMessageStore.class.getDeclaredField("cleanConsumeQueueService");
        field.setAccessible(true);
        java.lang.reflect.Method run = field.getType().getDeclaredMethod("run");
        run.setAccessible(true);
        run.invoke(field.get(store));
    }
}
