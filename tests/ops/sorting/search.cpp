#include <conformance/samples.h>
#include <etna/tensor/ops/sorting/sorting.h>

namespace etna::conformance {

std::vector<Sample> samples_in_search() {
  auto search = [](bool right) {
    return [=](const TensorList& in) { return searchsorted(sort(in[0]).values, in[1], false, right); };
  };
  auto anything = [](const char* name) {
    return std::move(Sample("searchsorted", name).and_integers().gradients(Gradients::none));
  };
  return {
      anything("a list").in({11}).whole().in({3, 4}).whole().calls(search(false)),
      anything("rows, right").in({3, 5}).whole().in({3, 7}).whole().calls(search(true)),
      anything("nothing").in({5}).in({0}).calls(search(false)),
  };
}

}  // namespace etna::conformance
