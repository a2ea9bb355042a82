// Drives a broker with franz-go: topics, every codec, idempotence, offsets, configs, groups,
// transactions.
// Prints "ok" and exits with 0, or says what went wrong and exits with 1.
// Arguments: bootstrap servers, a topic, and with security a file of settings.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions = 3
	perCodec   = 200
	deadline   = 240 * time.Second
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func check(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func expect(condition bool, format string, arguments ...any) {
	if !condition {
		check(fmt.Errorf(format, arguments...), "unexpected")
	}
}

func produce(ctx context.Context, connection connection, topic, name string, codec kgo.CompressionCodec) {
	client, err := kgo.NewClient(connection.with(
		kgo.ProducerBatchCompression(codec),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)...)
	check(err, "producer")
	defer client.Close()
	for number := 0; number < perCodec; number++ {
		client.Produce(ctx, &kgo.Record{
			Topic:     topic,
			Partition: int32(number % partitions),
			Key:       []byte(name),
			Value:     []byte(strconv.Itoa(number)),
			Headers:   []kgo.RecordHeader{{Key: "codec", Value: []byte(name)}},
		}, func(_ *kgo.Record, err error) { check(err, "produce "+name) })
	}
	check(client.Flush(ctx), "flush")
}

func consume(ctx context.Context, connection connection, topic string) {
	offsets := map[int32]kgo.Offset{}
	for partition := int32(0); partition < partitions; partition++ {
		offsets[partition] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(connection.with(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)...)
	check(err, "consumer")
	defer client.Close()
	last := map[string]int{}
	for seen := 0; seen < perCodec*len(codecs); {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) { check(err, "fetch") })
		fetches.EachRecord(func(record *kgo.Record) {
			number, err := strconv.Atoi(string(record.Value))
			check(err, "value")
			lane := fmt.Sprintf("%s/%d", record.Key, record.Partition)
			previous, known := last[lane]
			expect(!known || number == previous+partitions, "%s: %d after %d", lane, number, previous)
			last[lane] = number
			expect(string(record.Headers[0].Value) == string(record.Key), "headers of %s", lane)
			seen++
		})
	}
}

func main() {
	connection, topic := connectionTo(os.Args[1], os.Args[3:]), os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	client, err := kgo.NewClient(connection...)
	check(err, "client")
	defer client.Close()
	admin := kadm.NewClient(client)

	retention := "3600000"
	_, err = admin.CreateTopic(ctx, partitions, 1, map[string]*string{"retention.ms": &retention}, topic)
	check(err, "create")
	for name, codec := range codecs {
		produce(ctx, connection, topic, name, codec)
	}
	consume(ctx, connection, topic)

	ends, err := admin.ListEndOffsets(ctx, topic)
	check(err, "end offsets")
	total := int64(0)
	ends.Each(func(offset kadm.ListedOffset) { total += offset.Offset })
	expect(total == int64(perCodec*len(codecs)), "%d records at the ends", total)

	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	check(err, "configs")
	described, err := configs.On(topic, nil)
	check(err, "configs of the topic")
	found := ""
	for _, config := range described.Configs {
		if config.Key == "retention.ms" {
			found = config.MaybeValue()
		}
	}
	expect(found == retention, "retention.ms is %q", found)

	deletes := kadm.Offsets{}
	deletes.Add(kadm.Offset{Topic: topic, Partition: 0, At: 10})
	_, err = admin.DeleteRecords(ctx, deletes)
	check(err, "delete records")
	starts, err := admin.ListStartOffsets(ctx, topic)
	check(err, "start offsets")
	start, _ := starts.Lookup(topic, 0)
	expect(start.Offset == 10, "the log starts at %d", start.Offset)

	_, err = admin.DeleteTopic(ctx, topic)
	check(err, "delete topic")
	exactlyOnce(ctx, admin, connection, topic)
	fmt.Println("ok")
}
