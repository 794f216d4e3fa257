// Abseil's btree_map and btree_set: nodes of about 256 bytes.
#include <absl/base/config.h>
#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include "ordered.h"

template <class K, class V>
using Btree = absl::btree_map<K, V, std::less<>>;

template <class K>
using BtreeSet = absl::btree_set<K, std::less<>>;

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

extern "C" const PeerTable* peer_absl_btree_halves() { return Loops<Words<Btree, uint32_t>>::table(); }
extern "C" const PeerTable* peer_absl_btree_words() { return Loops<Words<Btree>>::table(); }
extern "C" const PeerTable* peer_absl_btree() { return Loops<Strings<Btree>>::table(); }
extern "C" const PeerTable* peer_absl_btree_set_halves() { return Loops<Members<BtreeSet, uint32_t>>::table(); }
extern "C" const PeerTable* peer_absl_btree_set_words() { return Loops<Members<BtreeSet>>::table(); }
extern "C" const char* peer_absl_version() {
#ifdef ABSL_LTS_RELEASE_VERSION
  return TEXT(ABSL_LTS_RELEASE_VERSION) "." TEXT(ABSL_LTS_RELEASE_PATCH_LEVEL);
#else
  return "unnumbered";
#endif
}
