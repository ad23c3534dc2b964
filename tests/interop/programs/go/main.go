// The Go client of the interop tests:
//
//	client produce namesrv= group= mode=sync|async|oneway|batch|orderly
//	client consume namesrv= group= topic= expression=* model=clustering|broadcasting listener=concurrent|orderly
//	client roles
//
// produce sends what stdin describes, a JSON object per line, and prints a line per result in that order; a batch has one
// result; orderly takes the line's "shard" as the queue; oneway sends each line as it comes, the others all at the end. consume prints a line per message until stdin ends. roles
// is in roles.go. All end by themselves after limit_s=60 seconds, with status 3.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

type asked struct {
	Topic      string            `json:"topic"`
	Body       []byte            `json:"body"` // base64 in JSON
	Tags       string            `json:"tags"`
	Keys       string            `json:"keys"`
	Properties map[string]string `json:"properties"`
	Shard      int               `json:"shard"`
	Delay      int               `json:"delay"`
}

type sent struct {
	Event       string `json:"event"`
	Role        string `json:"role,omitempty"`
	Index       int    `json:"index"`
	Status      string `json:"status,omitempty"`
	MsgID       string `json:"msgId,omitempty"`
	OffsetMsgID string `json:"offsetMsgId,omitempty"`
	BrokerName  string `json:"brokerName,omitempty"`
	QueueID     *int   `json:"queueId,omitempty"`
	QueueOffset *int64 `json:"queueOffset,omitempty"`
}

type received struct {
	Event          string            `json:"event"`
	Role           string            `json:"role,omitempty"`
	Index          int               `json:"index"`
	Topic          string            `json:"topic"`
	QueueID        int               `json:"queueId"`
	QueueOffset    int64             `json:"queueOffset"`
	MsgID          string            `json:"msgId"`
	OffsetMsgID    string            `json:"offsetMsgId"`
	BrokerName     string            `json:"brokerName"`
	SysFlag        int32             `json:"sysFlag"`
	BornTimestamp  int64             `json:"bornTimestamp"`
	StoreTimestamp int64             `json:"storeTimestamp"`
	ReconsumeTimes int32             `json:"reconsumeTimes"`
	Tags           string            `json:"tags"`
	Keys           string            `json:"keys"`
	Properties     map[string]string `json:"properties"`
	Body           []byte            `json:"body"`
}

var (
	printing sync.Mutex
	given    = map[string]string{"limit_s": "60", "mode": "sync", "expression": "*", "model": "clustering", "listener": "concurrent"}
)

func printLine(line any) {
	text, err := json.Marshal(line)
	check(err)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	for _, each := range os.Args[2:] {
		name, value, _ := strings.Cut(each, "=")
		given[name] = value
	}
	limit, err := strconv.Atoi(given["limit_s"])
	check(err)
	time.AfterFunc(time.Duration(limit)*time.Second, func() {
		fmt.Fprintln(os.Stderr, "the time limit has passed")
		os.Exit(3)
	})
	switch os.Args[1] {
	case "produce":
		produce()
	case "consume":
		consume()
	case "roles":
		roles()
	default:
		check(fmt.Errorf("what is %s?", os.Args[1]))
	}
	printLine(map[string]string{"event": "closed"})
}

func namesrv() primitive.NamesrvAddr {
	return primitive.NamesrvAddr{given["namesrv"]}
}

func readAsked() []*primitive.Message {
	var all []*primitive.Message
	eachAsked(func(message *primitive.Message) { all = append(all, message) })
	return all
}

func eachAsked(take func(*primitive.Message)) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		text, err := in.ReadBytes('\n')
		if len(text) > 0 {
			var one asked
			check(json.Unmarshal(text, &one))
			take(one.message(given["mode"]))
		}
		if err == io.EOF {
			return
		}
		check(err)
	}
}

func (one asked) message(mode string) *primitive.Message {
	message := primitive.NewMessage(one.Topic, one.Body).WithTag(one.Tags)
	if one.Keys != "" {
		message.WithKeys(strings.Split(one.Keys, " "))
	}
	for name, value := range one.Properties {
		message.WithProperty(name, value)
	}
	if one.Delay > 0 {
		message.WithDelayTimeLevel(one.Delay)
	}
	if mode == "orderly" {
		message.Queue = &primitive.MessageQueue{QueueId: one.Shard}
	}
	return message
}

