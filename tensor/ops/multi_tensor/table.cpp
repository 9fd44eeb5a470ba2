#include <etna/tensor/ops/multi_tensor/table.h>

#include <algorithm>
#include <vector>

#include <etna/device/kernel.h>

namespace etna::multi_tensor {

Table make_table(Device device, std::span<const float> scalars, std::span<const Row> rows) {
  std::vector<std::byte> bytes(kScalars * sizeof(float) + rows.size_bytes());
  std::ranges::copy(std::as_bytes(scalars), bytes.begin());
  std::ranges::copy(std::as_bytes(rows), bytes.begin() + kScalars * sizeof(float));

  Table table;
  table.storage = empty({static_cast<std::int64_t>(bytes.size())}, {u8, device});
  constexpr std::size_t kAtOnce = 65536;
  for (std::size_t at = 0; at < bytes.size(); at += kAtOnce) {
    gpu::record_update(device, *table.storage.storage(), at,
                          std::span(bytes).subspan(at, std::min(kAtOnce, bytes.size() - at)));
  }
  table.scalars = table.storage.address();
  table.rows = table.scalars + kScalars * sizeof(float);
  table.count = static_cast<std::uint32_t>(rows.size());
  for (std::size_t k = 0; k < 2; ++k) {
    table.common_dtype[k] = rows.front().dtype[k];
    for (const Row& row : rows) {
      if (row.dtype[k] != table.common_dtype[k]) table.common_dtype[k] = kMixed;
    }
  }
  for (const Row& row : rows) {
    for (std::size_t k = 0; k < 4; ++k) {
      std::size_t bytes = k < 2 ? 4 * item_size(static_cast<DType>(row.dtype[k])) : 16;
      if (row.address[k] % bytes != 0) table.width = 1;
    }
  }
  return table;
}

}  // namespace etna::multi_tensor
