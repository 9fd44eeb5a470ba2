#include <etna/device/internal/vulkan/executable/fusion/kernel_text.h>

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include <etna/device/internal/vulkan/executable/fusion/sources.h>
#include <etna/device/internal/vulkan/pipelines/pipelines.h>

// An elementwise kernel whose n is a multiple of 4 computes runs of four neighbours per thread, each loaded and stored
// at once. A thread loads all of its runs before it stores the first, which keeps more bytes in flight. For other n a
// thread takes four elements 256 apart, as elementwise.comp does. A reduction's prologue computes one element at a
// time, where the reduction would load it.
namespace etna::vulkan::fusion {
namespace {

constexpr std::uint32_t kF32 = 1, kF16 = 2, kBF16 = 3, kI64 = 4, kI8 = 6, kU8 = 7, kBool = 8;

bool is_float(std::uint32_t dtype) { return dtype <= kBF16; }
const char* type_name(bool integers) { return integers ? "int" : "float"; }
const char* vector_name(bool integers) { return integers ? "ivec4" : "vec4"; }

/// How four neighbouring elements of an iteration are laid out in memory.
enum class Four { vector, one, spaced, apart };

Four four(const StridedView& w) {
  if (w.rank == 0) return Four::one;
  const std::uint32_t last = w.rank - 1;
  if (w.sizes[last] % 4 != 0) return Four::apart;
  if (w.strides[last] == 0) return Four::one;
  bool aligned = w.strides[last] == 1 && w.dtype != kI64 && w.address % (4 * w.item_bytes()) == 0;
  for (std::uint32_t d = 0; d < last; ++d) aligned = aligned && w.strides[d] % 4 == 0;
  return aligned ? Four::vector : Four::spaced;
}

/// Replaces the type: `T(0)` becomes `float(0)`.
std::string with_type(std::string_view expression, const char* type) {
  std::string text;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const bool begins =
        i == 0 || (std::isalnum(static_cast<unsigned char>(expression[i - 1])) == 0 && expression[i - 1] != '_');
    if (begins && expression.substr(i, 2) == "T(") {
      text += type;
    } else {
      text += expression[i];
    }
  }
  return text;
}

class Writer {
 public:
  explicit Writer(const Kernel& kernel) : k_(kernel) {}

  KernelText write(std::size_t pushed, std::uint32_t units) {
    field("n", k_.n);
    field("unknown", 0);
    for (std::size_t i = 0; i < k_.scalars.size(); ++i) field(fmt::format("c{}", i), k_.scalars[i]);
    for (std::size_t i = 0; i < k_.loads.size(); ++i) view(fmt::format("x{}", i), k_.loads[i].view, false);
    for (std::size_t i = 0; i < k_.stores.size(); ++i) view(fmt::format("y{}", i), k_.stores[i].view, true);
    KernelText text;
    const std::uint32_t held = k_.n % 4 == 0 ? runs(units) : 1;
    text.elements_a_group = 1024 * held;
    text.in_table = pushed + arguments_.bytes().size() > Pipelines::kPushBytes;
    std::string computing = rows();
    computing += element();
    computing += k_.through != nullptr ? prologue() : main(held);
    std::string declared = fields_, access = "#define F p\n";
    if (text.in_table) {
      declared = "uvec2 f_table;";
      access = fmt::format(
          "struct Fields {{ {} }};\nETNA_BUFFER_ALIGNED(Table, Fields, 4);\n#define F Table(p.f_table).v[0]\n",
          fields_);
    }
    if (k_.through == nullptr) {
      text.source =
          with_includes(fmt::format("#version 460\n#extension GL_EXT_control_flow_attributes : require\n#include "
                                    "\"fused.glsl\"\nlayout(local_size_x = 256) in;\n"
                                    "layout(push_constant, scalar) uniform Push {{ {} }} p;\n{}{}{}",
                                    declared, access, functions_, computing));
    } else {
      std::string body = with_includes(k_.through->source);
      const std::size_t line = body.find('\n') + 1;  // after #version
      body.insert(line, fmt::format("{}#define ETNA_PROLOGUE\n#define ETNA_PROLOGUE_FIELDS {}\n", k_.through->defines,
                                    declared));
      text.source = with_includes(body, fmt::format("#include \"fused.glsl\"\n{}{}{}", access, functions_, computing));
    }
    text.arguments = std::move(arguments_);
    return text;
  }

 private:
  void field(const std::string& name, std::uint32_t word) {
    fields_ += fmt::format("uint f_{}; ", name);
    arguments_.number(word);
  }

