#include <etna/device/internal/webgpu/fused_kernel.h>

#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/webgpu/javascript.h>
#include <etna/device/internal/webgpu/queue.h>

// A workgroup of 256 covers 1024 elements: four per thread, 256 apart, as elementwise.comp has them. The functions that
// are called are those of shaders/webgpu/fused.comp; a row of the elementwise table is `$row_f{expression}`.
namespace etna::webgpu {
namespace {

using gpu::StridedView;
using graph::fusion::Kernel;

constexpr std::uint32_t kF32 = 1, kF16 = 2, kBF16 = 3, kI8 = 6, kU8 = 7, kBool = 8;

bool is_float(std::uint32_t dtype) { return dtype <= kBF16; }
const char* type_name(bool integers) { return integers ? "i32" : "f32"; }
char suffix(bool integers) { return integers ? 'i' : 'f'; }

class Writer {
 public:
  explicit Writer(const Kernel& kernel) : k_(kernel) {}

  FusedKernel write() {
    n_ = number(k_.n);
    unknown_ = number(0);
    for (std::uint32_t scalar : k_.scalars) scalars_.push_back(number(scalar));
    for (std::size_t i = 0; i < k_.loads.size(); ++i) view(fmt::format("x{}", i), k_.loads[i].view, false);
    for (std::size_t i = 0; i < k_.stores.size(); ++i) view(fmt::format("y{}", i), k_.stores[i].view, true);
    FusedKernel made;
    made.in_table = arguments_.bytes().size() > Batch::kArgumentBytes;
    made.text = words(functions_ + main(), made.in_table);
    made.arguments = std::move(arguments_);
    return made;
  }

 private:
  /// Text for the k-th word of the arguments; words() says where it lies.
  std::string number(std::uint32_t word) {
    const std::size_t at = arguments_.bytes().size() / 4;
    arguments_.number(word);
    return fmt::format("#{}#", at);
  }

  static std::string words(const std::string& text, bool in_table) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t open = text.find('#', at), close = open == std::string::npos ? open : text.find('#', open + 1);
      out.append(text, at, open - at);
      if (open == std::string::npos) break;
      const unsigned long k = std::strtoul(text.c_str() + open + 1, nullptr, 10);
      out += in_table ? fmt::format("fused_word(parameters[0u].xy, {}u)", k)
                      : fmt::format("parameters[{}u].{}", k / 4, "xyzw"[k % 4]);
      at = close + 1;
    }
    return out;
  }

  /// A function `at_<name>` from a position in the iteration to one in memory.
  void view(const std::string& name, const StridedView& w, bool written) {
    const std::size_t at = arguments_.bytes().size() / 4;
    addresses_[name] = fmt::format("vec2<u32>(#{}#, #{}#)", at, at + 1);
    const Pointer memory{w.address, w.range()};
    written ? arguments_.write(memory) : arguments_.read(memory);
    std::string body;
    const std::uint32_t last = w.rank - 1;
    const std::vector<std::string> sizes = w.rank > 1 ? sizes_of(w) : std::vector<std::string>{};
    for (std::uint32_t d = last; d < w.rank; --d) {
      const std::string index = d > 0 ? fmt::format("(i % {})", sizes[d]) : "i";
      if (w.strides[d] == 1 && d == last)
        body += fmt::format("  e = (e + {});\n", index);
      else if (d != last || w.strides[d] != 0)
        body += fmt::format("  e = (e + ({} * {}));\n", index, number(w.strides[d]));
      if (d > 0) body += fmt::format("  i = (i / {});\n", sizes[d]);
    }
    functions_ += fmt::format(
        "fn at_{}(position : u32) -> u32 {{\n  var i : u32;\n  var e : u32;\n  i = position;\n{}  return e;\n}}\n\n",
        name, body);
  }

  /// Several views may have the same sizes.
  const std::vector<std::string>& sizes_of(const StridedView& w) {
    auto [at, added] = sizes_.try_emplace({w.rank, w.sizes});
    for (std::uint32_t d = 0; added && d < w.rank; ++d) at->second.push_back(d > 0 ? number(w.sizes[d]) : "");
    return at->second;
  }

  std::string opaque(const std::string& value) {
    return fmt::format("fused_opaque({}, {}, {}u)", value, unknown_, ++opaque_);
  }

