// Bitonic sort (Batcher 1968) of pairs of a key and a position in shared memory. Positions are distinct, so all pairs
// are, and the result is that of a stable sort.
//
// Bound by shared memory and comparisons. So a thread loads sixteen elements into registers and does up to four of the
// network's steps there. Addresses are swizzled by exclusive or, so that the neighbours that a subgroup reads at once
// lie in different banks at every distance; elements at distances that are powers of two are found by one more.
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

// Bits 5 to 8 of a position move to bits 1 to 4, and bit 8 to bit 0 as well. slot_of(a ^ b) = slot_of(a) ^ slot_of(b).
uint slot_of(uint i) { return i ^ (i >> 4 & 30u) ^ (i >> 8 & 1u); }

struct Pair {
  uint key, place;
#ifdef WIDE_KEYS
  uint high;
#endif
};

Pair pair_in(uint slot) {
#ifdef WIDE_KEYS
  return Pair(sorted_keys[slot], sorted_places[slot], sorted_highs[slot]);
#else
  return Pair(sorted_keys[slot], sorted_places[slot]);
#endif
}
void put_pair_in(uint slot, Pair p) {
  sorted_keys[slot] = p.key;
  sorted_places[slot] = p.place;
#ifdef WIDE_KEYS
  sorted_highs[slot] = p.high;
#endif
}
Pair pair_at(uint i) { return pair_in(slot_of(i)); }
void put_pair(uint i, Pair p) { put_pair_in(slot_of(i), p); }

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

// One step of the network within sixteen elements, at a distance.
#define ETNA_EXCHANGE_8(down)                               \
  ETNA_EXCHANGE(0, 8, down) ETNA_EXCHANGE(1, 9, down)       \
  ETNA_EXCHANGE(2, 10, down) ETNA_EXCHANGE(3, 11, down)     \
  ETNA_EXCHANGE(4, 12, down) ETNA_EXCHANGE(5, 13, down)     \
  ETNA_EXCHANGE(6, 14, down) ETNA_EXCHANGE(7, 15, down)
// Elements 0 to 7 in one direction, 8 to 15 in another.
#define ETNA_EXCHANGE_4(down, upper)                        \
  ETNA_EXCHANGE(0, 4, down) ETNA_EXCHANGE(1, 5, down)       \
  ETNA_EXCHANGE(2, 6, down) ETNA_EXCHANGE(3, 7, down)       \
  ETNA_EXCHANGE(8, 12, upper) ETNA_EXCHANGE(9, 13, upper)   \
  ETNA_EXCHANGE(10, 14, upper) ETNA_EXCHANGE(11, 15, upper)
// The same of each half of these: of the other direction if TURN.
#define ETNA_EXCHANGE_2(down, upper, turn)                                    \
  ETNA_EXCHANGE(0, 2, down) ETNA_EXCHANGE(1, 3, down)                         \
  ETNA_EXCHANGE(4, 6, (down) != (turn)) ETNA_EXCHANGE(5, 7, (down) != (turn)) \
  ETNA_EXCHANGE(8, 10, upper) ETNA_EXCHANGE(9, 11, upper)                     \
  ETNA_EXCHANGE(12, 14, (upper) != (turn)) ETNA_EXCHANGE(13, 15, (upper) != (turn))
#define ETNA_EXCHANGE_1(down, upper, turn)                                          \
  ETNA_EXCHANGE(0, 1, down) ETNA_EXCHANGE(2, 3, down)                               \
  ETNA_EXCHANGE(4, 5, (down) != (turn)) ETNA_EXCHANGE(6, 7, (down) != (turn))       \
  ETNA_EXCHANGE(8, 9, upper) ETNA_EXCHANGE(10, 11, upper)                           \
  ETNA_EXCHANGE(12, 13, (upper) != (turn)) ETNA_EXCHANGE(14, 15, (upper) != (turn))

// Sorts each run of `length` pairs among the first `count`. `length` is a power of two of at least 8, and divides
// `count`. All threads of the workgroup must call it after a barrier; it ends with a barrier.
void sort_pairs(uint length, uint count) {
  Pair p[16];
  uint groups = (count + 15) / 16;
  for (uint g = gl_LocalInvocationID.x; g < groups; g += THREADS) {
    uint slot = slot_of(16 * g);
    for (uint m = 0; m < 16; ++m) p[m] = pair_in(slot ^ m);
    ETNA_EXCHANGE(0, 1, false) ETNA_EXCHANGE(2, 3, true) ETNA_EXCHANGE(4, 5, false) ETNA_EXCHANGE(6, 7, true)
    ETNA_EXCHANGE(8, 9, false) ETNA_EXCHANGE(10, 11, true) ETNA_EXCHANGE(12, 13, false) ETNA_EXCHANGE(14, 15, true)
    ETNA_EXCHANGE_2(false, false, true)
    ETNA_EXCHANGE_1(false, false, true)
    bool upper = length > 8;  // else these are two runs
    ETNA_EXCHANGE_4(false, upper)
    ETNA_EXCHANGE_2(false, upper, false)
    ETNA_EXCHANGE_1(false, upper, false)
    if (length > 8) {
      bool down = (16 * g & (length - 1) & 16) != 0;
      ETNA_EXCHANGE_8(down)
      ETNA_EXCHANGE_4(down, down)
      ETNA_EXCHANGE_2(down, down, false)
      ETNA_EXCHANGE_1(down, down, false)
    }
    for (uint m = 0; m < 16; ++m) put_pair_in(slot ^ m, p[m]);
  }
  barrier();
  uint steps = 5;
  for (uint merged = 32; merged <= length; merged *= 2, ++steps) {
    uint left = steps, levels = (steps - 1 & 3) + 1;
    while (left > 0) {
      // The sixteen elements that a thread takes are 2^between apart. For the last steps of a merge, neighbours.
      uint between = left - 4;
      uvec4 slots =
          uvec4(slot_of(1u << between), slot_of(2u << between), slot_of(4u << between), slot_of(8u << between));
      for (uint g = gl_LocalInvocationID.x; g < groups; g += THREADS) {
        uint base = (g >> between << between + 4) | (g & (1u << between) - 1), slot = slot_of(base);
#define ETNA_SLOT(m)                                                             \
  (slot ^ ((m & 1u) != 0 ? slots.x : 0u) ^ ((m & 2u) != 0 ? slots.y : 0u) ^      \
   ((m & 4u) != 0 ? slots.z : 0u) ^ ((m & 8u) != 0 ? slots.w : 0u))
        for (uint m = 0; m < 16; ++m) p[m] = pair_in(ETNA_SLOT(m));
        bool down = (base & (length - 1) & merged) != 0;
        ETNA_EXCHANGE_8(down)
        if (levels > 1) {
          ETNA_EXCHANGE_4(down, down)
        }
        if (levels > 2) {
          ETNA_EXCHANGE_2(down, down, false)
        }
        if (levels > 3) {
          ETNA_EXCHANGE_1(down, down, false)
        }
        for (uint m = 0; m < 16; ++m) put_pair_in(ETNA_SLOT(m), p[m]);
      }
      barrier();
      left -= levels;
      levels = 4;
    }
  }
}

#endif