  /// Declares the view's address, sizes and strides, and a function `at_<name>` from a position in the iteration to one
  /// in memory.
  void view(const std::string& name, const StridedView& w, bool written) {
    fields_ += fmt::format("uvec2 f_{}; ", name);
    const Pointer at{w.address, w.range()};
    written ? arguments_.write(at) : arguments_.read(at);
    if (w.contiguous()) {
      functions_ += fmt::format("uint at_{}(uint i) {{ return i; }}\n", name);
      return;
    }
    std::string body;
    const std::uint32_t last = w.rank - 1;
    const std::string sizes = w.rank > 1 ? sizes_of(w) : "";
    for (std::uint32_t d = last; d < w.rank; --d) {
      std::string index = d > 0 ? fmt::format("i % F.f_{}_{}", sizes, d) : "i";
      if (d == last && w.strides[d] == 1) {
        body += fmt::format("e += {}; ", index);
      } else if (d != last || w.strides[d] != 0) {
        field(fmt::format("{}_{}", name, d), w.strides[d]);
        body += fmt::format("e += ({}) * F.f_{}_{}; ", index, name, d);
      }
      if (d > 0) body += fmt::format("i /= F.f_{}_{}; ", sizes, d);
    }
    functions_ += fmt::format("uint at_{}(uint i) {{ uint e = 0; {}return e; }}\n", name, body);
  }

  /// The name of these sizes. Several views may share it, and with it the divisions.
  std::string sizes_of(const StridedView& w) {
    auto [at, added] = sizes_.try_emplace({w.rank, w.sizes}, fmt::format("d{}", sizes_.size()));
    for (std::uint32_t d = 1; added && d < w.rank; ++d) field(fmt::format("{}_{}", at->second, d), w.sizes[d]);
    return at->second;
  }

  /// One function per expression.
  std::string rows() {
    std::string text;
    for (const Kernel::Step& step : k_.steps) {
      auto [at, added] = rows_.try_emplace({step.expression, step.integers}, fmt::format("row{}", rows_.size()));
      const char* t = type_name(step.integers);
      if (added) {
        text += fmt::format("{0} {1}({0} a, {0} b, {0} c) {{ return {2}; }}\n", t, at->second,
                            with_type(step.expression, t));
      }
    }
    return text;
  }

  /// For each step `r`, the computed value, and `v`, the value as read back from memory.
  std::string steps() {
    std::string text;
    for (std::size_t i = 0; i < k_.steps.size(); ++i) {
      const Kernel::Step& step = k_.steps[i];
      std::string operands;
      for (const Kernel::Operand& o : step.operands)
        operands += (operands.empty() ? "" : ", ") + operand(o, step.integers);
      text += fmt::format("  {} r{} = {}({});\n", type_name(step.integers), i,
                          rows_.at({step.expression, step.integers}), operands);
      const std::string r = fmt::format("r{}", i);
      text +=
          fmt::format("  {} v{} = {};\n", type_name(!is_float(step.dtype)), i, stored(r, step.dtype, step.integers));
    }
    return text;
  }

  std::string stored(const std::string& r, std::uint32_t dtype, bool integers) {
    switch (dtype) {
      case kF32:
        return integers ? fmt::format("float({})", r) : opaque(r);
      case kF16:
        return fmt::format("as_f16(float({}), F.f_unknown, {})", r, ++opaque_);
      case kBF16:
        return fmt::format("as_bf16(float({}))", r);
      case kI8:
        return fmt::format("as_i8(int({}))", r);
      case kU8:
        return fmt::format("as_u8(int({}))", r);
      case kBool:
        return fmt::format("as_bool({})", r);
      default:
        return fmt::format("int({})", r);
    }
  }

  std::string operand(const Kernel::Operand& o, bool integers) {
    using Kind = Kernel::Operand::Kind;
    const char* type = type_name(integers);
    if (o.kind == Kind::none) return fmt::format("{}(0)", type);
    if (o.kind == Kind::scalar) return fmt::format("{}(F.f_c{})", integers ? "int" : "uintBitsToFloat", o.index);
    const bool of_load = o.kind == Kind::load;
    std::string value = fmt::format("{}{}", of_load ? 'x' : 'v', o.index);
    const bool holds_integers = of_load ? k_.loads[o.index].integers : !is_float(k_.steps[o.index].dtype);
    if (holds_integers != integers) return fmt::format("{}({})", type, value);
    // The compiler might compute two rows that use the same value together, with results that differ from separate
    // computation.
    return !integers && ++uses_[value] > 1 ? opaque(value) : value;
  }

  std::string opaque(const std::string& value) { return fmt::format("opaque({}, F.f_unknown, {})", value, ++opaque_); }

  std::string one_load(std::size_t i, const std::string& index) const {
    const Kernel::Load& load = k_.loads[i];
    return fmt::format("load_{}(F.f_x{}, {}, {})", type_name(load.integers), i, index, load.view.dtype);
  }

