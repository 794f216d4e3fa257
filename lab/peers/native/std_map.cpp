// std::map and std::set of the machine's C++ library: red-black trees in libstdc++ and libc++.
#include <map>
#include <set>

#include "ordered.h"

template <class K, class V>
using Ordered = std::map<K, V, std::less<>>;

template <class K>
using OrderedSet = std::set<K, std::less<>>;

extern "C" const PeerTable* peer_std_map_halves() { return Loops<Words<Ordered, uint32_t>>::table(); }
extern "C" const PeerTable* peer_std_map_words() { return Loops<Words<Ordered>>::table(); }
extern "C" const PeerTable* peer_std_map() { return Loops<Strings<Ordered>>::table(); }
extern "C" const PeerTable* peer_std_set_halves() { return Loops<Members<OrderedSet, uint32_t>>::table(); }
extern "C" const PeerTable* peer_std_set_words() { return Loops<Members<OrderedSet>>::table(); }
extern "C" const char* peer_std_version() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}
