#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <etna/autograd/autograd.h>
#include <etna/device/error.h>
#include <etna/device/internal/choices/kernel_log.h>
#include <etna/device/internal/log.h>
#include <etna/device/kernel.h>
#include <etna/device/output_file.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>
#include <etna/tensor/ops/quantized/internal/cpu_kernels.h>
#include <etna/tensor/quant/quantized_tensor.h>

#include "commands.h"
#include "output.h"

namespace etna::cli {
namespace {

/// A call of typical sizes. `prepare` makes its inputs, whose values nobody reads, and returns the call.
struct TypicalCall {
  std::string name;
  std::vector<DType> dtypes;
  std::function<std::function<void()>(TensorOptions)> prepare;
};

TypicalCall rows_call(const std::string& name, Tensor (*f)(const Tensor& x)) {
  return {name + " [4096, 4096]", {f32, f16, bf16}, [f](TensorOptions o) {
            const Tensor x = empty({4096, 4096}, o);
            return [=] { f(x); };
          }};
}

TypicalCall matmul_call(std::int64_t rows, std::vector<DType> dtypes) {
  return {fmt::format("matmul [{}, 4096] by [4096, 4096]", rows), std::move(dtypes), [rows](TensorOptions o) {
            const Tensor a = empty({rows, 4096}, o), b = empty({4096, 4096}, o);
            return [=] { matmul(a, b); };
          }};
}

/// A layer of a language model of 7e9 parameters, in f32 activations.
TypicalCall quantized_call(const std::string& format, std::int64_t rows) {
  return {fmt::format("quantized_linear [{}, 4096] by {} [4096, 4096]", rows, format), {f32}, [=](TensorOptions o) {
            const quant::BlockFormat& of = quant::format_named(format);
            const auto bytes = static_cast<std::int64_t>(quant::storage_bytes(of, std::int64_t{4096} * 4096));
            const QuantizedTensor weight(of, {4096, 4096}, empty({bytes}, {u8, o.device}));
            const Tensor x = empty({rows, 4096}, o);
            return [=] { quantized_linear(x, weight); };
          }};
}

/// Queries of 32 heads that attend to a cache of 2,048 positions in f16.
TypicalCall cached_attention_call(std::int64_t rows) {
  return {fmt::format("attention of {} rows to a cache of 2048", rows), {f32}, [rows](TensorOptions o) {
            constexpr std::int64_t kBlocks = 2048 / kCacheBlock, kHeads = 32, kSize = 128;
            const PagedCache cache = paged_cache(kBlocks, kHeads, kSize, {f16, o.device});
            const Tensor qkv = empty({1, rows, 3 * kHeads * kSize}, o);
            const CachePlaces places{empty({1, kBlocks}, {i32, o.device}), empty({1}, {i32, o.device})};
            const RotarySettings rotary{
                .heads = kHeads, .kv_heads = kHeads, .frequencies = empty({kSize / 2}, {f32, o.device})};
            return [=]() mutable {
              PagedCache own = cache;
              rotate_and_attend_(qkv, own, places, rotary);
            };
          }};
}

std::vector<TypicalCall> typical_calls() {
  std::vector<TypicalCall> calls = {
      {"add [4096, 4096]",
       {f32, f16, bf16, f64, i32, i64},
       [](TensorOptions o) {
         const Tensor x = empty({4096, 4096}, o), y = empty({4096, 4096}, o);
         return [=] { x + y; };
       }},
      rows_call("gelu", [](const Tensor& x) { return gelu(x); }),
      rows_call("copy of a transposed", [](const Tensor& x) { return x.t().contiguous(); }),
      rows_call("sum of all of", [](const Tensor& x) { return sum(x); }),
      rows_call("sum over the rows of", [](const Tensor& x) { return sum(x, {0}); }),
      rows_call("softmax", [](const Tensor& x) { return softmax(x, -1); }),
      rows_call("cumsum", [](const Tensor& x) { return cumsum(x, -1); }),
      rows_call("rms_norm",
                [](const Tensor& x) {
                  return rms_norm(x, empty({4096}, {x.dtype(), x.device()}), 1e-5);
                }),
      rows_call("layer_norm",
                [](const Tensor& x) {
                  const Tensor w = empty({4096}, {x.dtype(), x.device()});
                  return layer_norm(x, w, w, 1e-5);
                }),
      rows_call("cross_entropy",
                [](const Tensor& x) {
                  return cross_entropy(x, empty({4096}, {i64, x.device()}));
                }),
      {"embedding of 4096 rows [32000, 4096]",
       {f32, f16, bf16},
       [](TensorOptions o) {
         const Tensor table = empty({32000, 4096}, o), rows = empty({4096}, {i64, o.device});
         return [=] { embedding(table, rows); };
       }},
      {"conv2d [32, 64, 56, 56], 64 kernels of 3x3",
       {f32, f16, bf16},
       [](TensorOptions o) {
         const Tensor x = empty({32, 64, 56, 56}, o), w = empty({64, 64, 3, 3}, o);
         return [=] { conv2d(x, w, {}, 1, 1); };
       }},
      {"causal attention [8, 16, 1024, 64]", {f32, f16, bf16}, [](TensorOptions o) {
         const Tensor q = empty({8, 16, 1024, 64}, o);
         return [=] { dot_product_attention(q, q, q, {.causal = true}); };
       }}};
  for (const std::int64_t rows : {1, 16, 4096}) calls.push_back(matmul_call(rows, {f32, f16, bf16, f64}));
  for (const std::int64_t rows : {1, 512}) {
    for (const char* format : {"F16", "Q8_0", "Q4_0", "Q4_K", "Q6_K"}) calls.push_back(quantized_call(format, rows));
  }
  for (const std::int64_t rows : {1, 512}) calls.push_back(cached_attention_call(rows));
  return calls;
}

enum class Path { kernels, composed, cpu };
const char* name(Path path) { return path == Path::kernels ? "kernels" : path == Path::composed ? "composed" : "cpu"; }

struct Choice {
  std::string call, dtype;
  Path path = Path::kernels;
  std::vector<ChosenKernel> kernels = {};
};

/// Quiet, and not strict, so that fallbacks take place.
class Trying {
 public:
  Trying() : level_(log().level()), strict_(strict()) {
    log().set_level(LogLevel::off);
    set_strict(false);
  }
  ~Trying() {
    log().set_level(level_);
    set_strict(strict_);
  }