  /// What an elementwise kernel stores, or the value that a reduction asks for.
  struct Result {
    bool integers;
    std::string value;
  };
  std::vector<Result> results() const {
    std::vector<Result> all;
    for (const Kernel::Store& s : k_.stores) {
      const bool integers = !is_float(s.view.dtype);
      all.push_back({integers, fmt::format("{}{}", integers ? "v" : "r", s.step)});
    }
    if (k_.through != nullptr)
      all.push_back({!is_float(k_.steps.back().dtype), fmt::format("v{}", k_.steps.size() - 1)});
    return all;
  }

  /// All steps for one position, from the loaded values to the results.
  std::string element() {
    std::string parameters, assignments;
    auto parameter = [&](const std::string& p) { parameters += (parameters.empty() ? "" : ", ") + p; };
    for (std::size_t i = 0; i < k_.loads.size(); ++i)
      parameter(fmt::format("{} x{}", type_name(k_.loads[i].integers), i));
    const std::vector<Result> all = results();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const char* type = type_name(all[i].integers);
      parameter(fmt::format("out {} y{}", type, i));
      assignments += fmt::format("  y{} = {}({});\n", i, type, all[i].value);
    }
    return fmt::format("void element({}) {{\n{}{}}}\n", parameters, steps(), assignments);
  }

  /// Declares x0 ... and y0 ..., of one element or of four neighbours, and computes the ys.
  std::string one() const {
    std::string text;
    for (std::size_t i = 0; i < k_.loads.size(); ++i) {
      text +=
          fmt::format("  {} x{} = {};\n", type_name(k_.loads[i].integers), i, one_load(i, fmt::format("at_x{}(i)", i)));
    }
    const std::vector<Result> all = results();
    for (std::size_t i = 0; i < all.size(); ++i) text += fmt::format("  {} y{};\n", type_name(all[i].integers), i);
    return text + call("");
  }

  /// Elements i ... i + 3 of load i.
  std::string four_loads(std::size_t i) const {
    const Kernel::Load& load = k_.loads[i];
    const Four how = four(load.view);
    if (how == Four::vector) {
      return load.integers ? fmt::format("load_ints(F.f_x{0}, at_x{0}(i), {1})", i, load.view.dtype)
                           : fmt::format("load_vector(F.f_x{0}, at_x{0}(i), 4, {1}, 4)", i, load.view.dtype);
    }
    if (how == Four::one) {
      return fmt::format("{}({})", vector_name(load.integers), one_load(i, fmt::format("at_x{}(i)", i)));
    }
    return fmt::format("{}({}, {}, {}, {})", vector_name(load.integers), one_load(i, place('x', i, 0, how)),
                       one_load(i, place('x', i, 1, how)), one_load(i, place('x', i, 2, how)),
                       one_load(i, place('x', i, 3, how)));
  }

  /// Declares y0 ... of four neighbours whose x0 ... are given, and computes them.
  std::string four_results() const {
    std::string text;
    const std::vector<Result> all = results();
    for (std::size_t i = 0; i < all.size(); ++i) text += fmt::format("  {} y{};\n", vector_name(all[i].integers), i);
    for (const char* component : {".x", ".y", ".z", ".w"}) text += call(component);
    return text;
  }

  std::string neighbours() const {
    std::string text;
    for (std::size_t i = 0; i < k_.loads.size(); ++i)
      text += fmt::format("  {} x{} = {};\n", vector_name(k_.loads[i].integers), i, four_loads(i));
    return text + four_results();
  }

  /// Runs of four per thread: up to 64 bytes of loads, as long as every compute unit has enough workgroups.
  std::uint32_t runs(std::uint32_t units) const {
    std::uint32_t bytes = 0, runs = 1;
    for (const Kernel::Load& load : k_.loads) bytes += 4 * load.view.item_bytes();
    while (runs < 4 && 2 * runs * bytes <= 64 && k_.n >= 2 * runs * 1024 * 8 * units) runs *= 2;
    return runs;
  }

  /// Makes the value of each position opaque: if it is the same at all positions (an expanded tensor's), NVIDIA's
  /// compiler adds several at once, and rounds differently.
  std::string prologue() const {
    const bool integers = results()[0].integers;
    const char* value = integers ? "y0" : "opaque(y0, F.f_unknown, i)";
    std::string text = fmt::format("{} prologue(uint i) {{\n{}  return {};\n}}\n", type_name(integers), one(), value);
    // Reductions load four floats at a time only in whole groups of four.
    if (!integers) {
      text += fmt::format(
          "vec4 prologue_four(uint i) {{\n{}  return vec4(opaque(y0.x, F.f_unknown, i), opaque(y0.y, F.f_unknown, i + "
          "1), "
          "opaque(y0.z, F.f_unknown, i + 2), opaque(y0.w, F.f_unknown, i + 3));\n}}\n",
          k_.n % 4 == 0 ? neighbours() : "  vec4 y0 = vec4(0.0);\n");
    }
    return text;
  }

