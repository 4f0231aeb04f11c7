// One MQTT.js client, driven by lines of JSON: node mqttjs_client.js <folder of the package> <url> <options>.
//
// Commands come on standard input, each with an `id`, which its answer repeats. Answers and events go to standard output.
"use strict";

const readline = require("node:readline");

const ID_NOT_FOUND = 0x92;
const [folder, url, options] = process.argv.slice(2);
const mqtt = require(`${folder}/node_modules/mqtt`);
const client = mqtt.connect(url, JSON.parse(options));

function tell(line) {
  process.stdout.write(JSON.stringify(line) + "\n");
}

function answer(id) {
  return (error, value) => tell({ id, error: error ? String(error) : "", value: error ? null : value });
}

client.on("connect", (packet) => tell({ event: "connect", present: packet.sessionPresent }));
client.on("error", (error) => tell({ event: "error", error: String(error) }));
client.on("message", (topic, payload, packet) => {
  const { qos, retain, dup, properties } = packet;
  tell({ event: "message", topic, payload: payload.toString("base64"), qos, retain, dup, properties: properties || {} });
});

const commands = {
  subscribe({ id, topic, options }) {
    client.subscribe(topic, options, (error, granted) => answer(id)(error, granted && granted.map((each) => each.qos)));
  },
  unsubscribe({ id, topic }) {
    client.unsubscribe(topic, (error) => answer(id)(error, true));
  },
  publish({ id, topic, payload, options }) {
    const { correlationData } = options.properties || {};
    if (correlationData) options.properties.correlationData = Buffer.from(correlationData, "base64");
    client.publish(topic, Buffer.from(payload, "base64"), options, (error) => answer(id)(error, true));
  },
  // Numbers, without waiting for any acknowledgement before the last.
  count({ id, topic, count, options }) {
    let open = count;
    for (let number = 0; number < count; number++) {
      client.publish(topic, String(number), options, (error) => {
        open -= 1;
        // The answer to a PUBREL that was sent again after one had been lost: to MQTT no error, to MQTT.js one.
        const failed = error && error.code !== ID_NOT_FOUND;
        if (failed || open === 0) answer(id)(failed && error, true);
      });
    }
  },
  end({ id }) {
    client.end(false, {}, (error) => {
      answer(id)(error, true);
      process.exit(0);
    });
  },
};

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const command = JSON.parse(line);
  commands[command.do](command);
});
