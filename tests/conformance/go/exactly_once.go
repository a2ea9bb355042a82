package main

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const inputs = 300

// Numbers go through a group of transactional copiers, the first of which gives up half of its
// transactions and then leaves; readers of committed records see every number once.
func exactlyOnce(ctx context.Context, admin *kadm.Client, connection connection, topic string) {
	source, target, group := topic+"-source", topic+"-target", topic+"-group"
	_, err := admin.CreateTopic(ctx, partitions, 1, nil, source)
	check(err, "create source")
	_, err = admin.CreateTopic(ctx, partitions, 1, nil, target)
	check(err, "create target")
	fill(ctx, connection, source)

	copyRecords(ctx, connection, source, target, group, "first", inputs/3, true)
	described, err := admin.DescribeGroups(ctx, group)
	check(err, "describe group")
	expect(described[group].State == "Empty", "the group is %s", described[group].State)
	done := committed(ctx, admin, group)
	expect(done > 0 && done < inputs, "%d records are done", done)
	copyRecords(ctx, connection, source, target, group, "second", inputs-done, false)
	expect(committed(ctx, admin, group) == inputs, "not everything is committed")

	readNumbers(ctx, connection, target)
	_, err = admin.DeleteGroup(ctx, group)
	check(err, "delete group")
	_, err = admin.DeleteTopics(ctx, source, target)
	check(err, "delete topics")
}

func fill(ctx context.Context, connection connection, topic string) {
	client, err := kgo.NewClient(connection...)
	check(err, "producer")
	defer client.Close()
	for number := 0; number < inputs; number++ {
		value := []byte(strconv.Itoa(number))
		client.Produce(ctx, &kgo.Record{Topic: topic, Key: value, Value: value},
			func(_ *kgo.Record, err error) { check(err, "fill") })
	}
	check(client.Flush(ctx), "flush")
}

// Copies in transactions of one poll each until at least `count` records are committed.
func copyRecords(
	ctx context.Context, connection connection, source, target, group, id string, count int,
	givesUp bool,
) {
	session, err := kgo.NewGroupTransactSession(connection.with(
		kgo.TransactionalID(group+"-"+id),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(1),
		kgo.RequireStableFetchOffsets(),
	)...)
	check(err, "transactional session")
	defer session.Close()
	for round, done := 0, 0; done < count; round++ {
		fetches := session.PollRecords(ctx, 20)
		fetches.EachError(func(_ string, _ int32, err error) { check(err, "fetch") })
		check(session.Begin(), "begin")
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: target, Value: record.Value},
				func(_ *kgo.Record, err error) { check(err, "copy") })
		})
		check(session.Client().Flush(ctx), "flush of copies") // also what is given up is written
		end := kgo.TransactionEndTry(!givesUp || round%2 == 1)
		committed, err := session.End(ctx, end)
		check(err, "end")
		if committed {
			done += fetches.NumRecords()
		}
	}
}

func committed(ctx context.Context, admin *kadm.Client, group string) int {
	offsets, err := admin.FetchOffsets(ctx, group)
	check(err, "offsets of the group")
	total := int64(0)
	offsets.Each(func(offset kadm.OffsetResponse) { total += offset.At })
	return int(total)
}

func readNumbers(ctx context.Context, connection connection, topic string) {
	client, err := kgo.NewClient(connection.with(
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)...)
	check(err, "reader")
	defer client.Close()
	seen := map[string]int{}
	for total := 0; total < inputs; {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) { check(err, "read") })
		fetches.EachRecord(func(record *kgo.Record) { seen[string(record.Value)]++; total++ })
	}
	for number := 0; number < inputs; number++ {
		expect(seen[strconv.Itoa(number)] == 1, "%d came %d times", number, seen[strconv.Itoa(number)])
	}
}
