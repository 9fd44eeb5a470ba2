#include <conformance/samples.h>
#include <etna/tensor/ops.h>

namespace etna::conformance {
namespace {

Sample embedding_bag_sample(const char* name, BagMode mode, std::int64_t bags = 2) {
  return Sample("embedding_bag", name).in({5, 3}).index({bags, 4}, 0, 5).composed().calls([=](const TensorList& in) {
    return embedding_bag(in[0], in[1], {}, {.mode = mode, .padding_idx = -1});
  });
}

}  // namespace

std::vector<Sample> samples_in_embedding_bag() {
  return {embedding_bag_sample("mean", BagMode::mean),
          embedding_bag_sample("no bags", BagMode::sum, 0).gradients(Gradients::first),
          embedding_bag_sample("max", BagMode::max).gradients(Gradients::compared),
          Sample("embedding_bag", "offsets and factors")
              .in({5, 3})
              .index({7}, 0, 5)
              .values({3}, {0, 2, 2})
              .as(i64)
              .dense()
              .constant()
              .in({7})
              .composed()
              .calls([](const TensorList& in) {
                return embedding_bag(in[0], in[1], in[2], {.mode = BagMode::sum}, in[3]);
              })};
}

}  // namespace etna::conformance
