#include <conformance/samples.h>
#include <etna/tensor/ops.h>

namespace etna::conformance {
namespace {

Sample slice(const char* name, std::int64_t dim, std::int64_t length) {
  Sample s("dynamic_slice", name);
  s.calls([=](const TensorList& in) { return dynamic_slice(in[0], dim, in[1], length); });
  return s;
}

Sample dynamic_slice_update(const char* name, std::int64_t dim) {
  Sample s("dynamic_update_slice", name);
  s.calls([=](const TensorList& in) { return dynamic_update_slice(in[0], in[1], dim, in[2]); });
  return s;
}

}  // namespace

std::vector<Sample> samples_in_dynamic_slice() {
  return {
      slice("the first columns", 1, 5).in({3, 8}).index({}, 0, 1).and_integers().and_bool(),
      slice("columns within", -1, 4).in({4, 9}).index({}, 2, 6),
      slice("the last column", 1, 1).in({5, 7}).index({}, 6, 7),
      slice("all columns", 1, 6).in({2, 6}).index({}, 0, 1),
      slice("rows, from an i32", 0, 2).in({5, 3}).index({}, 1, 3, i32).and_integers(),
      slice("the middle of three", 1, 3).in({2, 7, 4}).index({}, 0, 4),
      slice("of a list", 0, 7).in({11}).index({}, 2, 4),
      slice("nothing", 1, 0).in({2, 3}).index({}, 0, 3),
      slice("no rows", 1, 3).in({0, 7}).index({}, 2, 4),
      slice("prime", 1, 67).in({13, 131}).index({}, 17, 64),
      dynamic_slice_update("the first columns", 1).in({3, 8}).in({3, 5}).index({}, 0, 1).and_integers().and_bool(),
      dynamic_slice_update("columns within", -1).in({4, 9}).in({4, 4}).index({}, 2, 6),
      dynamic_slice_update("rows, from an i32", 0).in({5, 3}).in({2, 3}).index({}, 1, 3, i32).and_integers(),
      dynamic_slice_update("the middle of three", 1).in({2, 7, 4}).in({2, 3, 4}).index({}, 0, 5),
      dynamic_slice_update("all", 0).in({11}).in({11}).index({}, 0, 1),
      dynamic_slice_update("with nothing", 1).in({2, 3}).in({2, 0}).index({}, 0, 3),
      dynamic_slice_update("no rows", 1).in({0, 7}).in({0, 3}).index({}, 0, 3),
      dynamic_slice_update("prime", 1).in({13, 131}).in({13, 67}).index({}, 17, 64),
  };
}

}  // namespace etna::conformance
