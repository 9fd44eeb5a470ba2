#include <etna/tensor/ops/multi_tensor/step.h>

#include <fmt/format.h>

#include <etna/tensor/graph/session.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/multi_tensor/table.h>
#include <etna/tensor/vulkan.h>

namespace etna::multi_tensor {

DType state_dtype(const Tensor& parameter) { return parameter.dtype() == f64 ? f64 : f32; }

namespace {

void check_control(const OpCall& call, const Tensor& control) {
  if (control.shape() != Shape{4} || control.dtype() != f32 || !control.is_contiguous()) {
    throw ShapeError(fmt::format("{}: the control is {} {}; it must be [4] f32 and contiguous", call.op.name,
                                 str(control.shape()), name(control.dtype())));
  }
}

}  // namespace

Tensor control_of(const OpCall& call, std::size_t width) {
  return call.in.size() % width == 1 ? call.in.back() : Tensor();
}

StepControl read_control(const OpCall& call, std::size_t width) {
  StepControl control;
  if (Tensor given = control_of(call, width); given.defined()) {
    const auto* at = given.data<float>();
    control = {at[0], at[1], at[2], at[3]};
  }
  return control;
}

Tensor ControlledStep::gradient(const Tensor& g) const {
  return control.defined() ? g * control.select(0, 0).to(g.dtype()) : g;
}
Tensor ControlledStep::result(const Tensor& before, const Tensor& after) const {
  return control.defined() ? where(control.select(0, 3) != 0, before, after) : after;
}

std::vector<OutputSpec> infer_step(const OpCall& call, std::size_t width) {
  const std::size_t listed = call.in.size() / width * width;
  if (call.in.size() - listed > 1) {
    throw Error(fmt::format("{}: a list of {} tensors; it takes {} for each parameter, and may take a control",
                            call.op.name, call.in.size(), width));
  }
  if (Tensor control = control_of(call, width); control.defined()) check_control(call, control);
  std::vector<OutputSpec> out;
  for (std::size_t i = 0; i < listed; ++i) {
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
  vulkan::Word64 control;
};

}  // namespace

bool dispatch_step(const OpCall& call, const gpu::Shader& shader, std::size_t width,
                   void (*scalars)(const Attrs&, std::byte*), std::initializer_list<std::uint32_t> flags) {
  for (const Tensor& x : call.in) {
    if (x.dtype() == f64) return false;
  }
  std::vector<Row> rows;
  std::vector<vulkan::Range> reads, writes;
  TensorList copies;
  Pieces pieces(kPiece);
  for (std::size_t k = 0; k + width <= call.in.size(); k += width) {
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
  const Tensor control = control_of(call, width);
  spec.push_back(control.defined() ? 1 : 0);
  spec.insert(spec.end(), flags.begin(), flags.end());
  if (control.defined()) reads.push_back(vulkan::range(control));
  Push push{table.scalars, table.rows, table.count, static_cast<std::uint32_t>(pieces.count()),
            vulkan::address_or_zero(control)};
  gpu::record(device,
                 {shader, call.op.name, spec, vulkan::bytes_of(push), vulkan::grid(pieces.count()), reads, writes});
  return true;
}

}  // namespace etna::multi_tensor
