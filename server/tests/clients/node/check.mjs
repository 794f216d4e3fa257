// Unmodified ioredis and node-redis against a running server: check.mjs HOST PORT.
//
// The server names in `INFO backend` what the place of its rows lacks. Of that each request must be
// refused, and do nothing; everything else must work.
import assert from "node:assert/strict";
import Redis from "ioredis";
import { createClient } from "redis";

const [host, port] = [process.argv[2], Number(process.argv[3])];
let checks = 0;
let refusals = 0;

function equal(found, expected) {
  assert.deepEqual(found, expected);
  checks += 1;
}

/** Whether a backend can do something. If not, requests that need it must be refused. */
async function served(info, capability, ...requests) {
  if (!info.includes(`\nbackend_lacks_${capability}:`)) return true;
  for (const request of requests) {
    await assert.rejects(request, /^[A-Za-z]*:? ?UNSUPPORTED /);
    checks += 1;
    refusals += 1;
  }
  return false;
}

function passed(client) {
  console.log(`${client}: all ${checks} checks passed, ${refusals} of them refusals`);
  checks = refusals = 0;
}

const io = new Redis({ host, port });
equal(await io.ping(), "PONG");
await io.flushdb();
const info = await io.info("backend");
equal(await io.set("a", "1"), "OK");
equal(await io.get("a"), "1");
equal(await io.incrby("a", 41), 42);
equal(await io.hset("h", { f: "1", g: "2" }), 2);
equal(await io.hgetall("h"), { f: "1", g: "2" });
const pipeline = io.pipeline();
for (let i = 0; i < 500; i++) pipeline.set(`key:${String(i).padStart(4, "0")}`, i);
equal((await pipeline.exec()).every(([error, reply]) => !error && reply === "OK"), true);
equal(await io.multi().set("m", "1").incr("m").exec(), [[null, "OK"], [null, 2]]);
const both = () => io.multi().set("one", "1").set("two", "2").exec();
const rename = () => io.rename("m", "one");
if (await served(info, "several_rows", both, rename)) {
  equal(await both(), [[null, "OK"], [null, "OK"]]);
  equal(await rename(), "OK");
  equal(await io.del("one", "two"), 2);
} else {
  equal(await io.mget("one", "two", "m"), [null, null, "2"]);
}
if (await served(info, "checkpoints", () => io.save())) equal(await io.save(), "OK");
equal((await io.call("RANGE", "key:0000", "key:9999", "LIMIT", "3", "KEYS")).length, 3);
let seen = 0;
for await (const keys of io.scanStream({ match: "key:*" })) seen += keys.length;
equal(seen, 500);
io.disconnect();
passed("ioredis");

for (const RESP of [2, 3]) {
  const client = createClient({ RESP, socket: { host, port } });
  await client.connect();
  equal(await client.ping(), "PONG");
  await client.set("n", "1", { EX: 100 });
  equal(await client.get("n"), "1");
  equal((await client.ttl("n")) > 90, true);
  await client.hSet("nh", { f: "1", g: "2" });
  equal({ ...(await client.hGetAll("nh")) }, { f: "1", g: "2" });
  equal(await client.multi().set("t", "1").incr("t").exec(), ["OK", 2]);
  const both = () => client.multi().set("n1", "1").set("n2", "2").exec();
  const copy = () => client.copy("n", "n3");
  if (await served(info, "several_rows", both, copy)) {
    equal(await both(), ["OK", "OK"]);
    equal(Number(await copy()), 1);
    equal(await client.del(["n1", "n2", "n3"]), 3);
  } else {
    equal(await client.mGet(["n1", "n2", "n3"]), [null, null, null]);
  }
  equal(await client.mGet(["n", "zz"]), ["1", null]);
  equal(await client.del(["n", "nh", "t"]), 3);
  client.destroy();
}
passed("node-redis");
