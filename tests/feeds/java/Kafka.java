// Kafka's own Java client, steered by lines of words on standard input; each is answered by one
// line on standard output.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Kafka {
    static String broker;
    static Admin admin;

    static byte[] bytes(String text) {
        return text.equals("-") ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static KafkaProducer<byte[], byte[]> producer(String packing, String transaction) {
        Map<String, Object> options = new HashMap<>();
        options.put("bootstrap.servers", broker);
        options.put("compression.type", packing);
        options.put("linger.ms", 5);
        if (!transaction.isEmpty()) {
            options.put("transactional.id", transaction);
        }
        ByteArraySerializer plain = new ByteArraySerializer();
        return new KafkaProducer<>(options, plain, plain);
    }

    static ProducerRecord<byte[], byte[]> numbered(
            String topic, String partition, int number, String channel) {
        byte[] value = bytes(String.valueOf(number));
        var record = new ProducerRecord<>(topic, Integer.parseInt(partition), (byte[]) null, value);
        record.headers().add("channel", bytes(channel));
        return record;
    }

    static String answer(String[] a) throws Exception {
        switch (a[0]) {
            case "create": // TOPIC PARTITIONS
                var topic = new NewTopic(a[1], Integer.parseInt(a[2]), (short) 1);
                admin.createTopics(List.of(topic)).all().get();
                return "created";
            case "send": // TOPIC PARTITION,PARTITION FROM TO PACKING CHANNEL (% is the partition)
                try (var producer = producer(a[5], "")) {
                    for (int n = Integer.parseInt(a[3]); n <= Integer.parseInt(a[4]); n++) {
                        for (String partition : a[2].split(",")) {
                            String channel = a[6].replace("%", partition);
                            producer.send(numbered(a[1], partition, n, channel));
                        }
                    }
                    producer.flush();
                }
                return "sent";
            case "abort": // TOPIC PARTITION FROM TO CHANNEL
            case "commit":
                try (var producer = producer("none", "of-a-test")) {
                    producer.initTransactions();
                    producer.beginTransaction();
                    for (int n = Integer.parseInt(a[3]); n <= Integer.parseInt(a[4]); n++) {
                        producer.send(numbered(a[1], a[2], n, a[5]));
                    }
                    producer.flush();
                    if (a[0].equals("abort")) {
                        producer.abortTransaction();
                    } else {
                        producer.commitTransaction();
                    }
                }
                return "ended";
            case "record": // TOPIC PARTITION KEY VALUE NAME VALUE...
                int at = Integer.parseInt(a[2]);
                var record = new ProducerRecord<>(a[1], at, bytes(a[3]), bytes(a[4]));
                for (int n = 5; n < a.length; n += 2) {
                    record.headers().add(a[n], bytes(a[n + 1]));
                }
                try (var producer = producer("none", "")) {
                    producer.send(record).get();
                }
                return "sent";
            case "forget": // TOPIC PARTITION OFFSET
                var until = RecordsToDelete.beforeOffset(Long.parseLong(a[3]));
                var place = new TopicPartition(a[1], Integer.parseInt(a[2]));
                admin.deleteRecords(Map.of(place, until)).all().get();
                return "forgotten";
            case "left": // GROUP: offsets that it has not committed, of all that it has read
                var done = admin.listConsumerGroupOffsets(a[1]).partitionsToOffsetAndMetadata();
                Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
                done.get().keySet().forEach(it -> ends.put(it, OffsetSpec.latest()));
                long left = 0;
                for (var end : admin.listOffsets(ends).all().get().entrySet()) {
                    left += end.getValue().offset() - done.get().get(end.getKey()).offset();
                }
                return ends.size() + " " + left;
            case "members": // GROUP: how many partitions each has
                var group = admin.describeConsumerGroups(List.of(a[1])).all().get().get(a[1]);
                var counts = new ArrayList<String>();
                for (var member : group.members()) {
                    counts.add(String.valueOf(member.assignment().topicPartitions().size()));
                }
                counts.sort(null);
                return String.join(" ", counts);
            case "user": // NAME PASSWORD
                for (var way : List.of(ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)) {
                    var proof = new ScramCredentialInfo(way, 4096);
                    var user = new UserScramCredentialUpsertion(a[1], proof, a[2]);
                    admin.alterUserScramCredentials(List.of(user)).all().get();
                }
                return "made";
            case "brokers":
                return "" + admin.describeCluster().nodes().get().size();
            default:
                throw new IllegalArgumentException(a[0]);
        }
    }

    public static void main(String[] args) throws Exception {
        broker = args[0];
        Map<String, Object> options = new TreeMap<>();
        options.put("bootstrap.servers", broker);
        options.put("reconnect.backoff.max.ms", 100);
        admin = Admin.create(options);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String said;
            try {
                said = "ok " + answer(line.split(" "));
            } catch (Exception error) {
                said = "error " + error;
            }
            System.out.println(said.replace('\n', ' '));
            System.out.flush();
        }
        System.exit(0);
    }
}
