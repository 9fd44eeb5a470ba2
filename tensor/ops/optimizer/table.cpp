#include <etna/tensor/ops/optimizer/internal/table.h>

namespace etna::optimizer {

void Rows::add(std::span<const Entry> entries) {
  const std::int64_t elements = entries.front().tensor.numel();
  if (elements == 0) return;
  std::uint32_t dtypes[2] = {};
  for (std::size_t k = 0; k < kMostEntries; ++k) {
    if (k >= entries.size()) {
      arguments.number(std::uint64_t{0});
      continue;
    }
    const Tensor x = entries[k].tensor.contiguous();
    const Pointer at = gpu::pointer(x);
    switch (entries[k].access) {
      case Access::read:
        arguments.read(at);
        break;
      case Access::write:
        arguments.write(at);
        break;
      case Access::read_write:
        arguments.read_write(at);
        break;
    }
    if (k < 2) dtypes[k] = gpu::u32(x.dtype());
    if (at.address % (4 * item_size(x.dtype())) != 0) width = 1;
    keep(x);
  }
  arguments.number(gpu::u32(elements));
  arguments.number(gpu::u32(chunks.count()));
  for (std::size_t k = 0; k < 2; ++k) {
    arguments.number(dtypes[k]);
    common_dtype[k] = count == 0 || common_dtype[k] == dtypes[k] ? dtypes[k] : kMixed;
  }
  chunks.add(elements);
  ++count;
}

gpu::Kernel kernel_over(const gpu::Shader& shader, const OpCall& call, Rows& rows, Device device) {
  gpu::Kernel kernel(shader, call);
  const gpu::Table table = gpu::make_table(device, rows.arguments);
  rows.keep(table.storage);
  kernel.table(table, rows.arguments).u32(rows.count, rows.chunks.count());
  return kernel;
}

}  // namespace etna::optimizer
