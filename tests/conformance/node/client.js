// Drives a broker with kafkajs: topics, produce with gzip and without, offsets, configs.
// kafkajs can consume only in a group, so reading is left to the other clients.
// Prints "ok" and exits with 0, or throws.
const assert = require("node:assert");
const { CompressionTypes, Kafka, Partitioners, logLevel } = require("kafkajs");

const [bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "conformance", brokers: [bootstrap], logLevel: logLevel.ERROR });

async function produce(options, compression) {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...options });
  await producer.connect();
  const messages = Array.from({ length: 100 }, (_, number) => ({
    key: `k${number}`,
    value: `v${number}`,
    headers: { number: String(number) },
  }));
  await producer.send({ topic, messages, compression, acks: -1 });
  await producer.disconnect();
}

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({
    topics: [{ topic, numPartitions: 3, configEntries: [{ name: "retention.ms", value: "3600000" }] }],
  });
  assert((await admin.listTopics()).includes(topic));

  await produce({}, CompressionTypes.None);
  await produce({ idempotent: true, maxInFlightRequests: 1 }, CompressionTypes.GZIP);

  const ends = await admin.fetchTopicOffsets(topic);
  assert.strictEqual(ends.reduce((sum, part) => sum + Number(part.offset), 0), 200);
  const later = await admin.fetchTopicOffsetsByTimestamp(topic, 1000);
  assert(later.every((part) => Number(part.offset) >= 0));

  const { resources } = await admin.describeConfigs({
    resources: [{ type: 2, name: topic, configNames: ["retention.ms"] }],
    includeSynonyms: false,
  });
  assert.strictEqual(resources[0].configEntries[0].configValue, "3600000");

  await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] });
  const metadata = await admin.fetchTopicMetadata({ topics: [topic] });
  assert.strictEqual(metadata.topics[0].partitions.length, 4);

  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "-1" }] });
  const cluster = await admin.describeCluster();
  assert.strictEqual(cluster.brokers.length, 1);
  await admin.deleteTopics({ topics: [topic] });
  await admin.disconnect();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