  std::string operand(const Kernel::Operand& o, bool integers) {
    using Kind = Kernel::Operand::Kind;
    if (o.kind == Kind::none) return integers ? "0i" : "0.0f";
    if (o.kind == Kind::scalar) return fmt::format("bitcast<{}>({})", type_name(integers), scalars_[o.index]);
    const bool of_load = o.kind == Kind::load;
    const std::string value = fmt::format("{}{}", of_load ? 'x' : 'v', o.index);
    const bool holds_integers = of_load ? k_.loads[o.index].integers : !is_float(k_.steps[o.index].dtype);
    if (holds_integers != integers) return fmt::format("{}({})", type_name(integers), value);
    // A compiler might compute two rows that use the same value together, with results that differ.
    return !integers && ++uses_[value] > 1 ? opaque(value) : value;
  }

  /// What a step's result is, once it was stored and read back.
  std::string stored(const std::string& r, std::uint32_t dtype, bool integers) {
    switch (dtype) {
      case kF32:
        return integers ? fmt::format("f32({})", r) : opaque(r);
      case kF16:
        return fmt::format("fused_f16(f32({}), {}, {}u)", r, unknown_, ++opaque_);
      case kBF16:
        return fmt::format("fused_bf16(f32({}))", r);
      case kI8:
        return fmt::format("fused_i8(i32({}))", r);
      case kU8:
        return fmt::format("fused_u8(i32({}))", r);
      case kBool:
        return fmt::format("fused_bool_{}({})", suffix(integers), r);
      default:
        return fmt::format("i32({})", r);
    }
  }

  std::string main() {
    std::string body;
    for (std::size_t i = 0; i < k_.loads.size(); ++i) {
      const Kernel::Load& load = k_.loads[i];
      const std::string name = fmt::format("x{}", i);
      body += fmt::format("    let {0} = fused_load_{1}({2}, at_{0}(i), {3}u);\n", name, suffix(load.integers),
                          addresses_[name], load.view.dtype);
    }
    for (std::size_t i = 0; i < k_.steps.size(); ++i) {
      const Kernel::Step& step = k_.steps[i];
      std::string operands;
      for (const Kernel::Operand& o : step.operands)
        operands += (operands.empty() ? "" : ", ") + operand(o, step.integers);
      const std::string r = fmt::format("r{}", i);
      body += fmt::format("    let {} = $row_{}{{{}}}({});\n", r, suffix(step.integers), step.expression, operands);
      body += fmt::format("    let v{} = {};\n", i, stored(r, step.dtype, step.integers));
    }
    for (std::size_t i = 0; i < k_.stores.size(); ++i) {
      const Kernel::Store& store = k_.stores[i];
      const bool integers = !is_float(store.view.dtype);
      const std::string name = fmt::format("y{}", i);
      body += fmt::format("    fused_store_{1}({2}, at_{0}(i), {3}u, {4}({5}{6}));\n", name, suffix(integers),
                          addresses_[name], store.view.dtype, type_name(integers), integers ? 'v' : 'r', store.step);
    }
    return fmt::format(
        "@compute @workgroup_size(256u, 1u, 1u)\nfn main(@builtin(workgroup_id) place : vec3<u32>, "
        "@builtin(num_workgroups) places : vec3<u32>, @builtin(local_invocation_id) thread : vec3<u32>) {{\n"
        "  let group = ((place.y * places.x) + place.x);\n  var k : u32;\n  k = 0u;\n  loop {{\n"
        "    if ((k >= 4u)) {{\n      break;\n    }}\n    let i = (((group * 1024u) + (k * 256u)) + thread.x);\n"
        "    if ((i >= {})) {{\n      return;\n    }}\n{}    continuing {{\n      k = (k + 1u);\n    }}\n  }}\n}}\n",
        n_, body);
  }

  const Kernel& k_;
  Arguments arguments_;
  std::string n_, unknown_, functions_;
  std::vector<std::string> scalars_;
  std::map<std::string, std::string> addresses_;
  std::map<std::pair<std::uint32_t, std::array<std::uint32_t, 4>>, std::vector<std::string>> sizes_;
  std::map<std::string, int> uses_;
  int opaque_ = 0;
};

}  // namespace

FusedKernel fused_kernel(const Kernel& kernel) { return Writer(kernel).write(); }

bool WgslWriter::enabled() {
  const char* value = std::getenv("ETNA_FUSE");
  return value == nullptr || std::string_view(value) != "0";
}

graph::fusion::WrittenKernel WgslWriter::write(const Kernel& kernel, const std::string&, std::span<const std::uint32_t>,
                                               std::size_t) {
  FusedKernel made = fused_kernel(kernel);
  auto [named, added] = names_.try_emplace(made.text, fmt::format("fused_{}", names_.size()));
  if (added) javascript::define_fused(named->second, made.text);
  return {.shader = {named->second.c_str(), {}},
          .arguments = std::move(made.arguments),
          .in_table = made.in_table,
          .elements_a_group = 1024,
          .compiled = added ? 1u : 0u,
          .compile_ms = 0};
}

}  // namespace etna::webgpu
