// libcds: two concurrent binary search trees over integers. Bronson et al.'s AVL tree with
// user-space RCU, and Ellen et al.'s lock-free tree with hazard pointers. Neither can scan.
// The kind of RCU comes before what is built on it.
#include <cds/urcu/general_buffered.h>

#include <cds/container/bronson_avltree_map_rcu.h>
#include <cds/container/ellen_bintree_map_hp.h>
#include <cds/gc/hp.h>
#include <cds/init.h>
#include <cds/version.h>

#include "peer.h"

namespace {

using Rcu = cds::urcu::gc<cds::urcu::general_buffered<>>;

struct AvlTraits : public cds::container::bronson_avltree::traits {
  typedef std::less<uint64_t> less;
};
using Avl = cds::container::BronsonAVLTreeMap<Rcu, uint64_t, uint64_t, AvlTraits>;

struct EllenTraits : public cds::container::ellen_bintree::traits {
  typedef std::less<uint64_t> less;
};
using Ellen = cds::container::EllenBinTreeMap<cds::gc::HP, uint64_t, uint64_t, EllenTraits>;

// The library's garbage collectors, once per process; they live until it ends.
void start() {
  static bool once = [] {
    cds::Initialize();
    new cds::gc::HP(Ellen::c_nHazardPtrCount + 8);
    new Rcu();
    return true;
  }();
  (void)once;
}

// Each thread says hello and goodbye to them.
void attach() {
  struct Attached {
    Attached() {
      start();
      cds::threading::Manager::attachThread();
    }
    ~Attached() { cds::threading::Manager::detachThread(); }
  };
  static thread_local Attached attached;
  (void)attached;
}

struct BronsonMap {
  Avl* map;

  BronsonMap() {
    attach();
    map = new Avl();
  }
  ~BronsonMap() {
    attach();
    delete map;
  }
  void put(Slice key, uint64_t value) {
    attach();
    map->update(big_endian(key),
                [value](bool, uint64_t const&, uint64_t& stored) { stored = value; });
  }
  bool get(Slice key, uint64_t& value) {
    attach();
    return map->find(big_endian(key),
                     [&value](uint64_t const&, uint64_t& stored) { value = stored; });
  }
  bool insert_if_absent(Slice key, uint64_t value, uint64_t& found) {
    attach();
    auto present = false;
    map->update(big_endian(key), [&](bool is_new, uint64_t const&, uint64_t& stored) {
      present = !is_new;
      (is_new ? stored : found) = is_new ? value : stored;
    });
    return present;
  }
  bool remove(Slice key) {
    attach();
    return map->erase(big_endian(key));
  }
  template <class Visit>
  void scan(Slice, size_t, Visit) {}
};

struct EllenMap {
  Ellen* map;

  EllenMap() {
    attach();
    map = new Ellen();
  }
  ~EllenMap() {
    attach();
    delete map;
  }
  void put(Slice key, uint64_t value) {
    attach();
    // The tree leaves it to its users that a value is read while it is replaced.
    map->update(big_endian(key), [value](bool, Ellen::value_type& pair) {
      __atomic_store_n(&pair.second, value, __ATOMIC_RELEASE);
    });
  }
  bool insert_if_absent(Slice key, uint64_t value, uint64_t& found) {
    attach();
    auto present = false;
    map->update(big_endian(key), [&](bool is_new, Ellen::value_type& pair) {
      present = !is_new;
      if (is_new) {
        __atomic_store_n(&pair.second, value, __ATOMIC_RELEASE);
      } else {
        found = __atomic_load_n(&pair.second, __ATOMIC_ACQUIRE);
      }
    });
    return present;
  }
  bool get(Slice key, uint64_t& value) {
    attach();
    return map->find(big_endian(key), [&value](Ellen::value_type& pair) {
      value = __atomic_load_n(&pair.second, __ATOMIC_ACQUIRE);
    });
  }
  bool remove(Slice key) {
    attach();
    return map->erase(big_endian(key));
  }
  template <class Visit>
  void scan(Slice, size_t, Visit) {}
};

}  // namespace

extern "C" const PeerTable* peer_cds_bronson() { return Loops<BronsonMap>::table(); }
extern "C" const PeerTable* peer_cds_ellen() { return Loops<EllenMap>::table(); }
extern "C" const char* peer_cds_version() { return CDS_VERSION_STRING; }
