// What programs do with rhea: node rhea_client.js <folder of the package> <port> <what>, and its argument on
// standard input, as JSON. Prints the outcome as JSON. A value of AMQP is [type, text] on its way in and `shown` on its way out.
"use strict";

const [folder, port, what] = process.argv.slice(2);
const rhea = require(`${folder}/node_modules/rhea`);
const { types, message: messages } = rhea;
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));

const NUMBERS = ["ubyte", "ushort", "uint", "byte", "short", "int", "float", "double", "timestamp"];

// A value of the type that is named.
function typed([type, value]) {
  if (type === "null") return types.wrap(null);
  if (NUMBERS.includes(type)) return types[`wrap_${type}`](Number(value));
  if (type === "ulong" || type === "long") {
    const octets = Buffer.alloc(8);
    if (type === "ulong") octets.writeBigUInt64BE(BigInt(value));
    else octets.writeBigInt64BE(BigInt(value));
    return types[type === "ulong" ? "Ulong" : "Long"](octets);
  }
  if (type === "char") return types.wrap_char(value.codePointAt(0));
  if (type === "uuid" || type === "binary") return types[`wrap_${type}`](Buffer.from(value, "hex"));
  if (type === "list") return types.wrap_list(value.map(typed));
  if (type === "map") return types.wrap_map(Object.fromEntries(Object.entries(value).map(([k, v]) => [k, typed(v)])));
  if (type === "array") return types.wrap_array(value, types.Int.typecode);
  if (type === "described") return types.wrap_described(typed(value[1]), value[0]);
  return types[`wrap_${type}`](value);
}

// A value that came, as JSON can have it.
function shown(value) {
  if (value === undefined || value === null) return null;
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (Object.is(value, -0)) return "-0";
  if (Buffer.isBuffer(value)) return { hex: value.toString("hex") };
  if (value instanceof Date) return { ms: value.getTime() };
  if (Array.isArray(value)) return value.map(shown);
  if (value.descriptor !== undefined && "value" in value) return { descriptor: shown(value.descriptor), value: shown(value.value) };
  if (value.typecode !== undefined && "content" in value) return { section: value.typecode, content: shown(value.content) };
  if (typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, shown(v)]));
  return value;
}

// How a client reaches the broker: by TCP, or by the WebSocket {url, package} that is given.
function transport() {
  if (!given.websocket) return { host: "127.0.0.1", port: Number(port) };
  const made = rhea.websocket_connect(require(`${given.websocket.package}/node_modules/ws`));
  const options = { ca: given.websocket.ca && require("fs").readFileSync(given.websocket.ca) };
  return { connection_details: made(given.websocket.url, ["binary", "AMQPWSB10", "amqp"], options) };
}

const FIELDS = [
  "durable", "priority", "ttl", "first_acquirer", "delivery_count", "message_annotations", "message_id", "user_id",
  "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding", "absolute_expiry_time",
  "creation_time", "group_id", "group_sequence", "reply_to_group_id", "application_properties", "footer", "body",
];

const typed_map = (values) => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, typed(value)]));

// A message of fields, each of its type; `section` says what the body is.
function made(spec) {
  const message = {};
  for (const [name, value] of Object.entries(spec)) {
    if (name === "body") message.body = typed(value);
    else if (name === "data") message.body = messages.data_section(Buffer.from(value, "hex"));
    else if (name === "datas") message.body = messages.data_sections(value.map((part) => Buffer.from(part, "hex")));
    else if (name === "sequence") message.body = messages.sequence_section(value.map(typed));
    else if (name === "length") message.body = messages.data_section(Buffer.alloc(value, "abcdefghij"));
    else if (name === "application_properties" || name === "message_annotations") message[name] = typed_map(value);
    else if (Array.isArray(value)) message[name] = typed(value);
    else message[name] = value;
  }
  return message;
}

function connect(more = {}) {
  const options = { ...transport(), username: "guest", password: "guest", reconnect: false, ...more };
  const connection = rhea.create_container({ id: "rhea" }).connect(options);
  connection.on("connection_error", (context) => finish({ error: String(context.error || context.connection.error) }));
  connection.on("connection_close", () => finish({ error: "closed" }));
  connection.on("disconnected", (context) => context.error && finish({ error: String(context.error) }));
  return connection;
}

let is_finished = false;

function finish(result, connection) {
  if (is_finished) return;
  is_finished = true;
  if (connection) connection.close();
  process.stdout.write(JSON.stringify(result), () => process.exit(0));
}

