// Unmodified ioredis and node-redis against a running server: check.mjs HOST PORT.
import assert from "node:assert/strict";
import Redis from "ioredis";
import { createClient } from "redis";

const [host, port] = [process.argv[2], Number(process.argv[3])];

const io = new Redis({ host, port });
assert.equal(await io.ping(), "PONG");
await io.flushdb();
assert.equal(await io.set("a", "1"), "OK");
assert.equal(await io.get("a"), "1");
assert.equal(await io.incrby("a", 41), 42);
assert.equal(await io.hset("h", { f: "1", g: "2" }), 2);
assert.deepEqual(await io.hgetall("h"), { f: "1", g: "2" });
const pipeline = io.pipeline();
for (let i = 0; i < 500; i++) pipeline.set(`key:${String(i).padStart(4, "0")}`, i);
assert.ok((await pipeline.exec()).every(([error, reply]) => !error && reply === "OK"));
assert.deepEqual(await io.multi().set("m", "1").incr("m").exec(), [[null, "OK"], [null, 2]]);
assert.equal((await io.call("RANGE", "key:0000", "key:9999", "LIMIT", "3", "KEYS")).length, 3);
let seen = 0;
for await (const keys of io.scanStream({ match: "key:*" })) seen += keys.length;
assert.equal(seen, 500);
io.disconnect();
console.log("ioredis: all checks passed");

for (const RESP of [2, 3]) {
  const client = createClient({ RESP, socket: { host, port } });
  await client.connect();
  assert.equal(await client.ping(), "PONG");
  await client.set("n", "1", { EX: 100 });
  assert.equal(await client.get("n"), "1");
  assert.ok((await client.ttl("n")) > 90);
  await client.hSet("nh", { f: "1", g: "2" });
  assert.deepEqual({ ...(await client.hGetAll("nh")) }, { f: "1", g: "2" });
  assert.deepEqual(await client.multi().set("t", "1").incr("t").exec(), ["OK", 2]);
  assert.deepEqual(await client.mGet(["n", "zz"]), ["1", null]);
  assert.equal(await client.del(["n", "nh", "t"]), 3);
  client.destroy();
}
console.log("node-redis: all checks passed");
