#include <etna/data/dataset.h>

#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::data {

Example Example::to(Device device) const {
  return {data.defined() ? data.to(device) : data, target.defined() ? target.to(device) : target};
}

Tensor collate(const std::vector<Tensor>& samples, const std::string& what) {
  if (samples.empty()) throw ShapeError("collate: got no samples; wanted at least one");
  const Tensor& first = samples.front();
  bool plain = true;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Tensor& sample = samples[i];
    if (sample.defined() != first.defined()) {
      throw ShapeError(fmt::format("collate: {} of sample {} of the batch is {}, that of the first is not", what, i,
                                   sample.defined() ? "defined" : "undefined"));
    }
    if (!first.defined()) continue;
    if (sample.shape() != first.shape()) {
      throw ShapeError(fmt::format(
          "collate: {} of sample {} of the batch has shape {}, that of the first {}; crop or pad them, or give the "
          "loader a collate function",
          what, i, str(sample.shape()), str(first.shape())));
    }
    if (sample.dtype() != first.dtype()) {
      throw DtypeError(fmt::format("collate: {} of sample {} of the batch is {}, that of the first {}", what, i,
                                   name(sample.dtype()), name(first.dtype())));
    }
    plain = plain && sample.device().is_cpu() && sample.is_contiguous();
  }
  if (!first.defined()) return {};
  const GradMode off(false);
  if (!plain) return stack(samples, 0);
  // Samples are small and many: copying their bytes costs less than an op with many inputs.
  Shape shape = first.shape();
  shape.insert(0, static_cast<std::int64_t>(samples.size()));
  Tensor batch = etna::detail::empty("collate", shape, {first.dtype()});
  const std::size_t bytes = static_cast<std::size_t>(first.numel()) * item_size(first.dtype());
  if (bytes == 0) return batch;
  auto* to = static_cast<std::byte*>(batch.mutable_raw_data());
  for (std::size_t i = 0; i < samples.size(); ++i) std::memcpy(to + i * bytes, samples[i].raw_data(), bytes);
  return batch;
}

Example collate(const std::vector<Example>& samples) {
  std::vector<Tensor> data, target;
  for (const Example& sample : samples) {
    data.push_back(sample.data);
    target.push_back(sample.target);
  }
  return {collate(data, "data"), collate(target, "the target")};
}

std::vector<Tensor> collate(const std::vector<std::vector<Tensor>>& samples) {
  if (samples.empty()) throw ShapeError("collate: got no samples; wanted at least one");
  std::vector<Tensor> batch;
  for (std::size_t column = 0; column < samples.front().size(); ++column) {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (samples[i].size() != samples.front().size()) {
        throw ShapeError(fmt::format("collate: sample {} of the batch has {} tensors, the first has {}", i,
                                     samples[i].size(), samples.front().size()));
      }
      tensors.push_back(samples[i][column]);
    }
    batch.push_back(collate(tensors, fmt::format("tensor {}", column)));
  }
  return batch;
}

}  // namespace etna::data
