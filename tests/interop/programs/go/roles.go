package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// command is a line of stdin. There are many producers and consumers in one process; what one of them is told is done in that
// order, and side by side with the others. Every line that is printed names its role.
//
//	open   kind producer, transactions or consumer, with the fields below; prints opened
//	send   as mode says: sync, async, oneway, batch, orderly (the queue is the line's "shard"), transaction (the properties
//	       "first" and "then" say what the local transaction and a check of it come to; a check prints checked), request
//	       (prints replied); else prints sent for each
//	close  prints closed
//
// What fails prints failed.
type command struct {
	Do   string `json:"do"`
	Role string `json:"role"`
	Kind string `json:"kind"`

	Namesrv   string `json:"namesrv"`
	Group     string `json:"group"`
	Namespace string `json:"namespace"`

	// Of a consumer. Each message fails so many times, and comes again after a second; after so many tries it is a dead letter.
	Topic      string `json:"topic"`
	Expression string `json:"expression"`
	SQL        string `json:"sql"`
	Model      string `json:"model"`
	Listener   string `json:"listener"`
	Strategy   string `json:"strategy"`
	Fails      int32  `json:"fails"`
	Tries      int32  `json:"tries"`
	Replies    bool   `json:"replies"` // with the body turned round

	Mode     string  `json:"mode"`
	Messages []asked `json:"messages"`
}

type role interface {
	open(command) error
	send(command) error
	close() error
}

func roles() {
	inboxes := map[string]chan command{}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		check(err)
		var one command
		check(json.Unmarshal(text, &one))
		if inboxes[one.Role] == nil {
			inboxes[one.Role] = make(chan command, 1000)
			go serve(inboxes[one.Role])
		}
		inboxes[one.Role] <- one
	}
}

func serve(inbox chan command) {
	var served role
	for one := range inbox {
		event, err := "", error(nil)
		switch one.Do {
		case "open":
			event, served = "opened", newRole(one)
			err = served.open(one)
		case "send":
			err = served.send(one)
		case "close":
			event, err = "closed", served.close()
		default:
			err = fmt.Errorf("do=%s", one.Do)
		}
		if err != nil {
			printLine(map[string]string{"event": "failed", "role": one.Role, "error": err.Error()})
		} else if event != "" {
			printLine(map[string]string{"event": event, "role": one.Role})
		}
	}
}

func newRole(one command) role {
	switch one.Kind {
	case "consumer":
		return &consumerRole{name: one.Role}
	case "transactions":
		return &transactionRole{name: one.Role}
	}
	return &producerRole{name: one.Role}
}

func (one command) messages() []*primitive.Message {
	var all []*primitive.Message
	for _, each := range one.Messages {
		all = append(all, each.message(one.Mode))
	}
	return all
}

func (one command) producerOptions() []producer.Option {
	options := []producer.Option{
		producer.WithNameServer(primitive.NamesrvAddr{one.Namesrv}), producer.WithGroupName(one.Group),
		producer.WithInstanceName(one.Role), producer.WithSendMsgTimeout(60 * time.Second),
	}
	if one.Namespace != "" {
		options = append(options, producer.WithNamespace(one.Namespace))
	}
	return options
}

type producerRole struct {
	name    string
	plain   rocketmq.Producer
	byShard rocketmq.Producer // the selector is one of a producer, not of a send
}

func (p *producerRole) open(one command) (err error) {
	if p.plain, err = rocketmq.NewProducer(one.producerOptions()...); err != nil {
		return err
	}
	if err = p.plain.Start(); err != nil {
		return err
	}
	options := append(one.producerOptions(), producer.WithQueueSelector(byShard{}), producer.WithInstanceName(one.Role+"-orderly"))
	if p.byShard, err = rocketmq.NewProducer(options...); err != nil {
		return err
	}
	return p.byShard.Start()
}

func (p *producerRole) send(one command) error {
	ctx, messages := context.Background(), one.messages()
	switch one.Mode {
	case "batch":
		result, err := p.plain.SendSync(ctx, messages...)
		if err != nil {
			return err
		}
		printLine(sentLine(p.name, 0, result))
		return nil
	case "async":
		return p.sendAsync(ctx, messages)
	}
	for i, each := range messages {
		if err := p.sendOne(ctx, one.Mode, i, each); err != nil {
			return err
		}
	}
	return nil
}

