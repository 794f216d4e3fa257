// What a C or C++ map offers the lab: single operations, and the loops that are timed.
//
// The loops run here, so that a peer pays one call from Rust per run and its code is inlined
// into the loop as in its users' programs. `src/native/table.rs` says the same in Rust.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" {

// Bytes found or pairs visited, and the wrapping sum of the values seen.
struct PeerTally {
  uint64_t hits;
  uint64_t sum;
};

// Keys back to back: key i ends at ends[i], where the next begins; the first begins at `first`.
struct PeerKeys {
  const uint8_t* bytes;
  uint64_t first;
  const uint64_t* ends;
  size_t count;
};

typedef void (*PeerVisit)(void* context, const uint8_t* key, size_t bytes, uint64_t value);

struct PeerTable {
  void* (*create)();
  void (*destroy)(void* map);
  void (*put)(void* map, const uint8_t* key, size_t bytes, uint64_t value);
  bool (*get)(void* map, const uint8_t* key, size_t bytes, uint64_t* value);
  bool (*remove)(void* map, const uint8_t* key, size_t bytes);
  void (*scan)(void* map, const uint8_t* from, size_t bytes, size_t count, PeerVisit visit,
               void* context);
  void (*put_run)(void* map, const PeerKeys* keys, uint64_t add);
  PeerTally (*get_run)(void* map, const PeerKeys* keys);
  PeerTally (*dependent_run)(void* map, const PeerKeys* keys);
  PeerTally (*scan_run)(void* map, const PeerKeys* keys, size_t count);
  uint64_t (*remove_run)(void* map, const PeerKeys* keys);
  PeerTally (*mixed_run)(void* map, const PeerKeys* keys, const uint32_t* steps);
};
}

struct Slice {
  const uint8_t* data;
  size_t size;
};

inline uint64_t little_endian(const uint8_t* bytes, size_t count) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

inline uint32_t swapped(uint32_t word) { return __builtin_bswap32(word); }
inline uint64_t swapped(uint64_t word) { return __builtin_bswap64(word); }

// A key of 4 or 8 bytes as the integer whose order is that of its bytes.
template <class Int>
Int integer_of(Slice key) {
  Int word;
  std::memcpy(&word, key.data, sizeof word);
  return swapped(word);
}
inline uint64_t big_endian(Slice key) { return integer_of<uint64_t>(key); }

// hedgerow_lab_contender::value_of, for a little-endian machine.
inline uint64_t value_of(Slice key) {
  uint64_t head, tail = 0;
  if (key.size >= 8) {
    head = little_endian(key.data, 8);
    tail = little_endian(key.data + key.size - 8, 8);
  } else {
    head = little_endian(key.data, key.size);
  }
  return (head ^ (tail << 29 | tail >> 35) ^ key.size) * 0x9E3779B97F4A7C15u;
}

// Tells the compiler that somebody looks at what lies there.
inline void touch(const void* at) { asm volatile("" : : "g"(at) : "memory"); }

inline Slice key_at(const PeerKeys* keys, size_t index) {
  uint64_t start = index == 0 ? keys->first : keys->ends[index - 1];
  return {keys->bytes + start, size_t(keys->ends[index] - start)};
}

