// Which keys a query attends to by its triangle, its window and its document, and the soft cap of scores. The includer
// declares the constants WINDOW (0: none) and SOFTCAP (the bits of a float, 0: none), MASK_DTYPE and `causal`. All of
// this costs nothing where the constants say that there is none.
#ifndef ETNA_ATTENTION_LIMITS_GLSL
#define ETNA_ATTENTION_LIMITS_GLSL

#include "math.glsl"

// As MASK_DTYPE: instead of a mask there are the bounds of documents, i32 [B, T, 2].
const uint DOCUMENTS = 98;
// Likewise, behind kernels of sm90/: no mask, and its address is that of two words.
const uint AFTER_PARTS = 97;
#define HAS_MASK (MASK_DTYPE < AFTER_PARTS)
#define LIMITED (WINDOW > 0 || MASK_DTYPE == DOCUMENTS)

// The columns of `seen`, x ... y - 1, that a position's document leaves. Bounds that are negative hide all, or nothing.
uvec2 within_document(uvec2 seen, uvec2 documents, uint b, uint position, uint positions) {
  if (MASK_DTYPE != DOCUMENTS || position >= positions) return seen;
  uvec2 document = BufferWords(documents).v[b * positions + position];
  return uvec2(max(seen.x, document.x), min(seen.y, document.y));
}

// Keys x ... y - 1 that a query attends to, of `queries` and `keys`. Both do not decrease from query to query.
uvec2 keys_of_query(uvec2 documents, uint b, uint query, uint queries, uint keys) {
  uint begin = WINDOW > 0 && query >= WINDOW ? query + 1 - WINDOW : 0;
  return within_document(uvec2(begin, causal ? min(keys, query + 1) : keys), documents, b, query, queries);
}

// Queries x ... y - 1 that attend to a key.
uvec2 queries_of_key(uvec2 documents, uint b, uint key, uint queries) {
  return within_document(uvec2(causal ? key : 0, WINDOW > 0 ? min(queries, key + WINDOW) : queries), documents, b, key,
                         queries);
}

bool within(uvec2 seen, uint column) { return column >= seen.x && column < seen.y; }

float capped(float score) {
  if (SOFTCAP == 0) return score;
  float cap = uintBitsToFloat(SOFTCAP);
  return cap * m_tanh(score / cap);
}
// The derivative of capped(), from its result; 0 where that is -inf, a key that is hidden.
float cap_derivative(float result) {
  float t = max(result / uintBitsToFloat(SOFTCAP), -1.0);
  return 1.0 - t * t;
}

#endif
