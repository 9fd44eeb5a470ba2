// The partial sums of a split-K gemm: p.splits matrices of p.count elements at p.partial.

// The sum of element i and the Y_WIDTH - 1 behind it. Eight loads are in flight: with one in flight it would wait for
// memory once per split. Each eight are added in a tree: added one by one, 64 sums of positive numbers would have twice
// the rounding error.
vec4 sum_of_splits(uint i) {
  vec4 sum = vec4(0.0);
  for (uint first = 0; first < p.splits; first += 8) {
    vec4 loaded[8];
    [[unroll]] for (uint s = 0; s < 8; ++s) {
      loaded[s] = vec4(0.0);
      if (first + s < p.splits) loaded[s] = load_vector(p.partial, (first + s) * p.count + i, Y_WIDTH, F32, Y_WIDTH);
    }
    [[unroll]] for (uint apart = 1; apart < 8; apart *= 2) {
      [[unroll]] for (uint s = 0; s < 8; s += 2 * apart) loaded[s] += loaded[s + apart];
    }
    sum += loaded[0];
  }
  return sum;
}
