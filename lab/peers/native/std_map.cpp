// std::map of the machine's C++ library: a red-black tree in libstdc++ and libc++.
#include <map>

#include "ordered.h"

template <class K, class V>
using Ordered = std::map<K, V, std::less<>>;

extern "C" const PeerTable* peer_std_map_halves() { return Loops<Words<Ordered, uint32_t>>::table(); }
extern "C" const PeerTable* peer_std_map_words() { return Loops<Words<Ordered>>::table(); }
extern "C" const PeerTable* peer_std_map() { return Loops<Strings<Ordered>>::table(); }
extern "C" const char* peer_std_version() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}
