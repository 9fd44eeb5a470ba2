#include <conformance/samples.h>
#include <etna/tensor/ops.h>

// Samples of the views. They compute nothing, so values and gradients must be exact.
namespace etna::conformance {
namespace {

Sample view(const char* op, const char* name) { return std::move(Sample(op, name).and_integers().and_bool()); }

}  // namespace

std::vector<Sample> samples_in_views() {
  auto reshape = [](Shape to) { return [to](const TensorList& in) { return in[0].reshape(to); }; };
  auto permute = [](Dims order) { return [order](const TensorList& in) { return in[0].permute(order); }; };
  auto expand = [](Shape to) { return [to](const TensorList& in) { return in[0].expand(to); }; };
  auto slice = [](std::int64_t dim, std::int64_t begin, std::int64_t end, std::int64_t step) {
    return [=](const TensorList& in) { return in[0].slice(dim, begin, end, step); };
  };
  auto split = [](std::int64_t size, std::int64_t dim) {
    return [=](const TensorList& in) { return in[0].split(size, dim); };
  };
  return {
      view("reshape", "merge and cut").in({4, 6}).calls(reshape({2, 3, 4})),
      view("reshape", "a size left open").in({3, 4, 5}).calls(reshape({-1, 10})),
      view("reshape", "to one element of no dimensions").in({1, 1}).calls(reshape({})),
      view("reshape", "nothing").in({0, 5}).calls(reshape({5, 0, 3})),
      view("reshape", "of a transposed view").in({4, 6}).calls([](const TensorList& in) {
        return in[0].t().reshape({3, 8});
      }),
      view("reshape", "squeeze and unsqueeze").in({3, 1, 5}).calls([](const TensorList& in) {
        return in[0].squeeze(1).unsqueeze(-1);
      }),
      view("reshape", "flatten").in({2, 3, 5}).calls([](const TensorList& in) { return in[0].flatten(1); }),

      view("permute", "three dimensions").in({2, 3, 5}).calls(permute({2, 0, 1})),
      view("permute", "negative dimensions").in({2, 3, 5}).calls(permute({-1, 0, -2})),
      view("permute", "transpose").in({7, 11}).calls([](const TensorList& in) { return in[0].transpose(0, 1); }),
      view("permute", "nothing").in({0, 3}).calls(permute({1, 0})),

      view("expand", "a row").in({1, 5}).calls(expand({4, 5})),
      view("expand", "a column in front of which stands more").in({3, 1}).calls(expand({2, -1, 4})),
      view("expand", "one number").in({}).calls(expand({2, 3})),
      view("expand", "of nothing").in({0, 3}).calls(expand({2, 0, 3})),
      view("expand", "to nothing").in({1, 3}).calls(expand({0, 3})),

      view("slice", "middle").in({5, 6}).calls(slice(1, 1, 4, 1)),
      view("slice", "every third").in({11, 3}).calls(slice(0, 1, 11, 3)).covers({"slice_backward"}),
      view("slice", "from behind").in({7}).calls(slice(0, -4, -1, 1)),
      view("slice", "to nothing").in({4, 3}).calls(slice(0, 2, 2, 1)),
      view("slice", "of nothing").in({0, 3}).calls(slice(1, 0, 2, 1)),
      view("slice", "select").in({4, 3}).calls([](const TensorList& in) { return in[0].select(0, -1); }),

      view("split", "even parts").in({6, 5}).calls(split(2, 0)),
      view("split", "a smaller last part").in({3, 7}).calls(split(3, 1)),
      view("split", "chunks").in({10}).calls([](const TensorList& in) { return in[0].chunk(4); }),
      view("split", "nothing beside").in({4, 0}).calls(split(2, 0)),

      Sample("to", "to the CPU").in({3, 5}).and_integers().and_bool().moves_data().calls([](const TensorList& in) {
        return in[0].to(kCPU);
      }),
      Sample("to", "nothing").in({0, 5}).moves_data().calls([](const TensorList& in) { return in[0].to(kCPU); }),
  };
}

}  // namespace etna::conformance
