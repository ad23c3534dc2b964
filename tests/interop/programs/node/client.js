'use strict';

// The Node client of the interop tests:
//   client.js produce namesrv= group=                    sends what stdin describes, a JSON object per line; a line per result
//   client.js consume namesrv= group= topic= expression=*  model=clustering|broadcasting: a line per message until stdin ends
// Both end by themselves after limit_s=60 seconds, with status 3.

const readline = require('readline');
const { Producer, Consumer, Message } = require('ali-ons');

const role = process.argv[2];
const given = Object.fromEntries(process.argv.slice(3).map(each => {
  const at = each.indexOf('=');
  return [ each.slice(0, at), each.slice(at + 1) ];
}));

// stdout carries our lines only.
const logger = { info() {}, debug() {}, warn: (...args) => console.error(...args), error: (...args) => console.error(...args) };
const options = {
  nameSrv: given.namesrv,
  // The library insists on an HTTP client, for a look-up service that nameSrv replaces.
  httpclient: { request() { throw new Error('no HTTP in this test'); } },
  clientIP: '127.0.0.1',
  logger,
};

function print(line) {
  process.stdout.write(JSON.stringify(line) + '\n');
}

async function leave(status) {
  await new Promise(resolve => process.stdout.write('', resolve));
  process.exit(status);
}

async function produce() {
  const producer = new Producer(Object.assign({ producerGroup: given.group, sendMsgTimeout: 60000 }, options));
  producer.on('error', err => console.error(err));
  await producer.ready();
  let index = 0;
  for await (const text of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(text);
    const message = new Message(asked.topic, asked.tags || '', Buffer.from(asked.body, 'base64'));
    if (!asked.tags) delete message.properties.TAGS;
    if (asked.keys) message.keys = asked.keys.split(' ');
    Object.assign(message.properties, asked.properties || {});
    const result = await producer.send(message);
    print({
      event: 'sent', index: index++, status: result.sendStatus, msgId: result.msgId, brokerName: result.messageQueue.brokerName,
      queueId: result.messageQueue.queueId, queueOffset: Number(result.queueOffset),
    });
  }
}

async function consume() {
  const consumer = new Consumer(Object.assign({
    consumerGroup: given.group,
    isBroadcast: given.model === 'broadcasting',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    // After a rebalance the library looks again only then; its default of 10 s makes a test wait.
    rebalanceInterval: 1000,
  }, options));
  consumer.on('error', err => console.error(err));
  consumer.subscribe(given.topic, given.expression || '*', async message => {
    print({
      event: 'message', topic: message.topic, queueId: message.queueId, queueOffset: message.queueOffset, msgId: message.msgId,
      sysFlag: message.sysFlag, storeSize: message.storeSize, bornTimestamp: message.bornTimestamp,
      storeTimestamp: message.storeTimestamp, reconsumeTimes: message.reconsumeTimes, tags: message.tags, keys: message.keys,
      properties: message.properties, body: message.body.toString('base64'),
    });
  });
  await consumer.ready();
  print({ event: 'started' });
  await new Promise(resolve => process.stdin.on('end', resolve).resume());
  await consumer.close();
}

setTimeout(() => {
  console.error('the time limit has passed');
  process.exit(3);
}, Number(given.limit_s || 60) * 1000).unref();

({ produce, consume })[role]().then(() => {
  print({ event: 'closed' });
  return leave(0);
}, err => {
  console.error(err);
  return leave(1);
});
