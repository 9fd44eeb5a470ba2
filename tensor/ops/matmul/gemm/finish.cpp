#include <etna/tensor/ops/matmul/gemm/finish.h>

#include <algorithm>

#include <etna/shaders/shaders.h>

namespace etna::product {
namespace {

struct ReducePush {
  vulkan::Word64 partial;
  Finish finish;
  std::uint32_t count, n, splits;
};
static_assert(sizeof(ReducePush) == 76);

// The flags of shaders/lib/finish.glsl.
constexpr std::uint32_t kBias = 1, kScale = 2, kScaleBy = 4, kPre = 8, kSlope = 16, kResidual = 32, kActivation = 64;

const Rows& beside_of(const Problem& p) { return p.pre.address != 0 ? p.pre : p.derivative_at; }

}  // namespace

std::int64_t width(std::uint64_t address, DType dtype, std::initializer_list<std::int64_t> strides,
                   std::int64_t widest) {
  for (std::int64_t w = widest; w > 1; w /= 2) {
    bool fits = address % (static_cast<std::uint64_t>(w) * item_size(dtype)) == 0;
    for (std::int64_t s : strides) fits = fits && s % w == 0;
    if (fits) return w;
  }
  return 1;
}

Finish::Finish(const Problem& p)
    : y(p.y.address),
      bias(p.bias),
      beside(beside_of(p).address),
      residual(p.residual.address),
      scale_by(p.scale_by),
      ldy(vulkan::word(p.y.leading)),
      ld_beside(vulkan::word(beside_of(p).leading)),
      ld_residual(vulkan::word(p.residual.leading)),
      scale(p.scale) {}

FinishKinds::FinishKinds() : y(vulkan::word(f32)), bias(y), beside(y), residual(y) {}

FinishKinds::FinishKinds(const Problem& p)
    : flags((p.bias != 0 ? kBias : 0) | (p.scale != 1 ? kScale : 0) | (p.scale_by != 0 ? kScaleBy : 0) |
            (p.pre.address != 0 ? kPre : 0) | (p.derivative_at.address != 0 ? kSlope : 0) |
            (p.residual.address != 0 ? kResidual : 0) | kActivation * static_cast<std::uint32_t>(p.activation)),
      y(vulkan::word(p.y.dtype)),
      bias(vulkan::word(p.bias_dtype)),
      beside(vulkan::word(beside_of(p).dtype)),
      residual(vulkan::word(p.residual.dtype)),
      width(4) {
  for (const Rows& r : {p.y, beside_of(p), p.residual}) {
    if (r.address != 0) width = std::min(width, product::width(r.address, r.dtype, {r.leading}));
  }
  if (p.bias != 0) width = std::min(width, product::width(p.bias, p.bias_dtype, {}));
}

Finish partial_sums(const Tensor& partial, std::int64_t n) {
  Finish finish;
  finish.y = partial.address();
  finish.ldy = vulkan::word(n);
  return finish;
}

void reduce(const OpCall& call, const Problem& p, const Tensor& partial, std::int64_t splits) {
  std::int64_t results = p.m * p.n * p.matrices();
  FinishKinds kinds(p);
  kinds.width = whole(kinds.width, p.n);  // results are counted on from row to row
  ReducePush push{partial.address(), Finish(p), vulkan::word(results), vulkan::word(p.n), vulkan::word(splits)};
  vulkan::launch(shaders::gemm_reduce, call,
                 {vulkan::word(kinds.width), kinds.flags, kinds.y, kinds.bias, kinds.beside, kinds.residual}, push,
                 vulkan::grid((results / kinds.width + 255) / 256),
                 {&partial, p.reads[2], p.reads[3], p.reads[4], p.reads[5]}, {p.writes[0], p.writes[1]});
}

}  // namespace etna::product
