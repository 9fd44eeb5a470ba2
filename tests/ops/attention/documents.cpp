#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_documents() {
  auto bounds = [](const char* name, Shape lengths, std::int64_t positions) {
    return Sample("document_bounds", name)
        .composed()
        .index(lengths, 0, 5)
        .in_dtypes({i64})
        .gradients(Gradients::none)
        .calls([=](const TensorList& in) { return document_bounds(in[0], positions); });
  };
  return {bounds("rows", {2, 3}, 7), bounds("no rows", {0, 3}, 7), bounds("no positions", {2, 3}, 0),
          bounds("one row", {4}, 131)};
}

}  // namespace etna::conformance
