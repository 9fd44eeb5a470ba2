// Sums over the threads of a workgroup of THREADS, in the order of the threads. The includer defines THREADS, which is
// a power of two.
#ifndef ETNA_PREFIX_GLSL
#define ETNA_PREFIX_GLSL

shared uint prefix_sums[2 * THREADS];

// The sum of the values of the threads before this one; `all` becomes the sum of all. Ends with a barrier.
uint sum_before(uint value, out uint all) {
  uint t = gl_LocalInvocationID.x, from = 0, sum = value;
  prefix_sums[t] = value;
  barrier();
  for (uint apart = 1; apart < THREADS; apart *= 2) {
    if (t >= apart) sum += prefix_sums[from + t - apart];
    from = THREADS - from;
    prefix_sums[from + t] = sum;
    barrier();
  }
  all = prefix_sums[from + THREADS - 1];
  barrier();
  return sum - value;
}

#endif
