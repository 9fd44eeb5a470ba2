#include <vector>

#include <gtest/gtest.h>

#include <etna/tensor/ops.h>

#include "nn/on_device.h"

// Integer tensors against numbers that their dtype cannot hold.
namespace etna {
namespace {

class LargeNumbers : public OnDevice {};
ETNA_ON_EVERY_DEVICE(LargeNumbers);

TEST_P(LargeNumbers, DoNotWrapAgainstI32) {
  using Values = std::vector<double>;
  const Tensor x = from_vector<std::int32_t>({1, -1, 7}, device());
  EXPECT_EQ((x < 3e9).to_vector<double>(), (Values{1, 1, 1}));
  EXPECT_EQ((x == 4294967297.0).to_vector<double>(), (Values{0, 0, 0}));
  EXPECT_EQ(clamp(x, 0, 3e9).to_vector<double>(), (Values{1, 0, 7}));
  EXPECT_EQ(minimum(x, 3e9).to_vector<double>(), (Values{1, -1, 7}));
  EXPECT_EQ(floor_divide(x, 3e9).to_vector<double>(), (Values{0, -1, 0}));
}

}  // namespace
}  // namespace etna