 private:
  LogLevel level_;
  bool strict_;
};

Choice choice_of(const TypicalCall& call, Device device, DType dtype) {
  const NoGrad no_gradients;
  const Trying trying;
  Choice choice{call.name, std::string(name(dtype))};
  const std::uint64_t fallbacks = transfers().fallbacks;
  KernelLog noted(device);
  const std::function<void()> run = call.prepare({dtype, device});
  const std::size_t before = noted.kernels().size();
  try {
    run();
    const std::vector<ChosenKernel>& all = noted.kernels();
    choice.kernels.assign(all.begin() + static_cast<std::ptrdiff_t>(before), all.end());
    if (transfers().fallbacks > fallbacks) choice.path = Path::composed;
  } catch (const CaptureError&) {  // values go to the host
    choice.path = Path::cpu;
    choice.kernels.clear();
  }
  return choice;
}

/// Ops by how they run on the device at all, whatever the dtypes.
struct Registry {
  std::size_t with_kernels = 0, views = 0;
  std::vector<std::string> composed, cpu;
};

Registry registry() {
  Registry found;
  for (const OpDef* op : all_ops()) {
    if (op->direct != nullptr) {
      ++found.views;
    } else if (op->gpu != nullptr) {
      ++found.with_kernels;
    } else if (op->reference != nullptr) {
      found.composed.emplace_back(op->name);
    } else {
      found.cpu.emplace_back(op->name);
    }
  }
  return found;
}

std::string text_of(const std::vector<ChosenKernel>& kernels) {
  std::string text;
  for (std::size_t i = 0; i < kernels.size();) {
    std::size_t same = 1;
    while (i + same < kernels.size() && kernels[i + same].kernel == kernels[i].kernel) ++same;
    const ChosenKernel& k = kernels[i];
    text += fmt::format("{}{}{}", text.empty() ? "" : " + ", k.kernel, same > 1 ? fmt::format(" x{}", same) : "");
    i += same;
  }
  return text;
}

std::string needs_of(const std::vector<ChosenKernel>& kernels) {
  std::vector<std::string> needs;
  std::uint64_t shared = 0;
  std::uint32_t threads = 0;
  for (const ChosenKernel& k : kernels) {
    for (const std::string& need : k.needs)
      if (std::find(needs.begin(), needs.end(), need) == needs.end()) needs.push_back(need);
    shared = std::max(shared, k.shared_bytes);
    threads = std::max(threads, k.threads);
  }
  if (threads > 0) needs.push_back(fmt::format("{} threads", threads));
  if (shared > 0) needs.push_back(readable_bytes(shared) + " shared");
  return fmt::format("{}", fmt::join(needs, ", "));
}

void print_gpu(const AdapterInfo& adapter, const std::vector<Choice>& choices, const Registry& ops) {
  const gpu::Capabilities& has = gpu::capabilities(adapter.device);
  fmt::print("{}: {}\n  subgroups of {}, {} of shared memory, {} threads a workgroup; cooperative matrices: {}\n\n",
             adapter.device.str(), adapter.name, has.subgroup_size, readable_bytes(has.shared_memory_bytes),
             has.max_workgroup_size, has.cooperative_matrix ? "yes" : "no");
  std::size_t width = 0, kernels_width = 0;
  for (const Choice& c : choices) {
    width = std::max(width, c.call.size());
    if (c.path != Path::cpu)
      kernels_width = std::max(kernels_width, std::min(text_of(c.kernels).size(), std::size_t{60}));
  }
  fmt::print("  {:<{}}  dtype  {:<{}}  needs\n", "call", width, "kernels", kernels_width);
  for (const Choice& c : choices) {
    if (c.path == Path::cpu) {
      fmt::print("  {:<{}}  {:<5}  none: falls back to the CPU, an error in strict mode\n", c.call, width, c.dtype);
      continue;
    }
    fmt::print("  {:<{}}  {:<5}  {:<{}}  {}{}\n", c.call, width, c.dtype, text_of(c.kernels), kernels_width,
               needs_of(c.kernels), c.path == Path::composed ? "; composed of other ops, an error in strict mode" : "");
  }
  fmt::print("\n  {} ops have kernels there, {} make views or copies", ops.with_kernels, ops.views);
  if (!ops.composed.empty())
    fmt::print("\n  {} are composed of others: {}", ops.composed.size(), fmt::join(ops.composed, ", "));
  if (!ops.cpu.empty()) fmt::print("\n  {} run on the CPU: {}", ops.cpu.size(), fmt::join(ops.cpu, ", "));
  fmt::print("\n\n");
}

/// What computes on the CPU, by what is computed.
std::map<std::string, std::string> cpu_kernels() {
  return {{"gemm f32", cpu::f32_kernels()},
          {"gemm bf16", cpu::bf16_kernels()},
          {"gemm f64", cpu::f64_kernels()},
          {"weights in blocks", quantized::cpu_kernels_target()}};
}

nlohmann::ordered_json json_of(const Choice& choice) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const ChosenKernel& k : choice.kernels) {
    kernels.push_back({{"op", k.op},
                       {"kernel", k.kernel},
                       {"needs", k.needs},
                       {"shared_bytes", k.shared_bytes},
                       {"threads", k.threads},
                       {"groups", k.groups}});
  }
  return {{"call", choice.call}, {"dtype", choice.dtype}, {"path", name(choice.path)}, {"kernels", kernels}};
}

}  // namespace