// The table of a map `M`, which has put, get, remove and scan(from, count, visit(slice, value)), and
// maybe insert_if_absent(key, value, found), which says whether it found a value.
template <class M>
struct Loops {
  static void* create() { return new M; }
  static void destroy(void* map) { delete static_cast<M*>(map); }
  static void put(void* map, const uint8_t* key, size_t bytes, uint64_t value) {
    static_cast<M*>(map)->put({key, bytes}, value);
  }
  static bool get(void* map, const uint8_t* key, size_t bytes, uint64_t* value) {
    return static_cast<M*>(map)->get({key, bytes}, *value);
  }
  static bool remove(void* map, const uint8_t* key, size_t bytes) {
    return static_cast<M*>(map)->remove({key, bytes});
  }
  static void scan(void* map, const uint8_t* from, size_t bytes, size_t count, PeerVisit visit,
                   void* context) {
    static_cast<M*>(map)->scan({from, bytes}, count, [&](Slice key, uint64_t value) {
      visit(context, key.data, key.size, value);
    });
  }
  static void put_run(void* map, const PeerKeys* keys, uint64_t add) {
    M& m = *static_cast<M*>(map);
    for (size_t i = 0; i < keys->count; ++i) {
      Slice key = key_at(keys, i);
      m.put(key, value_of(key) + add);
    }
  }
  static PeerTally get_run(void* map, const PeerKeys* keys) {
    M& m = *static_cast<M*>(map);
    PeerTally tally = {0, 0};
    for (size_t i = 0; i < keys->count; ++i) {
      uint64_t value;
      if (m.get(key_at(keys, i), value)) {
        tally.hits += 1;
        tally.sum += value;
      }
    }
    return tally;
  }
  static PeerTally dependent_run(void* map, const PeerKeys* keys) {
    M& m = *static_cast<M*>(map);
    volatile uint64_t unknown = 0;
    uint64_t zero = unknown, last = 0;
    PeerTally tally = {0, 0};
    for (size_t i = 0; i < keys->count; ++i) {
      uint64_t value = 0;
      if (m.get(key_at(keys, i + (last & zero)), value)) {
        tally.hits += 1;
        tally.sum += value;
      }
      last = value;
    }
    return tally;
  }
  static PeerTally scan_run(void* map, const PeerKeys* keys, size_t count) {
    M& m = *static_cast<M*>(map);
    PeerTally tally = {0, 0};
    for (size_t i = 0; i < keys->count; ++i) {
      m.scan(key_at(keys, i), count, [&](Slice key, uint64_t value) {
        touch(key.data);
        tally.hits += 1;
        tally.sum += value;
      });
    }
    return tally;
  }
  static uint64_t remove_run(void* map, const PeerKeys* keys) {
    M& m = *static_cast<M*>(map);
    uint64_t removed = 0;
    for (size_t i = 0; i < keys->count; ++i) removed += m.remove(key_at(keys, i));
    return removed;
  }
  // hedgerow_lab_contender::take_steps: a kind in the low 3 bits, above it a scan's length.
  static PeerTally mixed_run(void* map, const PeerKeys* keys, const uint32_t* steps) {
    M& m = *static_cast<M*>(map);
    PeerTally tally = {0, 0};
    auto look_up = [&](Slice key) {
      uint64_t value;
      if (!m.get(key, value)) return false;
      tally.hits += 1;
      tally.sum += value;
      return true;
    };
    uint64_t found = 0;
    for (size_t i = 0; i < keys->count; ++i) {
      Slice key = key_at(keys, i);
      switch (steps[i] & 7) {
        case 0:  // read
          look_up(key);
          break;
        case 1:  // update
        case 2:  // insert
          m.put(key, value_of(key) + 1);
          break;
        case 3:  // remove
          tally.hits += m.remove(key);
          break;
        case 4:  // scan
          m.scan(key, steps[i] >> 3, [&](Slice found, uint64_t value) {
            touch(found.data);
            tally.hits += 1;
            tally.sum += value;
          });
          break;
        case 5:  // read, modify, write
          look_up(key);
          m.put(key, value_of(key) + 1);
          break;
        case 6:  // read, insert
          if (!look_up(key)) m.put(key, value_of(key) + 1);
          break;
        default:  // insert if absent
          if (insert_if_absent(m, key, value_of(key) + 1, found)) {
            tally.hits += 1;
            tally.sum += found;
          }
      }
    }
    return tally;
  }
  // By the map's own operation, if it has one.
  template <class Any>
  static auto insert_if_absent(Any& m, Slice key, uint64_t value, uint64_t& found)
      -> decltype(m.insert_if_absent(key, value, found)) {
    return m.insert_if_absent(key, value, found);
  }
  static bool insert_if_absent(M& m, Slice key, uint64_t value, uint64_t& found, ...) {
    if (m.get(key, found)) return true;
    m.put(key, value);
    return false;
  }
  static const PeerTable* table() {
    static const PeerTable table = {create,  destroy, put,           get,      remove,     scan,
                                    put_run, get_run, dependent_run, scan_run, remove_run, mixed_run};
    return &table;
  }
};
