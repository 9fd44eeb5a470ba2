#version 460
#extension GL_GOOGLE_include_directive : require
// The end of a step under loss scaling: one thread, so that no number has to go to the host. It waits for the
// optimizers' gradient norms; only the next step's loss waits for it.
//
// variant: loss_scale

#include "buffers.glsl"

layout(local_size_x = 1) in;
ETNA_BUFFER(Scalars, float);

layout(push_constant, scalar) uniform Push {
  Scalars state;  // the scale, consecutive steps with finite gradients, whether this step had a non-finite one
  float growth, backoff, interval, least;
} p;

void main() {
  float scale = p.state.v[0], good = p.state.v[1] + 1.0;
  if (p.state.v[2] != 0.0) {
    scale = max(scale * p.backoff, min(scale, p.least)), good = 0.0;
  } else if (good >= p.interval) {
    float grown = scale * p.growth;
    if ((floatBitsToUint(grown) & 0x7f800000u) != 0x7f800000u) scale = grown;
    good = 0.0;
  }
  p.state.v[0] = scale, p.state.v[1] = good, p.state.v[2] = 0.0;
}
