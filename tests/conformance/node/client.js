// Drives a broker with kafkajs: topics, produce with gzip and without, offsets, configs, groups,
// transactions.
// Prints "ok" and exits with 0, or throws.
// Arguments: bootstrap servers, a topic, and with security a JSON file with settings of librdkafka.
const assert = require("node:assert");
const { readFileSync } = require("node:fs");
const { CompressionTypes, Kafka, Partitioners, logLevel } = require("kafkajs");

const [bootstrap, topic, settingsFile] = process.argv.slice(2);
const read = (path) => (path ? readFileSync(path, "utf8") : undefined);
const kafka = new Kafka({
  clientId: "conformance",
  brokers: [bootstrap],
  logLevel: logLevel.ERROR,
  ...(settingsFile ? securityOf(JSON.parse(read(settingsFile))) : {}),
});

function securityOf(settings) {
  const ssl = {
    ca: [read(settings["ssl.ca.location"])],
    cert: read(settings["ssl.certificate.location"]),
    key: read(settings["ssl.key.location"]),
  };
  const mechanism = settings["sasl.mechanism"]?.toLowerCase();
  if (!mechanism) return { ssl };
  if (mechanism === "oauthbearer") {
    const oauthBearerProvider = async () => ({ value: read(settings["token.file"]) });
    return { ssl, sasl: { mechanism, oauthBearerProvider } };
  }
  const [username, password] = [settings["sasl.username"], settings["sasl.password"]];
  return { ssl, sasl: { mechanism, username, password } };
}

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

// Reads until the group has seen `count` different records, with as many members as told.
async function readInGroup(groupId, from, count, members) {
  const seen = new Map();
  const consumers = Array.from({ length: members }, () => kafka.consumer({ groupId }));
  await new Promise((resolve, reject) => {
    const eachMessage = async ({ topic: name, partition, message }) => {
      seen.set(`${name}/${partition}/${message.offset}`, message.value.toString());
      if (seen.size >= count) resolve();
    };
    for (const consumer of consumers) {
      consumer
        .connect()
        .then(() => consumer.subscribe({ topics: [from], fromBeginning: true }))
        .then(() => consumer.run({ eachMessage, partitionsConsumedConcurrently: 3 }))
        .catch(reject);
    }
  });
  await Promise.all(consumers.map((consumer) => consumer.disconnect()));
  return [...seen.values()];
}

// One transaction that is aborted and one that is committed, with the group's offsets in it.
async function transact(admin, groupId, target) {
  const producer = kafka.producer({
    transactionalId: `${target}-id`,
    idempotent: true,
    maxInFlightRequests: 1,
    createPartitioner: Partitioners.DefaultPartitioner,
  });
  await producer.connect();
  const aborted = await producer.transaction();
  await aborted.send({ topic: target, messages: [{ value: "aborted" }] });
  await aborted.abort();
  const kept = await producer.transaction();
  await kept.send({ topic: target, messages: [{ value: "kept" }] });
  const topics = [{ topic, partitions: [{ partition: 0, offset: "7" }] }];
  await kept.sendOffsets({ consumerGroupId: groupId, topics });
  await kept.commit();
  await producer.disconnect();
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] });
  assert.strictEqual(partitions.find((part) => part.partition === 0).offset, "7");
}

async function groupsAndTransactions(admin) {
  const [groupId, target] = [`${topic}-group`, `${topic}-target`];
  const read = await readInGroup(groupId, topic, 200, 2);
  assert.deepStrictEqual(new Set(read), new Set(Array.from({ length: 100 }, (_, n) => `v${n}`)));
  const { groups } = await admin.describeGroups([groupId]);
  assert.strictEqual(groups[0].state, "Empty");

  await admin.createTopics({ topics: [{ topic: target, numPartitions: 1 }] });
  await transact(admin, groupId, target);
  assert.deepStrictEqual(await readInGroup(`${target}-group`, target, 1, 1), ["kept"]);
  await admin.deleteGroups([groupId, `${target}-group`]);
  await admin.deleteTopics({ topics: [target] });
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

  await groupsAndTransactions(admin);

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
