// Bitonic sort (Batcher 1968) of pairs of a key and a position in shared memory. Positions are distinct, so all pairs
// are, and the result is that of a stable sort.
//
// Bound by shared memory. So a thread loads eight elements into registers and does up to three of the network's steps
// there. Addresses are swizzled: eight neighbours that a thread reads would otherwise lie in few banks.
//
// Before the include, define THREADS, the size of the workgroup, and PAIRS, a multiple of 32.
// WIDE_KEYS: keys have two u32s, `sorted_highs` holds the upper one.
#ifndef ETNA_BITONIC_GLSL
#define ETNA_BITONIC_GLSL

shared uint sorted_keys[PAIRS];
shared uint sorted_places[PAIRS];
#ifdef WIDE_KEYS
shared uint sorted_highs[PAIRS];
#endif

uint slot_of(uint i) {
  uint row = i >> 5;
  return i ^ ((row ^ (row << 2)) & 31u);
}

struct Pair {
  uint key, place;
#ifdef WIDE_KEYS
  uint high;
#endif
};

Pair pair_at(uint i) {
  uint slot = slot_of(i);
#ifdef WIDE_KEYS
  return Pair(sorted_keys[slot], sorted_places[slot], sorted_highs[slot]);
#else
  return Pair(sorted_keys[slot], sorted_places[slot]);
#endif
}
void put_pair(uint i, Pair p) {
  uint slot = slot_of(i);
  sorted_keys[slot] = p.key;
  sorted_places[slot] = p.place;
#ifdef WIDE_KEYS
  sorted_highs[slot] = p.high;
#endif
}

bool is_behind(Pair a, Pair b) {
#ifdef WIDE_KEYS
  if (a.high != b.high) return a.high > b.high;
#endif
  return a.key > b.key || (a.key == b.key && a.place > b.place);
}

#define ETNA_EXCHANGE(a, b, down)        \
  if (is_behind(p[a], p[b]) != (down)) { \
    Pair other = p[a];                   \
    p[a] = p[b];                         \
    p[b] = other;                        \
  }

// The network's steps at distances 4, 2 and 1 within eight elements; the first `levels` of them.
#define ETNA_EXCHANGE_EIGHT(levels, down)               \
  ETNA_EXCHANGE(0, 4, down) ETNA_EXCHANGE(1, 5, down)   \
  ETNA_EXCHANGE(2, 6, down) ETNA_EXCHANGE(3, 7, down)   \
  if ((levels) > 1) {                                   \
    ETNA_EXCHANGE(0, 2, down) ETNA_EXCHANGE(1, 3, down) \
    ETNA_EXCHANGE(4, 6, down) ETNA_EXCHANGE(5, 7, down) \
  }                                                     \
  if ((levels) > 2) {                                   \
    ETNA_EXCHANGE(0, 1, down) ETNA_EXCHANGE(2, 3, down) \
    ETNA_EXCHANGE(4, 5, down) ETNA_EXCHANGE(6, 7, down) \
  }

// Sorts each run of `length` pairs among the first `count`. `length` is a power of two of at least 8, and divides
// `count`. All threads of the workgroup must call it after a barrier; it ends with a barrier.
void sort_pairs(uint length, uint count) {
  Pair p[8];
  for (uint g = gl_LocalInvocationID.x; g < count / 8; g += THREADS) {
    for (uint m = 0; m < 8; ++m) p[m] = pair_at(8 * g + m);
    ETNA_EXCHANGE(0, 1, false) ETNA_EXCHANGE(2, 3, true) ETNA_EXCHANGE(4, 5, false) ETNA_EXCHANGE(6, 7, true)
    ETNA_EXCHANGE(0, 2, false) ETNA_EXCHANGE(1, 3, false) ETNA_EXCHANGE(4, 6, true) ETNA_EXCHANGE(5, 7, true)
    ETNA_EXCHANGE(0, 1, false) ETNA_EXCHANGE(2, 3, false) ETNA_EXCHANGE(4, 5, true) ETNA_EXCHANGE(6, 7, true)
    bool down = (8 * g & (length - 1) & 8) != 0;
    ETNA_EXCHANGE_EIGHT(3, down)
    for (uint m = 0; m < 8; ++m) put_pair(8 * g + m, p[m]);
  }
  barrier();
  uint steps = 4;
  for (uint merged = 16; merged <= length; merged *= 2, ++steps) {
    uint distance = merged / 2, left = steps, levels = steps % 3 == 0 ? 3 : steps % 3;
    while (left > 0) {
      uint apart = distance / 4;
      for (uint g = gl_LocalInvocationID.x; g < count / 8; g += THREADS) {
        uint base = g / apart * 8 * apart + g % apart;
        for (uint m = 0; m < 8; ++m) p[m] = pair_at(base + m * apart);
        bool down = (base & (length - 1) & merged) != 0;
        ETNA_EXCHANGE_EIGHT(levels, down)
        for (uint m = 0; m < 8; ++m) put_pair(base + m * apart, p[m]);
      }
      barrier();
      distance >>= levels;
      left -= levels;
      levels = 3;
    }
  }
}

#endif