  std::string call(const char* component) const {
    std::string arguments;
    auto argument = [&](char kind, std::size_t i) {
      arguments += fmt::format("{}{}{}{}", arguments.empty() ? "" : ", ", kind, i, component);
    };
    for (std::size_t i = 0; i < k_.loads.size(); ++i) argument('x', i);
    for (std::size_t i = 0; i < results().size(); ++i) argument('y', i);
    return fmt::format("  element({});\n", arguments);
  }

  std::string main(std::uint32_t runs) const {
    if (k_.n % 4 == 0) return main_by_fours(runs);
    std::string text =
        "void main() {\n  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;\n"
        "  for (uint k = 0; k < 4; ++k) {\n  uint i = group * 1024 + k * 256 + gl_LocalInvocationID.x;\n"
        "  if (i >= F.f_n) return;\n" +
        one();
    for (std::size_t i = 0; i < k_.stores.size(); ++i) text += one_store(i, fmt::format("at_y{}(i)", i), "");
    return text + "  }\n}\n";
  }

  std::string main_by_fours(std::uint32_t runs) const {
    std::string held, loads, taken;
    for (std::size_t i = 0; i < k_.loads.size(); ++i) {
      const char* type = vector_name(k_.loads[i].integers);
      held += fmt::format("  {} held{}[{}];\n", type, i, runs);
      loads += fmt::format("    held{}[k] = {};\n", i, four_loads(i));
      taken += fmt::format("  {0} x{1} = held{1}[k];\n", type, i);
    }
    std::string stores;
    for (std::size_t i = 0; i < k_.stores.size(); ++i) stores += four_stores(i);
    const std::string each = fmt::format(
        "  [[unroll]] for (uint k = 0; k < {0}; ++k) {{\n    uint i = ((group * {0} + k) * 256 + "
        "gl_LocalInvocationID.x) * 4;\n    if (i >= F.f_n) continue;\n",
        runs);
    return fmt::format(
        "void main() {{\n  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + "
        "gl_WorkGroupID.x;\n{0}{1}{2}  }}\n{1}{3}{4}{5}  }}\n}}\n",
        held, each, loads, taken, four_results(), stores);
  }

  std::string four_stores(std::size_t i) const {
    const StridedView& w = k_.stores[i].view;
    const Four how = four(w);
    if (how == Four::vector) {
      return is_float(w.dtype) ? fmt::format("  store_vector(F.f_y{0}, at_y{0}(i), 4, {1}, 4, y{0});\n", i, w.dtype)
                               : fmt::format("  store_ints(F.f_y{0}, at_y{0}(i), {1}, y{0});\n", i, w.dtype);
    }
    std::string text;
    for (int e = 0; e < 4; ++e) text += one_store(i, place('y', i, e, how), fmt::format(".{}", "xyzw"[e]));
    return text;
  }

  /// Position of the e-th of four neighbours.
  std::string place(char kind, std::size_t i, int e, Four how) const {
    const StridedView& w = kind == 'x' ? k_.loads[i].view : k_.stores[i].view;
    if (how == Four::apart) return fmt::format("at_{}{}(i + {})", kind, i, e);
    if (w.strides[w.rank - 1] == 1) return fmt::format("at_{}{}(i) + {}", kind, i, e);
    return fmt::format("at_{0}{1}(i) + {2} * F.f_{0}{1}_{3}", kind, i, e, w.rank - 1);
  }

  std::string one_store(std::size_t i, const std::string& index, const std::string& component) const {
    const std::uint32_t dtype = k_.stores[i].view.dtype;
    return fmt::format("  store_{}(F.f_y{}, {}, {}, y{}{});\n", type_name(!is_float(dtype)), i, index, dtype, i,
                       component);
  }

  const Kernel& k_;
  std::string fields_, functions_;
  Arguments arguments_;
  std::map<std::pair<std::uint32_t, std::array<std::uint32_t, 4>>, std::string> sizes_;
  std::map<std::pair<std::string, bool>, std::string> rows_;
  std::map<std::string, int> uses_;
  int opaque_ = 0;
};

}  // namespace

KernelText kernel_text(const Kernel& kernel, std::size_t pushed, std::uint32_t units) {
  return Writer(kernel).write(pushed, units);
}

}  // namespace etna::vulkan::fusion
