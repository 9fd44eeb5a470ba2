#include <etna/models/projection.h>

#include <gtest/gtest.h>

#include <etna/models/stored_weights.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna::models {
namespace {

/// Matrices in a block format, on a device.
struct PackedWeights : Weights {
  PackedWeights(std::string_view format, Device device) : format(&quant::format_named(format)), device(device) {}
  Matrix matrix(const std::string&, std::int64_t rows, std::int64_t columns) override {
    return {{}, quantize(randn({rows, columns}), *format).to(device)};
  }
  Tensor vector(const std::string&, std::int64_t size) override { return randn({size}, device); }

  const quant::BlockFormat* format;
  Device device;
};

class ProjectionTogether : public OnDevice {};

TEST_P(ProjectionTogether, MovesFrozenMatricesBehindEachOther) {
  const Device device = GetParam();
  manual_seed(1);
  PackedWeights weights("Q4_K", device);
  Projection a(weights, "a", 256, 16, true), b(weights, "b", 256, 8, false);
  const Tensor x = randn({3, 256}).to(device);
  const std::vector<float> before = cat({a(x), b(x)}, -1).to_vector<float>();
  lay_together({&a, &b});
  EXPECT_EQ(a.packed.storage() == b.packed.storage(), !device.is_cpu());
  if (!device.is_cpu()) {
    EXPECT_EQ(a.packed.offset() + a.packed.numel(), b.packed.offset());
  }
  EXPECT_EQ(cat({a(x), b(x)}, -1).to_vector<float>(), before);
  EXPECT_EQ(a.named_buffers().size(), 1u);
}

TEST_P(ProjectionTogether, LeavesOthersWhereTheyAre) {
  const Device device = GetParam();
  PackedWeights four("Q4_K", device), six("Q6_K", device), tailed("I2_S", device), odd("F16", device);
  Projection a(four, "a", 256, 16, false), b(six, "b", 256, 8, false), c(tailed, "c", 256, 8, false),
      d(tailed, "d", 256, 8, false), e(odd, "e", 7, 3, false), f(odd, "f", 7, 3, false);
  lay_together({&a, &b});
  lay_together({&c, &d});
  lay_together({&e, &f});
  for (const auto& [one, other] : {std::pair{&a, &b}, {&c, &d}, {&e, &f}})
    EXPECT_NE(one->packed.storage(), other->packed.storage());
}

ETNA_ON_EVERY_DEVICE(ProjectionTogether);

}  // namespace
}  // namespace etna::models