int doctor_kernels(const std::vector<std::string>& names, const std::string& json_file, bool force) {
  const std::string command = "etna doctor --kernels";
  io::require_output({"--json", json_file, json_marks(command)}, force);
  std::vector<Device> devices;
  for (const std::string& one : names) devices.push_back(select_device(one));
  const bool all = devices.empty();
  nlohmann::ordered_json json = {{kCommandKey, command}, {"devices", nlohmann::ordered_json::array()}};
  for (const AdapterInfo& adapter : adapters()) {
    const bool named = std::find(devices.begin(), devices.end(), adapter.device) != devices.end();
    if (!adapter.rejected.empty() || !(all || named)) continue;
    nlohmann::ordered_json entry = {{"device", adapter.device.str()}, {"name", adapter.name}};
    if (gpu::runs_kernels(adapter.device)) {
      std::vector<Choice> choices;
      for (const TypicalCall& call : typical_calls())
        for (const DType dtype : call.dtypes) choices.push_back(choice_of(call, adapter.device, dtype));
      const Registry ops = registry();
      print_gpu(adapter, choices, ops);
      entry["calls"] = nlohmann::ordered_json::array();
      for (const Choice& choice : choices) entry["calls"].push_back(json_of(choice));
      entry["ops"] = {{"with_kernels", ops.with_kernels}, {"composed", ops.composed}, {"cpu", ops.cpu}};
    } else {
      fmt::print("{}: {}\n  computes by the kernels of the CPU\n", adapter.device.str(), adapter.name);
      for (const auto& [what, by] : cpu_kernels()) fmt::print("  {:<18} {}\n", what, by);
      fmt::print("\n");
      entry["kernels"] = cpu_kernels();
    }
    json["devices"].push_back(std::move(entry));
  }
  if (!json_file.empty()) io::write_file(json_file, json.dump(2) + "\n");
  return 0;
}

}  // namespace etna::cli
