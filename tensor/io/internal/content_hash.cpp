#include <etna/tensor/io/internal/content_hash.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/io/internal/xxh3.h>
#include <etna/tensor/op.h>

namespace etna {

std::string content_hash(const NamedTensors& tensors, const Metadata& metadata) {
  io::Xxh3 hash;
  hash.add(static_cast<std::uint64_t>(metadata.size()));
  for (const auto& [key, value] : metadata) {
    hash.add(key);
    hash.add(value);
  }
  std::vector<const NamedTensors::value_type*> ordered;
  for (const auto& tensor : tensors) ordered.push_back(&tensor);
  std::sort(ordered.begin(), ordered.end(), [](auto* a, auto* b) { return a->first < b->first; });
  for (const auto* named : ordered) {
    const Tensor& x = named->second;
    hash.add(named->first);
    hash.add(name(x.dtype()));
    hash.add(static_cast<std::uint64_t>(x.dim()));
    for (const std::int64_t size : x.shape()) hash.add(static_cast<std::uint64_t>(size));
    if (x.numel() > 0) hash.add(x.raw_data(), static_cast<std::size_t>(x.numel()) * item_size(x.dtype()));
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace etna
