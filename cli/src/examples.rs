//! Examples, as `--help` of each command ends with them.

pub(crate) const SERVE: &str = "\
Examples:
  hedgerow serve
  hedgerow serve --data /var/lib/hedgerow --durability sync
  hedgerow serve --index btree --memory 4GiB
  hedgerow serve --data /ssd1/db --log-dir /ssd2/log --log-dir /ssd3/log
  hedgerow serve --resp 0.0.0.0:7379 --password secret --memcached none --http 7380";

pub(crate) const CLI: &str = "\
Examples:
  hedgerow cli                                 a prompt
  hedgerow cli SET greeting hello
  hedgerow cli --resp 10.0.0.5:7379 -a secret RANGE - + LIMIT 10 KEYS
  hedgerow cli < commands.txt                  one command a line";

pub(crate) const COPY: &str = "\
Examples:
  hedgerow copy --from hedgerow-data --to other-data --verify
  hedgerow copy --from hedgerow-data --to hbase://gateway1:9090,gateway2:9090/hedgerow \\
    --resume copy.json --rows-per-second 20000 --exclusive --verify
  hedgerow copy --from hbase://gateway1:9090/hedgerow --to hedgerow-data --index btree";

pub(crate) const GET: &str = r"Examples:
  hedgerow get greeting
  hedgerow get user:1 --column name
  hedgerow get 'binary\x00key' --raw > value.bin";

pub(crate) const PUT: &str = "\
Examples:
  hedgerow put greeting hello
  hedgerow put session:9 token --ttl 30m
  hedgerow put user:1 Ada --column name
  hedgerow put picture - < picture.png";

pub(crate) const DELETE: &str = "\
Examples:
  hedgerow delete greeting user:1
  hedgerow delete --keyspace db1 greeting";

pub(crate) const SCAN: &str = "\
Examples:
  hedgerow scan --prefix user: --limit 10
  hedgerow scan --from a --to b --keys
  hedgerow scan --reverse --limit 1";

pub(crate) const COUNT: &str = "\
Examples:
  hedgerow count
  hedgerow count --prefix user:";

pub(crate) const LOAD: &str = "\
Examples:
  hedgerow load paths.txt                      each line a key
  hedgerow load --tsv rows.tsv                 key, tab, value
  hedgerow load --data new --index btree rows.dump
  zcat rows.dump.gz | hedgerow load";

pub(crate) const DUMP: &str = "\
Examples:
  hedgerow dump > rows.dump
  hedgerow dump --keyspace db1 | gzip > db1.dump.gz
  hedgerow dump --json";

pub(crate) const KEYSPACE: &str = "\
Examples:
  hedgerow keyspace create counters --index matryoshka
  hedgerow keyspace list --json
  hedgerow keyspace drop counters";

pub(crate) const STATS: &str = "\
Examples:
  hedgerow stats
  hedgerow stats --index --json";

pub(crate) const CHECK: &str = "\
Examples:
  hedgerow check
  hedgerow check --data /var/lib/hedgerow --memory 1GiB";

pub(crate) const CHECKPOINT: &str = "\
Examples:
  hedgerow checkpoint --data /var/lib/hedgerow";

pub(crate) const BACKUP: &str = "\
Examples:
  hedgerow backup --data /var/lib/hedgerow /backup/monday";

pub(crate) const RESTORE: &str = "\
Examples:
  hedgerow restore /backup/monday --data /var/lib/hedgerow
  hedgerow restore /backup/monday --data /ssd1/db --log-dir /ssd2/log --log-dir /ssd3/log";

pub(crate) const BENCH: &str = "\
Examples:
  hedgerow bench --data bench-data --workload a --threads 2
  hedgerow bench --resp 7379 --workload abc --threads 8 --pipeline 16";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  hedgerow completions bash > ~/.local/share/bash-completion/completions/hedgerow";

pub(crate) const MAN: &str = "\
Examples:
  hedgerow man ~/.local/share/man/man1";
