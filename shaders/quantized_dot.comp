#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// quantized_linear for up to eight rows of x, as quantized_linear.comp, where the device multiplies bytes: round_rows
// has rounded x to bytes, 32 to a scale. Dot products of four bytes replace the conversion of each code to a float,
// which takes longer than the weights' way from memory.
//
// variant: quantized_dot

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_EXT_spirv_intrinsics : require
#define SUBGROUPS
#include "few_rows.glsl"

// SPV_KHR_integer_dot_product: OpSDot of two u32s that hold four i8 each (format 0).
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int packed_dot(int a, int b, spirv_literal int format);

int dot4(uint a, uint b) { return packed_dot(int(a), int(b), 0); }

const uint OWN = WEIGHTS * ROWS;  // rows of weights in a workgroup

// Quads of a chunk that have one scale and lie in one block of x.
uint quads_together(uint format) {
  switch (format) {
    case Q4_K: case Q5_K: return 2;
    case Q2_K: case Q3_K: case Q6_K: case TQ2_0: case I2_S: return 1;
    default: return 4;
  }
}

// The bytes of x that a chunk's quads meet, and their scales.
struct Rounded {
  uint codes[4];
  float scales[4];
};

Rounded rounded_x(uint format, uint row, uint first) {
  Rounded x;
  uint at = row * p.k + first, distance = quad_distances(format).x;
  if (distance == 4) {
    [[unroll]] for (uint i = 0; i < 4; i += 2) {
      uvec2 two = BufferWords(p.x).v[quad_at(format, at, i) / 8];
      x.codes[i] = two.x, x.codes[i + 1] = two.y;
    }
  } else {
    [[unroll]] for (uint i = 0; i < 4; ++i) x.codes[i] = BufferPair(p.x).v[quad_at(format, at, i) / 4];
  }
  const uint together = quads_together(format);
  [[unroll]] for (uint i = 0; i < 4; i += together) x.scales[i] = BufferF32(p.norm).v[quad_at(format, at, i) / 32];
  return x;
}

// Adds this thread's part of the dot products with the workgroup's rows of a weight, or of two of one format.
void add_products(uint format, uint aligned, uvec2 w, uvec2 second, uint n, uint row_bytes, uint row) {
  BlockRow rows[OWN];
  [[unroll]] for (uint r = 0; r < OWN; ++r)
    rows[r] = block_row(r < ROWS ? w : second, min(row + r % ROWS, n - 1), row_bytes, aligned);
  float tails[2];
  tails[0] = tail_scale(format, address_of(w, n, row_bytes), aligned);
  tails[1] = GATE != 0 ? tail_scale(format, address_of(second, n, row_bytes), aligned) : 0.0;
  const uint together = quads_together(format), offset = code_offset(format);
  uint chunks = p.k / 16;
  for (uint own = gl_LocalInvocationID.x; own < chunks; own += THREADS * CHUNKS) {
    PackedChunk chunk[CHUNKS * OWN];
    [[unroll]] for (uint u = 0; u < CHUNKS; ++u) {
      uint c = min(own + u * THREADS, chunks - 1);
      [[unroll]] for (uint r = 0; r < OWN; ++r) chunk[u * OWN + r] = decode_bytes(format, rows[r], c, tails[r / ROWS]);
    }
    [[unroll]] for (uint u = 0; u < CHUNKS; ++u) {
      uint c = own + u * THREADS;
      if (c >= chunks) continue;
      uint first = chunk_first(format, c);
      [[unroll]] for (uint m = 0; m < X_ROWS; ++m) {
        Rounded x = rounded_x(format, min(m, p.x_rows - 1), first);
        int x_sums[4];
        [[unroll]] for (uint i = 0; i < 4; ++i)
          x_sums[i] = offset != 0 || has_minimum(format) ? dot4(x.codes[i], 0x01010101u) : 0;
        [[unroll]] for (uint r = 0; r < OWN; ++r) {
          PackedChunk k = chunk[u * OWN + r];
          float sum = 0.0;
          [[unroll]] for (uint i = 0; i < 4; i += together) {
            int d = 0, s = 0;
            [[unroll]] for (uint j = i; j < i + together; ++j) {
              d += dot4(k.codes[j], x.codes[j]);
              s += x_sums[j];
            }
            if (offset != 0) d -= int(offset) * s;
            float term = k.scale[i] * float(d);
            if (has_minimum(format)) term -= k.least[i] * float(s);
            sum += x.scales[i] * term;
          }
          sums[r / ROWS * X_ROWS * ROWS + m * ROWS + r % ROWS] += sum;
        }
      }
    }
  }
}

void main() {
  if (has_levels(FORMAT_0) || has_levels(FORMAT_1) || has_levels(FORMAT_2)) fill_level_table();
  Part part;
  if (!find_part(part)) return;
  Addends addends = load_addends(part, gl_LocalInvocationID.x);
  [[unroll]] for (uint v = 0; v < VALUES; ++v) sums[v] = 0.0;
  if (GATE != 0) {
    add_products(FORMAT_0, ALIGNED_0, p.w0, p.w1, p.n0, p.bytes0, part.row);
  } else if (SAME_FORMATS) {
    uvec2 w = part.weight == 0 ? p.w0 : part.weight == 1 ? p.w1 : p.w2;
    add_products(FORMAT_0, ALIGNED_0, w, w, part.n, p.bytes0, part.row);
  } else if (part.weight == 0) {
    add_products(FORMAT_0, ALIGNED_0, p.w0, p.w0, part.n, p.bytes0, part.row);
  } else if (part.weight == 1) {
    add_products(FORMAT_1, ALIGNED_1, p.w1, p.w1, part.n, p.bytes1, part.row);
  } else {
    add_products(FORMAT_2, ALIGNED_2, p.w2, p.w2, part.n, p.bytes2, part.row);
  }
  finish(part, addends);
}
