import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.NamespaceDescriptor;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hadoop.hbase.io.encoding.DataBlockEncoding;
import org.apache.hadoop.hbase.regionserver.BloomType;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * YCSB's operations by HBase's own Java client, as YCSB's binding for HBase 2 does them: a get or a
 * put for each, one connection for all threads, nothing buffered. The table has the properties of
 * Hedgerow's tables.
 *
 * It obeys lines on its standard input, and answers each with a line:
 *
 *   create NAMESPACE        makes the table NAMESPACE:default
 *   drop NAMESPACE          removes the namespace with all its tables
 *   read PREFIX THREADS     reads the operations of each thread, PREFIX.0, PREFIX.1 …: lines of a
 *                           kind (r u i s m), a key, and rows of a scan
 *   play SECONDS            does them for so long at most (0: all), on as many threads; answers with
 *                           operations, seconds, and the mean, p50, p95 and p99 in µs
 */
public final class HBaseClient {
  private static final byte[] FAMILY = Bytes.toBytes("h");
  private static final int FIELDS = 10;
  private static final int FIELD_BYTES = 100;

  private record Operation(char kind, byte[] key, int rows) {}

  private final Connection connection;
  private final List<List<Operation>> lists = new ArrayList<>();
  private TableName name;

  private HBaseClient(Connection connection) {
    this.connection = connection;
  }

  public static void main(String[] arguments) throws Exception {
    Configuration configuration = HBaseConfiguration.create();
    try (Connection connection = ConnectionFactory.createConnection(configuration)) {
      HBaseClient client = new HBaseClient(connection);
      BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        System.out.println(client.obey(line.split(" ")));
      }
    }
  }

  private String obey(String[] words) throws Exception {
    switch (words[0]) {
      case "create": return create(words[1]);
      case "drop": return drop(words[1]);
      case "read": return read(words[1], Integer.parseInt(words[2]));
      case "play": return play(Double.parseDouble(words[1]));
      default: throw new IllegalArgumentException(words[0]);
    }
  }

  private String create(String namespace) throws IOException {
    name = TableName.valueOf(namespace, "default");
    try (Admin admin = connection.getAdmin()) {
      admin.createNamespace(NamespaceDescriptor.create(namespace).build());
      admin.createTable(TableDescriptorBuilder.newBuilder(name)
          .setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(FAMILY)
              .setMaxVersions(1)
              .setBloomFilterType(BloomType.ROW)
              .setCompressionType(Compression.Algorithm.GZ)
              .setDataBlockEncoding(DataBlockEncoding.FAST_DIFF)
              .build())
          .build());
    }
    return "done";
  }

  private String drop(String namespace) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      for (TableName table : admin.listTableNamesByNamespace(namespace)) {
        admin.disableTable(table);
        admin.deleteTable(table);
      }
      admin.deleteNamespace(namespace);
    }
    return "done";
  }

  private String read(String prefix, int threads) throws IOException {
    lists.clear();
    for (int thread = 0; thread < threads; thread++) {
      List<Operation> list = new ArrayList<>();
      for (String line : Files.readAllLines(Path.of(prefix + "." + thread))) {
        String[] words = line.split(" ");
        byte[] key = words[1].getBytes(StandardCharsets.ISO_8859_1);
        list.add(new Operation(words[0].charAt(0), key, Integer.parseInt(words[2])));
      }
      lists.add(list);
    }
    return "done";
  }

  private String play(double seconds) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(lists.size());
    CyclicBarrier start = new CyclicBarrier(lists.size() + 1);
    long limit = seconds > 0 ? (long) (seconds * 1e9) : Long.MAX_VALUE;
    List<Future<long[]>> players = new ArrayList<>();
    for (List<Operation> list : lists) {
      Callable<long[]> player = () -> {
        start.await();
        return playList(list, limit);
      };
      players.add(threads.submit(player));
    }
    start.await();
    long begun = System.nanoTime();
    List<long[]> times = new ArrayList<>();
    for (Future<long[]> player : players) {
      times.add(player.get());
    }
    double took = (System.nanoTime() - begun) / 1e9;
    threads.shutdown();
    long[] all = times.stream().flatMapToLong(Arrays::stream).sorted().toArray();
    double mean = Arrays.stream(all).average().orElse(0) / 1e3;
    return String.format("%d %.6f %.3f %.3f %.3f %.3f", all.length, took, mean,
        at(all, 0.5), at(all, 0.95), at(all, 0.99));
  }

  private static double at(long[] sorted, double share) {
    return sorted[(int) ((sorted.length - 1) * share)] / 1e3;
  }

  /** Nanoseconds of each operation. */
  private long[] playList(List<Operation> list, long limit) throws IOException {
    long[] times = new long[list.size()];
    int done = 0;
    try (Table table = connection.getTable(name)) {
      long begun = System.nanoTime();
      for (Operation operation : list) {
        long before = System.nanoTime();
        if (before - begun >= limit) {
          break;
        }
        operate(table, operation);
        times[done++] = System.nanoTime() - before;
      }
    }
    return Arrays.copyOf(times, done);
  }

  private static void operate(Table table, Operation operation) throws IOException {
    byte[] key = operation.key();
    switch (operation.kind()) {
      case 'r': get(table, key); break;
      case 'u': put(table, key, 1); break;
      case 'i': put(table, key, FIELDS); break;
      case 'm': get(table, key); put(table, key, 1); break;
      case 's': scan(table, key, operation.rows()); break;
      default: throw new IllegalArgumentException("kind " + operation.kind());
    }
  }

  private static void get(Table table, byte[] key) throws IOException {
    Result row = table.get(new Get(key).addFamily(FAMILY));
    for (int field = 0; field < FIELDS; field++) {
      if (!Arrays.equals(row.getValue(FAMILY, name(field)), value(key, field))) {
        throw new IOException("wrong answer: field " + field + " of " + Bytes.toString(key));
      }
    }
  }

  private static void put(Table table, byte[] key, int fields) throws IOException {
    Put put = new Put(key);
    for (int field = 0; field < fields; field++) {
      put.addColumn(FAMILY, name(field), value(key, field));
    }
    table.put(put);
  }

  private static void scan(Table table, byte[] key, int rows) throws IOException {
    int seen = 0;
    Scan scan = new Scan().withStartRow(key).addFamily(FAMILY).setLimit(rows).setCaching(rows);
    try (ResultScanner scanner = table.getScanner(scan)) {
      for (Result row : scanner) {
        if (row.size() != FIELDS || seen == 0 && !Arrays.equals(row.getRow(), key)) {
          throw new IOException("wrong answer: row " + seen + " from " + Bytes.toString(key));
        }
        seen++;
      }
    }
    if (seen == 0 || seen > rows) {
      throw new IOException("wrong answer: " + seen + " rows for " + rows);
    }
  }

  private static byte[] name(int field) {
    return Bytes.toBytes("field" + field);
  }

  /** 100 letters that depend on key and field (xorshift), the same as in values.rs. */
  private static byte[] value(byte[] key, int field) {
    long state = 0xCBF29CE484222325L;
    for (byte one : key) {
      state = (state ^ (one & 0xFF)) * 0x00000100000001B3L;
    }
    state = (state + field) | 1;
    byte[] value = new byte[FIELD_BYTES];
    for (int at = 0; at < FIELD_BYTES; at++) {
      state ^= state << 13;
      state ^= state >>> 7;
      state ^= state << 17;
      value[at] = (byte) ('a' + (int) (state >>> 60));
    }
    return value;
  }
}