// byShard takes the queue with the number that the message asks for, of whichever broker.
type byShard struct{}

func (byShard) Select(message *primitive.Message, queues []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	return queues[message.Queue.QueueId%len(queues)]
}

func produce() {
	options := []producer.Option{
		producer.WithNameServer(namesrv()), producer.WithGroupName(given["group"]), producer.WithSendMsgTimeout(60 * time.Second),
	}
	if given["mode"] == "orderly" {
		options = append(options, producer.WithQueueSelector(byShard{}))
	}
	client, err := rocketmq.NewProducer(options...)
	check(err)
	check(client.Start())
	ctx := context.Background()
	if given["mode"] == "oneway" {
		// The library does not mark these requests as oneway, so that each is answered, and an answer that finds the socket
		// closed resets the connection with all that is still on its way: whoever started this ends it when all is there.
		index := 0
		eachAsked(func(message *primitive.Message) {
			check(client.SendOneWay(ctx, message))
			printSent(index, nil)
			index++
		})
		check(client.Shutdown())
		return
	}
	messages := readAsked()
	switch given["mode"] {
	case "sync", "orderly":
		for i, each := range messages {
			result, err := client.SendSync(ctx, each)
			check(err)
			printSent(i, result)
		}
	case "batch":
		result, err := client.SendSync(ctx, messages...)
		check(err)
		printSent(0, result)
	case "async":
		produceAsync(ctx, client, messages)
	default:
		check(fmt.Errorf("mode=%s", given["mode"]))
	}
	check(client.Shutdown())
}

func produceAsync(ctx context.Context, client rocketmq.Producer, messages []*primitive.Message) {
	results := make([]*primitive.SendResult, len(messages))
	var left sync.WaitGroup
	left.Add(len(messages))
	for i, each := range messages {
		index := i
		check(client.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
			check(err)
			results[index] = result
			left.Done()
		}, each))
	}
	left.Wait()
	for i, each := range results {
		printSent(i, each)
	}
}

func printSent(index int, result *primitive.SendResult) {
	printLine(sentLine("", index, result))
}

func sentLine(role string, index int, result *primitive.SendResult) sent {
	line := sent{Event: "sent", Role: role, Index: index}
	if result != nil {
		line.Status = map[primitive.SendStatus]string{primitive.SendOK: "SEND_OK"}[result.Status]
		line.MsgID, line.OffsetMsgID = result.MsgID, result.OffsetMsgID
		line.BrokerName, line.QueueID = result.MessageQueue.BrokerName, &result.MessageQueue.QueueId
		line.QueueOffset = &result.QueueOffset
	}
	return line
}

func messageLine(event, role string, each *primitive.MessageExt) received {
	line := received{
		Event: event, Role: role, Topic: each.Topic, QueueOffset: each.QueueOffset, MsgID: each.MsgId,
		OffsetMsgID: each.OffsetMsgId, SysFlag: each.SysFlag, BornTimestamp: each.BornTimestamp,
		StoreTimestamp: each.StoreTimestamp, ReconsumeTimes: each.ReconsumeTimes, Tags: each.GetTags(), Keys: each.GetKeys(),
		Properties: each.GetProperties(), Body: each.Body,
	}
	if each.Queue != nil {
		line.QueueID, line.BrokerName = each.Queue.QueueId, each.Queue.BrokerName
	}
	return line
}

func consume() {
	model := consumer.Clustering
	if given["model"] == "broadcasting" {
		model = consumer.BroadCasting
	}
	client, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(namesrv()), consumer.WithGroupName(given["group"]), consumer.WithConsumerModel(model),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithConsumerOrder(given["listener"] == "orderly"))
	check(err)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: given["expression"]}
	check(client.Subscribe(given["topic"], selector, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, each := range messages {
			printLine(messageLine("message", "", each))
		}
		return consumer.ConsumeSuccess, nil
	}))
	check(client.Start())
	printLine(map[string]string{"event": "started"})
	_, err = io.Copy(io.Discard, os.Stdin)
	check(err)
	check(client.Shutdown())
}