const programs = {
  // Send messages {address, messages}; what became of each.
  send() {
    const connection = connect();
    const sender = connection.open_sender(given.address);
    const outcomes = [];
    let sent = 0;
    sender.on("sendable", () => {
      while (sender.sendable() && sent < given.messages.length) sender.send(made(given.messages[sent++]));
    });
    for (const outcome of ["accepted", "rejected", "released", "modified"]) {
      sender.on(outcome, () => {
        outcomes.push(outcome);
        if (outcomes.length === given.messages.length) finish(outcomes, connection);
      });
    }
    sender.on("sender_error", () => finish({ error: sender.error.condition, text: sender.error.description }, connection));
  },
  // The next messages {address, count}, accepted.
  receive() {
    const connection = connect();
    const source = given.copy ? { address: given.address, distribution_mode: "copy" } : given.address;
    const receiver = connection.open_receiver({ source, credit_window: given.window || 100 });
    const found = [];
    receiver.on("message", ({ message }) => {
      if (given.lengths) found.push(message.body.content.length);
      else found.push(Object.fromEntries(FIELDS.map((name) => [name, shown(message[name])]).filter(([, v]) => v !== null)));
      if (found.length === given.count) setTimeout(() => finish(found, connection), 100);
    });
    receiver.on("receiver_error", () => finish({ error: receiver.error.condition }, connection));
  },
  // Credit by hand: three, then a drain.
  drain() {
    const connection = connect();
    const receiver = connection.open_receiver({ source: given.address, credit_window: 0 });
    const found = [];
    let is_drained = false;
    receiver.on("receiver_open", () => receiver.add_credit(3));
    receiver.on("message", ({ message }) => {
      found.push(message.body);
      if (found.length === 3 && !is_drained) {
        is_drained = true;
        receiver.drain = true;
        receiver.add_credit(given.count + 10);
      }
    });
    receiver.on("receiver_drained", () => finish({ found, credit: receiver.credit }, connection));
  },
  // A question to a server in the same process, over a source that is made for the answers.
  questions() {
    const connection = connect();
    const answers = [];
    const server = connection.open_receiver(given.address);
    const anonymous = connection.open_sender({ target: { address: null } });
    server.on("message", ({ message }) =>
      anonymous.send({ to: message.reply_to, correlation_id: message.message_id, body: message.body.toUpperCase() }),
    );
    const replies = connection.open_receiver({ source: { dynamic: true } });
    replies.on("receiver_open", () => {
      const sender = connection.open_sender(given.address);
      sender.once("sendable", () => {
        for (const body of ["a", "b", "c"]) sender.send({ message_id: body, reply_to: replies.source.address, body });
      });
    });
    replies.on("message", ({ message }) => {
      answers.push([message.correlation_id, message.body]);
      if (answers.length === 3) finish(answers, connection);
    });
  },
  // Outcomes by hand: the first is released, rejected or failed, and what comes after.
  outcomes() {
    const connection = connect();
    const receiver = connection.open_receiver({ source: given.address, autoaccept: false, credit_window: 1 });
    const found = [];
    receiver.on("message", ({ message, delivery }) => {
      found.push([message.body, message.delivery_count || 0]);
      const outcome = given.outcomes[found.length - 1];
      if (outcome === "accept") delivery.accept();
      else if (outcome === "release") delivery.release();
      else if (outcome === "modify") delivery.modified({ delivery_failed: true });
      else if (outcome === "refuse") delivery.modified({ undeliverable_here: true });
      else delivery.reject({ condition: "app:bad", description: "no good" });
      if (found.length === given.outcomes.length) setTimeout(() => finish(found, connection), 100);
    });
  },
  // A source that is not there.
  missing() {
    const connection = connect();
    connection.open_receiver(given.address).on("receiver_error", ({ receiver }) =>
      finish([receiver.error.condition, receiver.error.description], connection),
    );
  },
  // More than rhea can keep unanswered: 5,000 messages with one sender.
  many() {
    const connection = connect();
    const sender = connection.open_sender(given.address);
    let sent = 0;
    let settled = 0;
    let got = 0;
    const done = () => settled === given.count && got === given.count && finish({ settled, got }, connection);
    sender.on("sendable", () => {
      while (sender.sendable() && sent < given.count) sender.send({ body: sent++ });
    });
    sender.on("settled", () => (settled++, done()));
    connection.open_receiver({ source: given.address, credit_window: 500 }).on("message", () => (got++, done()));
  },
  login() {
    const connection = connect({ password: "wrong" });
    connection.on("connection_open", () => finish("open", connection));
  },
};

setTimeout(() => finish({ error: "nothing came in 50 s" }), 50_000).unref();
programs[what]();
