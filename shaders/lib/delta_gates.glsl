// The gates of a delta net, of what its projections give.
#ifndef ETNA_DELTA_GATES_GLSL
#define ETNA_DELTA_GATES_GLSL

// log(1 + exp(x)); the last factor is what 1 + e loses of e.
float softplus(float x) {
  float e = exp(-abs(x)), sum = 1.0 + e;
  return max(x, 0.0) + (sum == 1.0 ? e : log(sum) * (e / (sum - 1.0)));
}

// The decay as a logarithm, and beta.
vec2 delta_gates(float decay, float beta, float step_bias, float log_decay) {
  return vec2(softplus(decay + step_bias) * -exp(log_decay), 1.0 / (1.0 + exp(-beta)));
}

#endif
