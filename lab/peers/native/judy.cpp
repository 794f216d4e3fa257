// Judy: 256-ary tries with many node forms. JudyL over integers, JudySL over strings that end
// in a zero byte.
#include <Judy.h>

#include <vector>

#include "peer.h"

namespace {

template <class Int>
struct JudyIntegers {
  Pvoid_t array = nullptr;

  ~JudyIntegers() { JudyLFreeArray(&array, PJE0); }
  void put(Slice key, uint64_t value) {
    *reinterpret_cast<uint64_t*>(JudyLIns(&array, integer_of<Int>(key), PJE0)) = value;
  }
  bool get(Slice key, uint64_t& value) {
    PPvoid_t found = JudyLGet(array, integer_of<Int>(key), PJE0);
    if (found == nullptr) return false;
    value = *reinterpret_cast<uint64_t*>(found);
    return true;
  }
  bool remove(Slice key) { return JudyLDel(&array, integer_of<Int>(key), PJE0) == 1; }
  template <class Visit>
  void scan(Slice from, size_t count, Visit visit) {
    Word_t index = integer_of<Int>(from);
    PPvoid_t found = count == 0 ? nullptr : JudyLFirst(array, &index, PJE0);
    while (found != nullptr) {
      Int bytes = swapped(Int(index));
      visit({reinterpret_cast<const uint8_t*>(&bytes), sizeof bytes}, *reinterpret_cast<uint64_t*>(found));
      if (--count == 0) return;
      found = JudyLNext(array, &index, PJE0);
    }
  }
};

struct JudyStrings {
  Pvoid_t array = nullptr;
  // The key at hand, with its zero; scans need room for the longest key of all.
  std::vector<uint8_t> key = std::vector<uint8_t>(16);

  ~JudyStrings() { JudySLFreeArray(&array, PJE0); }
  const uint8_t* terminated(Slice slice) {
    if (key.size() <= slice.size) key.resize(2 * slice.size + 1);
    std::memcpy(key.data(), slice.data, slice.size);
    key[slice.size] = 0;
    return key.data();
  }
  void put(Slice slice, uint64_t value) {
    *reinterpret_cast<uint64_t*>(JudySLIns(&array, terminated(slice), PJE0)) = value;
  }
  bool get(Slice slice, uint64_t& value) {
    PPvoid_t found = JudySLGet(array, terminated(slice), PJE0);
    if (found == nullptr) return false;
    value = *reinterpret_cast<uint64_t*>(found);
    return true;
  }
  bool remove(Slice slice) { return JudySLDel(&array, terminated(slice), PJE0) == 1; }
  template <class Visit>
  void scan(Slice from, size_t count, Visit visit) {
    terminated(from);
    PPvoid_t found = count == 0 ? nullptr : JudySLFirst(array, key.data(), PJE0);
    while (found != nullptr) {
      size_t bytes = std::strlen(reinterpret_cast<const char*>(key.data()));
      visit({key.data(), bytes}, *reinterpret_cast<uint64_t*>(found));
      if (--count == 0) return;
      found = JudySLNext(array, key.data(), PJE0);
    }
  }
};

}  // namespace

extern "C" const PeerTable* peer_judy_halves() { return Loops<JudyIntegers<uint32_t>>::table(); }
extern "C" const PeerTable* peer_judy_words() { return Loops<JudyIntegers<uint64_t>>::table(); }
extern "C" const PeerTable* peer_judy() { return Loops<JudyStrings>::table(); }
