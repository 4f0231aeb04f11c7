// One life of a queue with @azure/service-bus, as JSON on stdout: what each step found.
"use strict";

const [modules, port, queue, key] = process.argv.slice(2);
const { ServiceBusClient } = require(`${modules}/node_modules/@azure/service-bus`);

const text = (found) => found.map((each) => String(each.body));
const number = (each) => Number(each.sequenceNumber);

async function take(receiver, count) {
  const found = [];
  while (found.length < count) {
    const more = await receiver.receiveMessages(count - found.length, { maxWaitTimeInMs: 10000 });
    if (!more.length) throw new Error(`${found.length} of ${count} messages came`);
    found.push(...more);
  }
  return found;
}

async function codeOf(promise) {
  try {
    await promise;
    return "done";
  } catch (error) {
    return error.code;
  }
}

async function settle(client, said) {
  const sender = client.createSender(queue);
  const receiver = client.createReceiver(queue);
  await sender.sendMessages(["a", "b", "c", "d"].map((body) => ({ body, applicationProperties: { body } })));
  said.peeked = text(await receiver.peekMessages(10));
  const found = await take(receiver, 4);
  said.taken = text(found);
  said.locked = found[0].lockedUntilUtc > new Date();
  said.renewed = (await receiver.renewMessageLock(found[0])) >= found[0].lockedUntilUtc;
  await receiver.completeMessage(found[0]);
  await receiver.abandonMessage(found[1]);
  await receiver.deferMessage(found[2]);
  await receiver.deadLetterMessage(found[3], { deadLetterReason: "bad", deadLetterErrorDescription: "very bad" });
  const [again] = await take(receiver, 1);
  said.again = [again.body, again.deliveryCount];
  await receiver.completeMessage(again);
  const [deferred] = await receiver.receiveDeferredMessages(found[2].sequenceNumber);
  said.deferred = [deferred.body, deferred.state];
  await receiver.completeMessage(deferred);
  said.missing = await codeOf(receiver.receiveDeferredMessages(found[2].sequenceNumber));
  const letters = client.createReceiver(queue, { subQueueType: "deadLetter" });
  const [letter] = await take(letters, 1);
  said.letter = [letter.body, letter.deadLetterReason, letter.deadLetterErrorDescription];
  await letters.completeMessage(letter);
  await sender.close();
  await receiver.close();
}

async function schedule(client, said) {
  const sender = client.createSender(queue);
  const due = new Date(Date.now() + 1500);
  const numbers = await sender.scheduleMessages([{ body: "later" }, { body: "never" }], due);
  await sender.cancelScheduledMessages(numbers[1]);
  said.cancelled = await codeOf(sender.cancelScheduledMessages(numbers[1]));
  const receiver = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
  said.scheduled = text(await take(receiver, 1));
  said.rest = text(await receiver.receiveMessages(1, { maxWaitTimeInMs: 500 }));
  await receiver.close();
}

async function sessions(client, said) {
  const sender = client.createSender(queue);
  for (const body of ["x", "y"]) await sender.sendMessages({ body, sessionId: "one" });
  const session = await client.acceptSession(queue, "one");
  said.session = [session.sessionId, session.sessionLockedUntilUtc > new Date()];
  await session.setSessionState({ step: 1 });
  said.state = await session.getSessionState();
  said.bodies = [];
  for (let count = 0; count < 2; count++) {
    const [found] = await take(session, 1);
    said.bodies.push(found.body);
    await session.completeMessage(found);
  }
  said.kept = (await session.renewSessionLock()) > new Date();
  said.locked = await codeOf(client.acceptSession(queue, "one"));
  await session.close();
  said.none = await codeOf(client.acceptNextSession(queue, { maxAutoLockRenewalDurationInMs: 0 }));
}

async function main() {
  const connection =
    `Endpoint=sb://127.0.0.1:${port};SharedAccessKeyName=orders;SharedAccessKey=${key};UseDevelopmentEmulator=true;`;
  const client = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0, timeoutInMs: 10000 } });
  const said = { settle: {}, schedule: {}, sessions: {} };
  await settle(client, said.settle);
  await schedule(client, said.schedule);
  await sessions(client, said.sessions);
  await client.close();
  process.stdout.write(JSON.stringify(said));
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
