// Bitonic sort (Batcher 1968) of pairs of a key and a position in shared memory. Positions are distinct, so all pairs
// are, and the result is that of a stable sort.
//
// Bound by comparisons and shared memory. So a thread loads eight elements into registers and does up to three of the
// network's steps there. Addresses are swizzled by exclusive or, so that the neighbours that a subgroup reads at once
// lie in different banks at every distance, and elements at distances that are powers of two are found by one more.
// Lost: sixteen elements and four steps, whose registers leave room for half as many threads: a third longer.
//
// Before the include, define THREADS, the size of the workgroup, and PAIRS, a multiple of 32.
// WIDE_KEYS: keys have two u32s, `sorted_highs` holds the upper one. Needs GL_EXT_control_flow_attributes.
#ifndef ETNA_BITONIC_GLSL
#define ETNA_BITONIC_GLSL

shared uint sorted_keys[PAIRS];
shared uint sorted_places[PAIRS];
#ifdef WIDE_KEYS
shared uint sorted_highs[PAIRS];
#endif

// Bits 5 to 7 of a position change bits 2 to 4, and bits 6 and 7 the first two.
// slot_of(a ^ b) = slot_of(a) ^ slot_of(b).
uint slot_of(uint i) { return i ^ (i >> 3 & 28u) ^ (i >> 6 & 3u); }

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
    uint slot = slot_of(8 * g);
    [[unroll]] for (uint m = 0; m < 8; ++m) p[m] = pair_in(slot ^ m);
    ETNA_EXCHANGE(0, 1, false) ETNA_EXCHANGE(2, 3, true) ETNA_EXCHANGE(4, 5, false) ETNA_EXCHANGE(6, 7, true)
    ETNA_EXCHANGE(0, 2, false) ETNA_EXCHANGE(1, 3, false) ETNA_EXCHANGE(4, 6, true) ETNA_EXCHANGE(5, 7, true)
    ETNA_EXCHANGE(0, 1, false) ETNA_EXCHANGE(2, 3, false) ETNA_EXCHANGE(4, 5, true) ETNA_EXCHANGE(6, 7, true)
    bool down = (8 * g & (length - 1) & 8) != 0;
    ETNA_EXCHANGE_EIGHT(3, down)
    [[unroll]] for (uint m = 0; m < 8; ++m) put_pair_in(slot ^ m, p[m]);
  }
  barrier();
  uint steps = 4;
  for (uint merged = 16; merged <= length; merged *= 2, ++steps) {
    uint left = steps, levels = (steps - 1) % 3 + 1;
    while (left > 0) {
      // The eight elements that a thread takes are 2^between apart: neighbours for the last steps of a merge.
      uint between = left - 3;
      uint one = slot_of(1u << between), two = slot_of(2u << between), four = slot_of(4u << between);
      for (uint g = gl_LocalInvocationID.x; g < count / 8; g += THREADS) {
        uint base = (g >> between << between + 3) | (g & (1u << between) - 1), slot = slot_of(base);
#define ETNA_SLOT(m) \
  (slot ^ ((m & 1u) != 0 ? one : 0u) ^ ((m & 2u) != 0 ? two : 0u) ^ ((m & 4u) != 0 ? four : 0u))
        [[unroll]] for (uint m = 0; m < 8; ++m) p[m] = pair_in(ETNA_SLOT(m));
        bool down = (base & (length - 1) & merged) != 0;
        ETNA_EXCHANGE_EIGHT(levels, down)
        [[unroll]] for (uint m = 0; m < 8; ++m) put_pair_in(ETNA_SLOT(m), p[m]);
      }
      barrier();
      left -= levels;
      levels = 3;
    }
  }
}

#endif
