"""An unmodified redis-py against a running server: check.py HOST PORT, or check.py SOCKET."""
import sys

import redis

if len(sys.argv) == 2:
    place = {"unix_socket_path": sys.argv[1]}
else:
    place = {"host": sys.argv[1], "port": int(sys.argv[2])}

for protocol in (2, 3):
    r = redis.Redis(**place, protocol=protocol)
    assert r.ping()
    r.flushdb()

    binary = bytes(range(256))
    assert r.set(b"bin\x00ary", binary)
    assert r.get(b"bin\x00ary") == binary
    assert r.get("absent") is None
    assert r.set("nx", "1", nx=True) and not r.set("nx", "2", nx=True)
    assert r.set("xx", "1", xx=True) is None
    assert r.set("nx", "3", get=True) == b"1"
    assert r.incr("count") == 1 and r.incrby("count", 41) == 42 and r.decr("count") == 41
    assert abs(r.incrbyfloat("float", 1.5) - 1.5) < 1e-9
    assert r.append("text", "ab") == 2 and r.append("text", "cd") == 4
    assert r.getrange("text", 1, 2) == b"bc" and r.strlen("text") == 4
    assert r.mset({"a": "1", "b": "2"}) and r.mget("a", "b", "zz") == [b"1", b"2", None]

    assert r.hset("hash", mapping={"f": "1", "g": "2"}) == 2
    assert r.hgetall("hash") == {b"f": b"1", b"g": b"2"}
    assert r.hincrby("hash", "f", 9) == 10 and r.hdel("hash", "g") == 1
    assert r.hmget("hash", "f", "g") == [b"10", None]
    assert r.type("hash") == b"hash" and r.type("a") == b"string"
    try:
        r.get("hash")
        raise SystemExit("GET of a hash must fail")
    except redis.ResponseError as error:
        assert "WRONGTYPE" in str(error)

    assert r.expire("a", 100) and 98 <= r.ttl("a") <= 100 and r.persist("a") and r.ttl("a") == -1

    with r.pipeline(transaction=False) as pipe:
        for i in range(2000):
            pipe.set(f"key:{i:05}", i)
        assert all(pipe.execute())
    assert r.dbsize() >= 2000
    assert len(set(r.scan_iter(match="key:*", count=100))) == 2000
    assert len(r.keys("key:0001?")) == 10

    with r.pipeline() as pipe:
        pipe.watch("a")
        pipe.multi()
        pipe.set("a", "10")
        pipe.incr("a")
        assert pipe.execute() == [True, 11]
    with r.pipeline() as pipe:
        pipe.watch("a")
        r.set("a", "changed")
        pipe.multi()
        pipe.set("a", "lost")
        try:
            pipe.execute()
            raise SystemExit("EXEC after a watched change must fail")
        except redis.WatchError:
            pass
    assert r.get("a") == b"changed"

    flat = r.execute_command("RANGE", "key:00010", "key:00013")
    assert flat[0::2] == [b"key:00010", b"key:00011", b"key:00012", b"key:00013"]
    assert r.execute_command("COUNTRANGE", "key:", "key:99999") == 2000
    assert r.info()["redis_version"]
    assert r.client_setname("checker") and r.client_getname() in (b"checker", "checker")

    with r.client() as own:
        token = own.execute_command("SNAPSHOT")
        r.set("a", "later")
        assert own.execute_command("WITH", token, "GET", "a") == b"changed"
        assert own.execute_command("WITH", token, "COUNTRANGE", "key:", "key:99999") == 2000
        assert own.execute_command("SNAPSHOT", "RELEASE", token) == 1

        assert own.execute_command("BEGIN") == b"OK"
        assert own.execute_command("COUNTRANGE", "key:", "key:99999") == 2000
        assert own.set("keys", 2000)
        r.set("key:00000:phantom", "new")
        try:
            own.execute_command("COMMIT")
            raise SystemExit("COMMIT after a write into a range that was read must fail")
        except redis.ResponseError as error:
            assert "CONFLICT" in str(error), error
        assert r.get("keys") is None
        assert own.execute_command("BEGIN", "SNAPSHOT") == b"OK"
        assert own.incr("keys", 2001) == 2001 and r.get("keys") is None
        assert own.execute_command("COMMIT") == b"OK" and r.get("keys") == b"2001"
    assert r.delete("a", "b", "absent") == 2

print("redis-py: all checks passed")
