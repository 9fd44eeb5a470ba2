// Sums over the threads of a workgroup, in the order of thread_index().
#ifndef ETNA_PREFIX_GLSL
#define ETNA_PREFIX_GLSL

#ifdef ETNA_WEBGPU
// Without subgroups, groups of 32 neighbouring threads take their place.
#define SUBGROUP_INDEX (gl_LocalInvocationID.x / 32)
#define SUBGROUP_LANE (gl_LocalInvocationID.x % 32)

uint thread_index() { return gl_LocalInvocationID.x; }

shared uint sums_before[256];

uint sum_before(uint value, out uint all) {
  uint t = gl_LocalInvocationID.x;
  sums_before[t] = value;
  barrier();
  for (uint d = 1; d < gl_WorkGroupSize.x; d *= 2) {
    uint left = t >= d ? sums_before[t - d] : 0u;
    barrier();
    sums_before[t] += left;
    barrier();
  }
  uint before = sums_before[t] - value;
  all = sums_before[gl_WorkGroupSize.x - 1];
  barrier();
  return before;
}

#else
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

#define SUBGROUP_INDEX gl_SubgroupID
#define SUBGROUP_LANE gl_SubgroupInvocationID

// The thread's index in subgroup order: neighbouring lanes have neighbouring indices.
uint thread_index() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }

shared uint subgroup_sums[64];  // 256 threads have at most this many subgroups, of 4 lanes

// The sum of the values of the threads before this one; `all` becomes the sum of all. Ends with a barrier.
uint sum_before(uint value, out uint all) {
  uint before = subgroupExclusiveAdd(value);
  if (gl_SubgroupInvocationID == gl_SubgroupSize - 1) subgroup_sums[gl_SubgroupID] = before + value;
  barrier();
  all = 0;
  for (uint s = 0; s < gl_NumSubgroups; ++s) {
    uint sum = subgroup_sums[s];
    if (s < gl_SubgroupID) before += sum;
    all += sum;
  }
  barrier();
  return before;
}

#endif
#endif
