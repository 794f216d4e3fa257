// The version of the RocksDB that is linked; all else is its own C interface.
#include <rocksdb/c.h>
#include <rocksdb/version.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

extern "C" const char* peer_rocksdb_version() {
  return TEXT(ROCKSDB_MAJOR) "." TEXT(ROCKSDB_MINOR) "." TEXT(ROCKSDB_PATCH);
}
