"""An unmodified redis-py against a running server: check.py HOST PORT, or check.py SOCKET.

The server names in `INFO backend` what the place of its rows lacks. Of that each request must be
refused, and do nothing; everything else must work.
"""
import sys

import redis

if len(sys.argv) == 2:
    place = {"unix_socket_path": sys.argv[1]}
else:
    place = {"host": sys.argv[1], "port": int(sys.argv[2])}

checks = refusals = 0


def check(holds, what=""):
    """Counts a check that holds; ends the program at one that does not."""
    global checks
    assert holds, what
    checks += 1


def fails(request, code):
    """Checks that a request is answered by an error with this code."""
    try:
        reply = request()
    except redis.ResponseError as error:
        check(str(error).startswith(code + " "), error)
        return
    raise SystemExit(f"{reply!r} instead of {code}")


def served(lacks, capability, *requests):
    """Whether the backend can do something. If not, requests that need it must be refused."""
    global refusals
    if capability not in lacks:
        return True
    for request in requests:
        fails(request, "UNSUPPORTED")
        refusals += 1
    return False


def strings(r):
    binary = bytes(range(256))
    check(r.set(b"bin\x00ary", binary))
    check(r.get(b"bin\x00ary") == binary)
    check(r.get("absent") is None)
    check(r.set("nx", "1", nx=True) and not r.set("nx", "2", nx=True))
    check(r.set("xx", "1", xx=True) is None)
    check(r.set("nx", "3", get=True) == b"1")
    check(r.incr("count") == 1 and r.incrby("count", 41) == 42 and r.decr("count") == 41)
    check(abs(r.incrbyfloat("float", 1.5) - 1.5) < 1e-9)
    check(r.append("text", "ab") == 2 and r.append("text", "cd") == 4)
    check(r.getrange("text", 1, 2) == b"bc" and r.strlen("text") == 4)
    check(r.mset({"a": "1", "b": "2"}) and r.mget("a", "b", "zz") == [b"1", b"2", None])


def hashes(r):
    check(r.hset("hash", mapping={"f": "1", "g": "2"}) == 2)
    check(r.hgetall("hash") == {b"f": b"1", b"g": b"2"})
    check(r.hincrby("hash", "f", 9) == 10 and r.hdel("hash", "g") == 1)
    check(r.hmget("hash", "f", "g") == [b"10", None])
    check(r.type("hash") == b"hash" and r.type("a") == b"string")
    fails(lambda: r.get("hash"), "WRONGTYPE")
    check(r.expire("a", 100) and 98 <= r.ttl("a") <= 100 and r.persist("a") and r.ttl("a") == -1)


def many(r):
    with r.pipeline(transaction=False) as pipe:
        for i in range(2000):
            pipe.set(f"key:{i:05}", i)
        check(all(pipe.execute()))
    check(r.dbsize() >= 2000)
    check(len(set(r.scan_iter(match="key:*", count=100))) == 2000)
    check(len(r.keys("key:0001?")) == 10)
    flat = r.execute_command("RANGE", "key:00010", "key:00013")
    check(flat[0::2] == [b"key:00010", b"key:00011", b"key:00012", b"key:00013"])
    check(r.execute_command("COUNTRANGE", "key:", "key:99999") == 2000)


def transactions_of_one_row(r):
    with r.pipeline() as pipe:
        pipe.watch("a")
        pipe.multi()
        pipe.set("a", "10")
        pipe.incr("a")
        check(pipe.execute() == [True, 11])
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
    check(r.get("a") == b"changed")


def several_rows(r, lacks):
    def both():
        with r.pipeline() as pipe:
            return pipe.set("one", "1").set("two", "2").execute()

    requests = [
        both,
        lambda: r.msetnx({"one": "1", "two": "2"}),
        lambda: r.rename("a", "one"),
        lambda: r.renamenx("a", "one"),
        lambda: r.copy("a", "one"),
        lambda: r.move("a", 1),
    ]
    if not served(lacks, "several_rows", *requests):
        check(r.exists("one", "two") == 0 and r.get("a") == b"changed", "a refusal did something")
        return
    check(both() == [True, True] and r.mget("one", "two") == [b"1", b"2"])
    check(not r.msetnx({"one": "3", "three": "3"}) and r.get("three") is None)
    check(r.rename("one", "three") and not r.renamenx("two", "three"))
    check(r.copy("two", "one") and r.get("one") == b"2")
    check(r.move("two", 1) == 1 and r.exists("two") == 0)
    check(r.delete("one", "three") == 2)
    with r.client() as other:
        other.select(1)
        check(other.delete("two") == 1 and other.select(0))


def snapshots(r, lacks):
    with r.client() as own:
        requests = [lambda: own.execute_command("SNAPSHOT")]
        if served(lacks, "snapshots", *requests):
            token = own.execute_command("SNAPSHOT")
            r.set("a", "later")
            check(own.execute_command("WITH", token, "GET", "a") == b"changed")
            check(own.execute_command("WITH", token, "COUNTRANGE", "key:", "key:99999") == 2000)
            check(own.execute_command("SNAPSHOT", "RELEASE", token) == 1)


def interactive_transactions(r, lacks):
    with r.client() as own:
        requests = [
            lambda: own.execute_command("BEGIN"),
            lambda: own.execute_command("BEGIN", "SNAPSHOT"),
        ]
        if not served(lacks, "interactive_transactions", *requests):
            return
        check(own.execute_command("BEGIN") == b"OK")
        check(own.execute_command("COUNTRANGE", "key:", "key:99999") == 2000)
        check(own.set("keys", 2000))
        r.set("key:00000:phantom", "new")
        fails(lambda: own.execute_command("COMMIT"), "CONFLICT")
        check(r.get("keys") is None)
        check(own.execute_command("BEGIN", "SNAPSHOT") == b"OK")
        check(own.incr("keys", 2001) == 2001 and r.get("keys") is None)
        check(own.execute_command("COMMIT") == b"OK" and r.get("keys") == b"2001")


def whole_database(r, lacks):
    if served(lacks, "checkpoints", r.save, r.bgsave):
        check(r.save())
    if served(lacks, "random_keys", r.randomkey):
        check(r.exists(r.randomkey()) == 1)
    check(r.info()["redis_version"])
    check(r.client_setname("checker") and r.client_getname() in (b"checker", "checker"))


for protocol in (2, 3):
    r = redis.Redis(**place, protocol=protocol)
    check(r.ping())
    r.flushdb()
    prefix = "backend_lacks_"
    lacks = {name[len(prefix):] for name in r.info("backend") if name.startswith(prefix)}
    strings(r)
    hashes(r)
    many(r)
    transactions_of_one_row(r)
    several_rows(r, lacks)
    snapshots(r, lacks)
    interactive_transactions(r, lacks)
    whole_database(r, lacks)
    check(r.delete("a", "b", "absent") == 2)

print(f"redis-py: all {checks} checks passed, {refusals} of them refusals")
