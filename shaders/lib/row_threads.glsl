// A workgroup of 256 threads as SLOTS rows x THREADS_PER_ROW threads per row. If a row's elements are contiguous in
// memory, the threads of a row are neighbours; if neighbouring rows are (COLUMNS), the slots are.
//
// The threads of a row are reduced through shared memory in two steps of sixteen values per thread: two barriers, the
// same order of additions on every device, no assumption about subgroups. All threads of the workgroup must call a
// reducing function.
//
// The shader specializes constants 0 and 1 with THREADS_PER_ROW and COLUMNS; its own constants start at 2.
#ifndef ETNA_ROW_THREADS_GLSL
#define ETNA_ROW_THREADS_GLSL

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint THREADS_PER_ROW = 256;
layout(constant_id = 1) const uint COLUMNS = 0;
const uint SLOTS = 256 / THREADS_PER_ROW;

uint workgroup_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
uint this_row_thread() {
  return COLUMNS != 0 ? gl_LocalInvocationID.x / SLOTS : gl_LocalInvocationID.x % THREADS_PER_ROW;
}
uint this_slot() { return COLUMNS != 0 ? gl_LocalInvocationID.x % SLOTS : gl_LocalInvocationID.x / THREADS_PER_ROW; }
uint thread_of(uint slot, uint row_thread) {
  return COLUMNS != 0 ? row_thread * SLOTS + slot : slot * THREADS_PER_ROW + row_thread;
}

shared vec2 row_values[256];
shared vec2 row_groups[16];

// Defines T NAME(T v): combine(combine(v of thread 0, v of thread 1), ...), the same in every thread of the row.
// `values` and `groups` are shared arrays of 256 and of 16 T.
#define ETNA_REDUCE_ROW_OF(T, values, groups, name, combine)                                             \
  T name(T v) {                                                                                          \
    if (THREADS_PER_ROW == 1) return v;                                                                  \
    uint row_thread = this_row_thread(), slot = this_slot();                                             \
    values[gl_LocalInvocationID.x] = v;                                                                  \
    barrier();                                                                                           \
    T all;                                                                                               \
    if (THREADS_PER_ROW <= 16) {                                                                         \
      all = values[thread_of(slot, 0)];                                                                  \
      for (uint k = 1; k < THREADS_PER_ROW; ++k) all = combine(all, values[thread_of(slot, k)]);         \
      barrier();                                                                                         \
      return all;                                                                                        \
    }                                                                                                    \
    uint count = THREADS_PER_ROW / 16;                                                                   \
    if (row_thread < count) {                                                                            \
      all = values[thread_of(slot, row_thread)];                                                         \
      for (uint k = 1; k < 16; ++k) all = combine(all, values[thread_of(slot, row_thread + k * count)]); \
      groups[slot * count + row_thread] = all;                                                           \
    }                                                                                                    \
    barrier();                                                                                           \
    all = groups[slot * count];                                                                          \
    for (uint k = 1; k < count; ++k) all = combine(all, groups[slot * count + k]);                       \
    return all;                                                                                          \
  }

// Defines vec2 NAME(vec2 v).
#define ETNA_REDUCE_ROW(name, combine) ETNA_REDUCE_ROW_OF(vec2, row_values, row_groups, name, combine)

#endif
