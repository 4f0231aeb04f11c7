// What programs do with amqplib: node amqplib_client.js <folder of the package> <url> <what>. Prints the outcome as JSON.
"use strict";

const [folder, url, what] = process.argv.slice(2);
const amqp = require(`${folder}/node_modules/amqplib`);
const callbacks = require(`${folder}/node_modules/amqplib/callback_api`);

// The next `count` messages of a consumer, acknowledged.
function take(channel, queue, count, options = {}) {
  return new Promise((resolve, reject) => {
    const found = [];
    channel
      .consume(
        queue,
        (message) => {
          if (message === null) return reject(new Error("cancelled"));
          found.push(message);
          if (!options.noAck) channel.ack(message);
          if (found.length === count) resolve(found);
        },
        options,
      )
      .catch(reject);
  });
}

const texts = (messages) => messages.map((message) => message.content.toString());

const programs = {
  // A work queue, one message at a time.
  async work(connection) {
    const channel = await connection.createChannel();
    await channel.assertQueue("q", { durable: true });
    for (let number = 0; number < 100; number++) {
      channel.sendToQueue("q", Buffer.from(String(number)), { persistent: true, headers: { number } });
    }
    await channel.prefetch(1);
    const found = await take(channel, "q", 100);
    return { bodies: texts(found), headers: found.map((message) => message.properties.headers.number) };
  },

  // Confirms, by callback and all at once, and a nack.
  async confirms(connection) {
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue("q", { durable: true });
    const one = await new Promise((resolve) => channel.sendToQueue("q", Buffer.from("0"), {}, resolve));
    for (let number = 1; number < 50; number++) channel.sendToQueue("q", Buffer.from(String(number)));
    await channel.waitForConfirms();
    const { messageCount } = await channel.checkQueue("q");
    await channel.assertQueue("full", { durable: true, maxLength: 1, arguments: { "x-overflow": "reject-publish" } });
    const answers = [];
    for (let number = 0; number < 2; number++) {
      answers.push(await new Promise((resolve) => channel.sendToQueue("full", Buffer.from("x"), {}, resolve)));
    }
    return { one, messageCount, full: answers.map((error) => (error ? error.message : "taken")) };
  },

  // A question to a server and its answer, without a queue for the answers.
  async rpc(connection) {
    const server = await connection.createChannel();
    await server.assertQueue("requests");
    await server.consume("requests", (message) => {
      const { replyTo, correlationId } = message.properties;
      server.sendToQueue(replyTo, Buffer.from(message.content.toString().toUpperCase()), { correlationId });
      server.ack(message);
    });
    const client = await connection.createChannel();
    const answers = take(client, "amq.rabbitmq.reply-to", 3, { noAck: true });
    for (const question of ["a", "b", "c"]) {
      client.sendToQueue("requests", Buffer.from(question), { replyTo: "amq.rabbitmq.reply-to", correlationId: question });
    }
    const found = await answers;
    return found.map((message) => [message.properties.correlationId, message.content.toString()]).sort();
  },

  // An exchange behind an exchange, and one that takes what is left over.
  async exchanges(connection) {
    const channel = await connection.createConfirmChannel();
    await channel.assertExchange("rest", "fanout");
    await channel.assertExchange("events", "topic", { alternateExchange: "rest" });
    await channel.assertExchange("orders", "fanout");
    await channel.bindExchange("orders", "events", "order.#");
    for (const [queue, exchange] of [["orders", "orders"], ["lost", "rest"]]) {
      await channel.assertQueue(queue);
      await channel.bindQueue(queue, exchange, "");
    }
    for (const key of ["order.paid", "user.left"]) channel.publish("events", key, Buffer.from(key), { mandatory: true });
    await channel.waitForConfirms();
    const orders = await channel.get("orders", { noAck: true });
    const lost = await channel.get("lost", { noAck: true });
    await channel.unbindExchange("orders", "events", "order.#");
    return { orders: orders.content.toString(), lost: lost.content.toString(), more: await channel.get("orders") };
  },

  // What fails, and what is returned.
  async errors(connection) {
    const returning = await connection.createConfirmChannel();
    const returned = new Promise((resolve) => returning.on("return", resolve));
    returning.publish("", "nowhere", Buffer.from("x"), { mandatory: true });
    const { replyCode, replyText } = (await returned).fields;
    const failing = await connection.createChannel();
    const told = new Promise((resolve) => failing.on("error", resolve));
    await failing.checkQueue("missing").catch(() => undefined);
    return { replyCode, replyText, error: (await told).message };
  },

  // Priorities, and dead letters that come back after a while.
  async retries(connection) {
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue("work", { deadLetterExchange: "", deadLetterRoutingKey: "wait", maxPriority: 5 });
    await channel.assertQueue("wait", { deadLetterExchange: "", deadLetterRoutingKey: "work", messageTtl: 50 });
    for (const priority of [1, 5, 3]) channel.sendToQueue("work", Buffer.from(String(priority)), { priority });
    await channel.waitForConfirms();
    const order = [];
    const attempts = await new Promise((resolve) => {
      channel.consume("work", (message) => {
        const deaths = message.properties.headers["x-death"] || [];
        if (deaths.length === 0) order.push(message.content.toString());
        if (message.content.toString() !== "5") return channel.ack(message);
        const rejected = deaths.filter((death) => death.reason === "rejected").map((death) => death.count)[0] || 0;
        if (rejected < 3) return channel.nack(message, false, false);
        channel.ack(message);
        resolve(rejected);
      });
    });
    return { order, attempts };
  },
};

// The interface of callbacks that amqplib had first, and many programs still use.
function withCallbacks() {
  callbacks.connect(url, (error, connection) => {
    if (error) throw error;
    connection.createChannel((error, channel) => {
      if (error) throw error;
      channel.assertQueue("", { exclusive: true }, (error, { queue }) => {
        if (error) throw error;
        channel.consume(queue, (message) => {
          channel.ack(message);
          process.stdout.write(JSON.stringify(message.content.toString()));
          connection.close();
        });
        channel.sendToQueue(queue, Buffer.from("hello"));
      });
    });
  });
}

async function main() {
  const connection = await amqp.connect(url);
  process.stdout.write(JSON.stringify(await programs[what](connection)));
  await connection.close();
}

if (what === "callbacks") withCallbacks();
else
  main().catch((error) => {
    console.error(error);
    process.exit(1);
  });
