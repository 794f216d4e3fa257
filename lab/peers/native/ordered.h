// Maps with the interface of std::map, over keys of 4 or 8 bytes as integers and over byte keys as
// strings (which hold up to 15 bytes in place). Lookups build no string.
#pragma once

#include <string>
#include <string_view>

#include "peer.h"

template <template <class, class> class Map, class Int = uint64_t>
struct Words {
  Map<Int, uint64_t> map;

  void put(Slice key, uint64_t value) { map.insert_or_assign(integer_of<Int>(key), value); }
  bool get(Slice key, uint64_t& value) {
    auto found = map.find(integer_of<Int>(key));
    if (found == map.end()) return false;
    value = found->second;
    return true;
  }
  bool remove(Slice key) { return map.erase(integer_of<Int>(key)) != 0; }
  template <class Visit>
  void scan(Slice from, size_t count, Visit visit) {
    auto at = map.lower_bound(integer_of<Int>(from));
    for (; count > 0 && at != map.end(); --count, ++at) {
      Int bytes = swapped(at->first);
      visit({reinterpret_cast<const uint8_t*>(&bytes), sizeof bytes}, at->second);
    }
  }
};

// Sets with the interface of std::set, over keys of 4 or 8 bytes as integers: value_of a key that is
// there stands for its value.
template <template <class> class Set, class Int = uint64_t>
struct Members {
  Set<Int> set;

  void put(Slice key, uint64_t) { set.insert(integer_of<Int>(key)); }
  bool get(Slice key, uint64_t& value) {
    if (set.find(integer_of<Int>(key)) == set.end()) return false;
    value = value_of(key);
    return true;
  }
  bool remove(Slice key) { return set.erase(integer_of<Int>(key)) != 0; }
  template <class Visit>
  void scan(Slice from, size_t count, Visit visit) {
    auto at = set.lower_bound(integer_of<Int>(from));
    for (; count > 0 && at != set.end(); --count, ++at) {
      Int bytes = swapped(*at);
      Slice key = {reinterpret_cast<const uint8_t*>(&bytes), sizeof bytes};
      visit(key, value_of(key));
    }
  }
};

template <template <class, class> class Map>
struct Strings {
  Map<std::string, uint64_t> map;

  static std::string_view view(Slice key) {
    return {reinterpret_cast<const char*>(key.data), key.size};
  }
  void put(Slice key, uint64_t value) {
    auto at = map.lower_bound(view(key));
    if (at != map.end() && at->first == view(key)) {
      at->second = value;
    } else {
      map.emplace_hint(at, std::string(view(key)), value);
    }
  }
  bool get(Slice key, uint64_t& value) {
    auto found = map.find(view(key));
    if (found == map.end()) return false;
    value = found->second;
    return true;
  }
  bool remove(Slice key) {
    auto found = map.find(view(key));
    if (found == map.end()) return false;
    map.erase(found);
    return true;
  }
  template <class Visit>
  void scan(Slice from, size_t count, Visit visit) {
    auto at = map.lower_bound(view(from));
    for (; count > 0 && at != map.end(); --count, ++at) {
      visit({reinterpret_cast<const uint8_t*>(at->first.data()), at->first.size()}, at->second);
    }
  }
};