func (p *producerRole) sendOne(ctx context.Context, mode string, index int, message *primitive.Message) error {
	switch mode {
	case "sync", "orderly":
		client := p.plain
		if mode == "orderly" {
			client = p.byShard
		}
		result, err := client.SendSync(ctx, message)
		if err == nil {
			printLine(sentLine(p.name, index, result))
		}
		return err
	case "oneway":
		printLine(sentLine(p.name, index, nil))
		return p.plain.SendOneWay(ctx, message)
	case "request":
		reply, err := p.plain.Request(ctx, 60*time.Second, message)
		if err == nil {
			printLine(received{
				Event: "replied", Role: p.name, Index: index, Topic: reply.Topic, Properties: reply.GetProperties(), Body: reply.Body,
			})
		}
		return err
	}
	return fmt.Errorf("mode=%s", mode)
}

func (p *producerRole) sendAsync(ctx context.Context, messages []*primitive.Message) error {
	var left sync.WaitGroup
	left.Add(len(messages))
	for i, each := range messages {
		index := i
		if err := p.plain.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
			check(err)
			printLine(sentLine(p.name, index, result))
			left.Done()
		}, each); err != nil {
			return err
		}
	}
	left.Wait()
	return nil
}

func (p *producerRole) close() error {
	if err := p.byShard.Shutdown(); err != nil {
		return err
	}
	return p.plain.Shutdown()
}

type transactionRole struct {
	name   string
	client rocketmq.TransactionProducer
}

func (t *transactionRole) open(one command) (err error) {
	if t.client, err = rocketmq.NewTransactionProducer(t, one.producerOptions()...); err != nil {
		return err
	}
	return t.client.Start()
}

func (t *transactionRole) send(one command) error {
	for i, each := range one.messages() {
		result, err := t.client.SendMessageInTransaction(context.Background(), each)
		if err != nil {
			return err
		}
		printLine(sentLine(t.name, i, result.SendResult))
	}
	return nil
}

func (t *transactionRole) close() error {
	return t.client.Shutdown()
}

func (t *transactionRole) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return verdict(message.GetProperty("first"))
}

func (t *transactionRole) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	printLine(messageLine("checked", t.name, message))
	return verdict(message.GetProperty("then"))
}

func verdict(name string) primitive.LocalTransactionState {
	switch name {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

type consumerRole struct {
	name    string
	client  rocketmq.PushConsumer
	replier rocketmq.Producer
	fails   int32
}

func (c *consumerRole) open(one command) (err error) {
	options := []consumer.Option{
		consumer.WithNameServer(primitive.NamesrvAddr{one.Namesrv}), consumer.WithGroupName(one.Group),
		consumer.WithInstance(one.Role), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(one.Listener == "orderly"),
	}
	if one.Namespace != "" {
		options = append(options, consumer.WithNamespace(one.Namespace))
	}
	if one.Model == "BROADCASTING" {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if one.Strategy == "AVG_BY_CIRCLE" {
		options = append(options, consumer.WithStrategy(consumer.AllocateByAveragelyCircle))
	}
	if one.Tries > 0 {
		options = append(options, consumer.WithMaxReconsumeTimes(one.Tries))
	}
	if c.client, err = rocketmq.NewPushConsumer(options...); err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: one.Expression}
	if one.SQL != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: one.SQL}
	} else if one.Expression == "" {
		selector.Expression = "*"
	}
	if one.Replies {
		replier := command{Namesrv: one.Namesrv, Group: one.Group + "_replier", Role: one.Role + "-replier"}
		if c.replier, err = rocketmq.NewProducer(replier.producerOptions()...); err != nil {
			return err
		}
		if err = c.replier.Start(); err != nil {
			return err
		}
	}
	c.fails = one.Fails
	if err = c.client.Subscribe(one.Topic, selector, c.take); err != nil {
		return err
	}
	return c.client.Start()
}

func (c *consumerRole) take(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	for _, each := range messages {
		printLine(messageLine("message", c.name, each))
		if c.replier != nil {
			reply, err := consumer.CreateReplyMessage(each, nil)
			check(err)
			for i := len(each.Body) - 1; i >= 0; i-- {
				reply.Body = append(reply.Body, each.Body[i]) // the library takes the body that it is given for properties
			}
			if _, err = c.replier.SendSync(ctx, reply); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	if messages[0].ReconsumeTimes < c.fails {
		if context, ok := primitive.GetConcurrentlyCtx(ctx); ok {
			context.DelayLevelWhenNextConsume = 1
		}
		return consumer.ConsumeRetryLater, nil
	}
	return consumer.ConsumeSuccess, nil
}

func (c *consumerRole) send(command) error {
	return errors.New("a consumer does not send")
}

func (c *consumerRole) close() error {
	if c.replier != nil {
		if err := c.replier.Shutdown(); err != nil {
			return err
		}
	}
	return c.client.Shutdown()
}
