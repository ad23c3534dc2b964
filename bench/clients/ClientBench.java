import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * One row of the client benchmark with RocketMQ's Java client: row namesrv topic warm total bodyBytes. Prints one line of JSON:
 * messages, seconds, and the processor time of the process in that time.
 */
public class ClientBench {
    private static final int TASKS = 64;
    private static final int WINDOW = 1000;
    private static final int BATCH = 32;

    public static void main(String[] args) throws Exception {
        String row = args[0];
        int warm = Integer.parseInt(args[3]);
        int total = Integer.parseInt(args[4]);
        if (row.equals("consume")) {
            consume(args[1], args[2], warm, total);
            System.exit(0);
        }
        DefaultMQProducer producer = new DefaultMQProducer("bench_java_" + row);
        producer.setNamesrvAddr(args[1]);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        byte[] body = "x".repeat(Integer.parseInt(args[5])).getBytes(StandardCharsets.US_ASCII);
        send(producer, row, args[2], body, warm);
        long cpu = processorNanos();
        long begin = System.nanoTime();
        send(producer, row, args[2], body, total);
        report(total, begin, cpu);
        producer.shutdown();
        System.exit(0);
    }

    private static void send(DefaultMQProducer producer, String row, String topic, byte[] body, int total) throws Exception {
        switch (row) {
            case "sequence":
                for (int i = 0; i < total; i++) {
                    producer.send(new Message(topic, body));
                }
                return;
            case "tasks":
                inThreads(producer, topic, body, total);
                return;
            case "pipelined":
                pipelined(producer, topic, body, total);
                return;
            case "batched":
                for (int i = 0; i < total; i += BATCH) {
                    List<Message> batch = new ArrayList<>(BATCH);
                    for (int j = 0; j < BATCH; j++) {
                        batch.add(new Message(topic, body));
                    }
                    producer.send(batch);
                }
                return;
            default:
                throw new IllegalArgumentException(row);
        }
    }

    private static void inThreads(DefaultMQProducer producer, String topic, byte[] body, int total) throws Exception {
        List<Thread> threads = new ArrayList<>();
        AtomicLong failures = new AtomicLong();
        for (int t = 0; t < TASKS; t++) {
            Thread thread = new Thread(() -> {
                try {
                    for (int i = 0; i < total / TASKS; i++) {
                        producer.send(new Message(topic, body));
                    }
                } catch (Exception failure) {
                    failures.incrementAndGet();
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread each : threads) {
            each.join();
        }
        if (failures.get() > 0) {
            throw new IllegalStateException(failures + " threads failed");
        }
    }

    private static void pipelined(DefaultMQProducer producer, String topic, byte[] body, int total) throws Exception {
        Semaphore window = new Semaphore(WINDOW);
        AtomicLong failures = new AtomicLong();
        for (int i = 0; i < total; i++) {
            window.acquire();
            producer.send(new Message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    window.release();
                }

                @Override
                public void onException(Throwable failure) {
                    failures.incrementAndGet();
                    window.release();
                }
            });
        }
        window.acquire(WINDOW);
        if (failures.get() > 0) {
            throw new IllegalStateException(failures + " sends failed");
        }
    }

    private static void consume(String namesrv, String topic, int warm, int total) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench_java_consume_" + System.nanoTime());
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(BATCH);
        consumer.setPullBatchSize(BATCH);
        consumer.subscribe(topic, "*");
        AtomicLong count = new AtomicLong();
        long[] start = new long[2];
        CountDownLatch done = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long before = count.getAndAdd(messages.size());
            long after = before + messages.size();
            if (before < warm && after >= warm) {
                start[0] = System.nanoTime();
                start[1] = processorNanos();
            }
            if (after >= warm + total) {
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        done.await();
        report(total, start[0], start[1]);
        consumer.shutdown();
    }

    private static long processorNanos() {
        return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static void report(int total, long begin, long cpu) {
        double seconds = (System.nanoTime() - begin) / 1e9;
        double processor = (processorNanos() - cpu) / 1e9;
        System.out.printf("{\"messages\": %d, \"seconds\": %.6f, \"processor_s\": %.6f}%n", total, seconds, processor);
    }
}
