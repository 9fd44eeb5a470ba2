#include <etna/tensor/multi_tensor/step.h>

#include <fmt/format.h>

#include <etna/tensor/capture/session.h>
#include <etna/tensor/multi_tensor/table.h>
#include <etna/tensor/vulkan.h>

namespace etna::multi_tensor {

DType state_dtype(const Tensor& parameter) { return parameter.dtype() == f64 ? f64 : f32; }

std::vector<OutputSpec> infer_step(const OpCall& call, std::size_t width) {
  if (call.in.size() % width != 0) {
    throw Error(
        fmt::format("{}: a list of {} tensors; it takes {} for each parameter", call.op.name, call.in.size(), width));
  }
  std::vector<OutputSpec> out;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const Tensor &x = call.in[i], &parameter = call.in[i - i % width];
    std::size_t number = i / width, part = i % width;
    if (!is_floating(x.dtype())) {
      throw DtypeError(fmt::format("{}: parameter {} or its gradient holds {}; floating dtypes are wanted",
                                   call.op.name, number, name(x.dtype())));
    }
    if (x.shape() != parameter.shape()) {
      throw ShapeError(fmt::format("{}: parameter {} is {}, its {} is {}", call.op.name, number, str(parameter.shape()),
                                   part == 1 ? "gradient" : "state", str(x.shape())));
    }
    if (part == 1) continue;
    if (!x.is_contiguous()) {
      throw ShapeError(fmt::format("{}: parameter {} {} (or its state) is not contiguous; optimize a contiguous() copy",
                                   call.op.name, number, str(x.shape())));
    }
    if (part > 1 && x.dtype() != state_dtype(parameter)) {
      throw DtypeError(fmt::format("{}: the state of parameter {} holds {}, {} is wanted", call.op.name, number,
                                   name(x.dtype()), name(state_dtype(parameter))));
    }
    out.push_back({x.shape(), x.dtype(), static_cast<int>(i)});
  }
  return out;
}

namespace {

struct Push {
  vulkan::Word64 scalars, rows;
  std::uint32_t count, pieces;
};

}  // namespace

bool dispatch_step(const OpCall& call, const vulkan::Shader& shader, std::size_t width,
                   void (*scalars)(const Attrs&, std::byte*), std::initializer_list<std::uint32_t> flags) {
  for (const Tensor& x : call.in) {
    if (x.dtype() == f64) return false;
  }
  std::vector<Row> rows;
  std::vector<vulkan::Range> reads, writes;
  TensorList copies;
  Pieces pieces(kPiece);
  for (std::size_t k = 0; k < call.in.size(); k += width) {
    if (call.in[k].numel() == 0) continue;
    Row row;
    row.elements = static_cast<std::uint32_t>(call.in[k].numel());
    row.first_piece = static_cast<std::uint32_t>(pieces.count());
    pieces.add(call.in[k].numel());
    for (std::size_t part = 0; part < width; ++part) {
      Tensor x = call.in[k + part].contiguous();
      row.address[part] = x.address();
      if (part < 2) row.dtype[part] = vulkan::word(x.dtype());
      reads.push_back(vulkan::range(x));
      if (part == 1)
        copies.push_back(x);
      else
        writes.push_back(vulkan::range(x));
    }
    rows.push_back(row);
  }
  if (rows.empty()) return true;
  Device device = call.in[0].device();
  float numbers[kScalars] = {};
  scalars(call.attrs, reinterpret_cast<std::byte*>(numbers));
  Table table = make_table(device, numbers, rows);
  // In a step that is replayed the rows stay and the numbers change.
  if (std::uint64_t changing = recording::state_address(call, sizeof(numbers), scalars)) table.scalars = changing;
  reads.push_back(vulkan::range(table.storage));
  std::vector<std::uint32_t> spec = {table.common_dtype[0], table.common_dtype[1], static_cast<std::uint32_t>(kPiece),
                                     table.width};
  spec.insert(spec.end(), flags.begin(), flags.end());
  Push push{table.scalars, table.rows, table.count, static_cast<std::uint32_t>(pieces.count())};
  vulkan::record(device,
                 {shader, call.op.name, spec, vulkan::bytes_of(push), vulkan::grid(pieces.count()), reads, writes});
  return true;
}

}  // namespace etna::multi_tensor
