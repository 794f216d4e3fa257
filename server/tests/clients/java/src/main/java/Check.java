import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

/**
 * Unmodified Jedis (the client of YCSB's Redis binding) against a running server: HOST PORT.
 *
 * <p>The server names in {@code INFO backend} what the place of its rows lacks. Of that each request
 * must be refused, and do nothing; everything else must work.
 */
public final class Check {
    private static int checks;
    private static int refusals;

    private static void check(boolean ok, String what) {
        if (!ok) {
            System.out.println("failed: " + what);
            System.exit(1);
        }
        checks++;
    }

    private static void refused(Runnable request, String what) {
        String answer = "no error";
        try {
            request.run();
        } catch (JedisDataException error) {
            answer = error.getMessage();
        }
        check(answer.startsWith("UNSUPPORTED "), what + " is refused, and not: " + answer);
        refusals++;
    }

    private static boolean serves(Jedis jedis, String capability) {
        return !jedis.info("backend").contains("\nbackend_lacks_" + capability + ":");
    }

    public static void main(String[] arguments) {
        HostAndPort address = new HostAndPort(arguments[0], Integer.parseInt(arguments[1]));
        for (RedisProtocol protocol : new RedisProtocol[] {RedisProtocol.RESP2, RedisProtocol.RESP3}) {
            DefaultJedisClientConfig config =
                    DefaultJedisClientConfig.builder().protocol(protocol).clientName("java").build();
            try (Jedis jedis = new Jedis(address, config); Jedis other = new Jedis(address, config)) {
                strings(jedis);
                records(jedis);
                pipelines(jedis);
                transactions(jedis, other);
                severalRows(jedis);
                checkpoints(jedis);
                check(jedis.clientGetname().equals("java"), "client name");
                check(jedis.clientList().contains("name=java"), "client list");
            }
        }
        System.out.printf(
                "Jedis: all %d checks passed, %d of them refusals%n", checks, refusals);
    }

    private static void strings(Jedis jedis) {
        check(jedis.ping().equals("PONG"), "ping");
        check(jedis.set("java", "1").equals("OK"), "set");
        check(jedis.get("java").equals("1"), "get");
        check(jedis.get("absent") == null, "absent");
        check(jedis.incrBy("java", 41) == 42, "incrby");
        byte[] odd = {0, (byte) 0xff, '\r', '\n'};
        jedis.set(odd, odd);
        check(java.util.Arrays.equals(jedis.get(odd), odd), "binary");
        jedis.set("short", "lived", SetParams.setParams().px(60_000));
        long ttl = jedis.pttl("short");
        check(ttl > 0 && ttl <= 60_000, "expiry");
        check(jedis.set("short", "again", SetParams.setParams().nx()) == null, "set nx");
        try {
            jedis.hget("java", "field");
            check(false, "an error for the wrong type");
        } catch (JedisDataException error) {
            check(error.getMessage().startsWith("WRONGTYPE"), "the wrong type");
        }
        check(jedis.del("java", "short") == 2 && jedis.del(odd) == 1, "del");
    }

    /** YCSB stores a record as a hash of fields. */
    private static void records(Jedis jedis) {
        check(jedis.hset("user1", Map.of("field0", "a", "field1", "b")) == 2, "hset");
        check(jedis.hgetAll("user1").equals(Map.of("field0", "a", "field1", "b")), "hgetall");
        check(jedis.hmget("user1", "field1", "none").get(0).equals("b"), "hmget");
        check(jedis.del("user1") == 1, "del of a hash");
    }

    private static void pipelines(Jedis jedis) {
        Pipeline pipeline = jedis.pipelined();
        for (int i = 0; i < 1000; i++) {
            pipeline.set(String.format("javakey:%04d", i), Integer.toString(i));
        }
        check(pipeline.syncAndReturnAll().size() == 1000, "pipeline");
        ScanParams params = new ScanParams().match("javakey:*").count(100);
        Set<String> seen = new HashSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> found = jedis.scan(cursor, params);
            seen.addAll(found.getResult());
            cursor = found.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        check(seen.size() == 1000, "scan");
    }

    private static void transactions(Jedis jedis, Jedis other) {
        AbstractTransaction transaction = jedis.multi();
        transaction.set("tx", "1");
        transaction.incr("tx");
        List<Object> replies = transaction.exec();
        check(replies.size() == 2 && replies.get(1).equals(2L), "transaction");
        jedis.watch("tx");
        other.set("tx", "5");
        transaction = jedis.multi();
        transaction.incr("tx");
        check(transaction.exec() == null, "a watched key has changed");
        check(jedis.del("tx") == 1, "del after a transaction");
    }

    private static List<Object> both(Jedis jedis) {
        AbstractTransaction transaction = jedis.multi();
        transaction.set("jone", "1");
        transaction.set("jtwo", "2");
        return transaction.exec();
    }

    private static void severalRows(Jedis jedis) {
        jedis.set("jthree", "3");
        if (serves(jedis, "several_rows")) {
            check(both(jedis).size() == 2, "a transaction of two keys");
            check(jedis.rename("jthree", "jone").equals("OK"), "rename");
            check(jedis.msetnx("jthree", "3", "jfour", "4") == 1, "msetnx");
            check(jedis.del("jone", "jtwo", "jthree", "jfour") == 4, "all of them");
            return;
        }
        refused(() -> both(jedis), "a transaction of two keys");
        refused(() -> jedis.rename("jthree", "jone"), "RENAME");
        refused(() -> jedis.msetnx("jone", "1", "jfour", "4"), "MSETNX");
        refused(() -> jedis.copy("jthree", "jone", true), "COPY");
        check(jedis.exists("jone", "jtwo", "jfour") == 0, "none of them");
        check(jedis.del("jthree") == 1, "del of what was not renamed");
    }

    private static void checkpoints(Jedis jedis) {
        if (serves(jedis, "checkpoints")) {
            check(jedis.save().equals("OK"), "save");
        } else {
            refused(jedis::save, "SAVE");
        }
    }
}
