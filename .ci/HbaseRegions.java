import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Splits and moves regions of a table, which Thrift2 gateways cannot. `.ci/hbase split` and
 * `.ci/hbase move` run it: `java HbaseRegions.java split TABLE KEY` or `... move TABLE`.
 *
 * <p>Both wait until HBase has done it, and print one line for each region: its first key and its
 * server. Exit status 1 if HBase did not do it within two minutes; the error is on standard error.
 */
public class HbaseRegions {
  private static final long WAIT_MS = 60_000;
  private static final long PAUSE_MS = 200;

  private final Admin admin;
  private final RegionLocator locator;
  private final TableName table;
  private final long until = System.currentTimeMillis() + WAIT_MS;

  private HbaseRegions(Connection connection, TableName table) throws Exception {
    this.admin = connection.getAdmin();
    this.locator = connection.getRegionLocator(table);
    this.table = table;
  }

  public static void main(String[] words) throws Exception {
    Configuration configuration = HBaseConfiguration.create();
    TableName table = TableName.valueOf(words[1]);
    try (Connection connection = ConnectionFactory.createConnection(configuration)) {
      HbaseRegions regions = new HbaseRegions(connection, table);
      if (!regions.admin.tableExists(table)) {
        throw new IllegalStateException("there is no table " + table);
      }
      if (words[0].equals("split")) {
        regions.split(Bytes.toBytesBinary(words[2]));
      } else {
        regions.move();
      }
      for (HRegionLocation region : regions.locations()) {
        String first = Bytes.toStringBinary(region.getRegion().getStartKey());
        System.out.println("\"" + first + "\" " + region.getServerName());
      }
    } catch (Exception error) {
      error.printStackTrace();
      System.err.println(error);
      System.exit(1);
    }
  }

  /** The regions of the table, by what the cluster says now. */
  private List<HRegionLocation> locations() throws Exception {
    locator.clearRegionLocationCache();
    return locator.getAllRegionLocations();
  }

  /**
   * Splits the region that has the key, so that another one begins with it. HBase refuses while
   * the region refers to files of one that was split before, or is in transition: then again.
   */
  private void split(byte[] key) throws Exception {
    String last = "";
    while (true) {
      for (HRegionLocation region : locations()) {
        if (Bytes.equals(region.getRegion().getStartKey(), key)) {
          return;
        }
      }
      if (System.currentTimeMillis() > until) {
        throw new IllegalStateException("no region begins with the key after a minute" + last);
      }
      byte[] name = locator.getRegionLocation(key, true).getRegion().getRegionName();
      try {
        admin.splitRegionAsync(name, key).get(WAIT_MS, TimeUnit.MILLISECONDS);
      } catch (ExecutionException | java.io.IOException error) {
        last = ": " + error.getMessage();
        admin.majorCompactRegion(name);
        Thread.sleep(PAUSE_MS);
      }
    }
  }

  /** Moves each region to another server, and waits until all are served there. */
  private void move() throws Exception {
    List<HRegionLocation> before = locations();
    List<ServerName> servers = new ArrayList<>(admin.getRegionServers());
    if (servers.size() < 2) {
      throw new IllegalStateException("no other region server is online");
    }
    for (HRegionLocation region : before) {
      ServerName from = region.getServerName();
      ServerName to = servers.get((servers.indexOf(from) + 1) % servers.size());
      String last = "";
      while (!serves(region, to)) {
        if (System.currentTimeMillis() > until) {
          throw new IllegalStateException("a region did not move in a minute" + last);
        }
        try {
          admin.move(region.getRegion().getEncodedNameAsBytes(), to);
        } catch (java.io.IOException error) {
          last = ": " + error.getMessage();
        }
        Thread.sleep(PAUSE_MS);
      }
    }
  }

  /** Whether a server serves a region. A region that was split meanwhile is nowhere: it is done. */
  private boolean serves(HRegionLocation region, ServerName server) throws Exception {
    for (HRegionLocation now : locations()) {
      if (now.getRegion().getEncodedName().equals(region.getRegion().getEncodedName())) {
        return server.equals(now.getServerName());
      }
    }
    return true;
  }
}
