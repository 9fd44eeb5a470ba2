#include <etna/data/dataset.h>

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::data {
namespace indexing {

void check_index(const char* dataset, std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size)
    throw IndexError(fmt::format("{}: index {} is outside the {} samples", dataset, index, size));
}

std::int64_t common_size(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) throw ShapeError("TensorListDataset: there are no tensors");
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.dim() == 0)
      throw ShapeError("TensorDataset: a tensor is undefined or a number; the first dimension counts the samples");
    if (tensor.size(0) != tensors.front().size(0)) {
      throw ShapeError(
          fmt::format("TensorDataset: the first dimension counts the samples, but it is {} in {} and {} in {}",
                      tensors.front().size(0), str(tensors.front().shape()), tensor.size(0), str(tensor.shape())));
    }
    if (tensor.device() != tensors.front().device())
      throw DeviceError(fmt::format("TensorDataset: tensors are on {} and {}; move them to one device",
                                    tensors.front().device().str(), tensor.device().str()));
  }
  return tensors.front().size(0);
}

Tensor row(const Tensor& tensor, std::int64_t index) { return tensor.select(0, index); }

Tensor rows(const Tensor& tensor, std::span<const std::int64_t> indices) {
  const GradMode off(false);
  const Tensor list = from_bytes(indices.data(), {static_cast<std::int64_t>(indices.size())}, i64, tensor.device());
  return index_select(tensor, 0, list);
}

void check_lengths(std::int64_t size, const std::vector<std::int64_t>& lengths) {
  std::int64_t sum = 0;
  bool fine = true;
  for (const std::int64_t length : lengths) fine = fine && length >= 0 && !__builtin_add_overflow(sum, length, &sum);
  if (!fine || sum != size)
    throw Error(fmt::format("random_split: parts of {} samples do not add up to the dataset's {}",
                            fmt::join(lengths, " + "), size));
}

std::vector<std::int64_t> lengths_of(std::int64_t size, const std::vector<double>& fractions) {
  double sum = 0;
  bool fine = true;
  std::int64_t left = size;
  std::vector<std::int64_t> lengths;
  for (const double fraction : fractions) {
    fine = fine && fraction >= 0 && fraction <= 1;
    sum += fraction;
    lengths.push_back(fine ? static_cast<std::int64_t>(std::floor(static_cast<double>(size) * fraction)) : 0);
    left -= lengths.back();
  }
  if (!fine || !(std::abs(sum - 1) < 1e-9) || left < 0)
    throw Error(fmt::format("random_split: fractions {} do not add up to 1", fmt::join(fractions, " + ")));
  for (std::size_t i = 0; left > 0; i = (i + 1) % lengths.size(), --left) ++lengths[i];
  return lengths;
}

}  // namespace indexing

TensorDataset::TensorDataset(Tensor data, Tensor target)
    : data_(data.detach()), target_(target.detach()), size_(indexing::common_size({data_, target_})) {}

Example TensorDataset::get(std::int64_t index) const {
  indexing::check_index("TensorDataset", index, size_);
  return {indexing::row(data_, index), indexing::row(target_, index)};
}

std::optional<Example> TensorDataset::batch(std::span<const std::int64_t> indices) const {
  for (const std::int64_t index : indices) indexing::check_index("TensorDataset", index, size_);
  return Example{indexing::rows(data_, indices), indexing::rows(target_, indices)};
}

TensorListDataset::TensorListDataset(std::vector<Tensor> tensors)
    : tensors_(std::move(tensors)), size_(indexing::common_size(tensors_)) {
  for (Tensor& tensor : tensors_) tensor = tensor.detach();
}

std::vector<Tensor> TensorListDataset::get(std::int64_t index) const {
  indexing::check_index("TensorListDataset", index, size_);
  std::vector<Tensor> sample;
  for (const Tensor& tensor : tensors_) sample.push_back(indexing::row(tensor, index));
  return sample;
}

std::optional<std::vector<Tensor>> TensorListDataset::batch(std::span<const std::int64_t> indices) const {
  for (const std::int64_t index : indices) indexing::check_index("TensorListDataset", index, size_);
  std::vector<Tensor> batch;
  for (const Tensor& tensor : tensors_) batch.push_back(indexing::rows(tensor, indices));
  return batch;
}

}  // namespace etna::data
