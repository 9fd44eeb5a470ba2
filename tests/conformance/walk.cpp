#include <conformance/walk.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <conformance/compare.h>
#include <conformance/differences.h>
#include <conformance/inputs.h>
#include <conformance/report.h>
#include <etna/autograd/autograd.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/kernel.h>
#include <etna/device/memory.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <runner/run_tests.h>

namespace etna::conformance {
namespace {

/// Sets strict mode for a scope.
class Strict {
 public:
  explicit Strict(bool on) : before_(strict()) { set_strict(on); }
  ~Strict() { set_strict(before_); }
  Strict(const Strict&) = delete;
  Strict& operator=(const Strict&) = delete;

 private:
  bool before_;
};

/// In its scope, puts a barrier after every dispatch and leaves captured steps unfused. A command that reads too early,
/// or was fused wrongly, then gives different bits.
class OneByOne {
 public:
  OneByOne() : before_(vulkan::barriers_everywhere()) {
    if (const char* value = std::getenv("ETNA_FUSE")) fuse_ = value;
    vulkan::set_barriers_everywhere(true);
    ::setenv("ETNA_FUSE", "0", 1);
  }
  ~OneByOne() {
    vulkan::set_barriers_everywhere(before_);
    fuse_ ? ::setenv("ETNA_FUSE", fuse_->c_str(), 1) : ::unsetenv("ETNA_FUSE");
  }
  OneByOne(const OneByOne&) = delete;
  OneByOne& operator=(const OneByOne&) = delete;

 private:
  bool before_;
  std::optional<std::string> fuse_;
};

/// Notes which ops run in this thread, in its scope.
class Watch {
 public:
  explicit Watch(std::set<std::string>* seen, bool compose = false)
      : compose_(&Overrides::compose_ops, compose), on_op_(&Overrides::on_op, seen != nullptr ? &see_ : nullptr) {
    if (seen != nullptr) see_ = [seen](const OpDef& op) { seen->insert(op.name); };
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  std::function<void(const OpDef&)> see_;
  Override<bool> compose_;
  Override<const std::function<void(const OpDef&)>*> on_op_;
};

struct Outcome {
  TensorList outputs, gradients;  ///< one gradient per differentiable input, undefined if none arrived
};

TensorList inputs_on(const std::vector<Drawn>& drawn, Device device, bool grad) {
  TensorList in;
  for (const Drawn& d : drawn) in.push_back(d.on(device, grad));
  return in;
}

/// Gradients of the outputs that depend on a differentiable input. @param seeds one for each output
TensorList gradients_of(const TensorList& in, const TensorList& outputs, const TensorList& seeds) {
  TensorList leaves, roots, root_seeds;
  for (const Tensor& x : in) {
    if (x.defined() && x.requires_grad()) leaves.push_back(x);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].requires_grad()) roots.push_back(outputs[i]), root_seeds.push_back(seeds[i]);
  }
  if (leaves.empty() || roots.empty()) return {};
  return autograd::grad(roots, leaves, root_seeds);
}

/// The dtype that every sample is tried in on the GPU, an op's first one in every layout, and captured.
DType main_dtype(const Sample& sample) {
  const bool has_f32 = std::find(sample.dtypes.begin(), sample.dtypes.end(), f32) != sample.dtypes.end();
  return has_f32 ? f32 : sample.dtypes.front();
}

/// The other dtype in which every run tries an op's first sample on the GPU: of 16 bits if there is one.
DType second_dtype(const Sample& sample) {
  const auto& all = sample.dtypes;
  const auto of_16_bits =
      std::find_if(all.begin(), all.end(), [](DType t) { return is_floating(t) && item_size(t) == 2; });
  return of_16_bits != all.end() ? *of_16_bits : all.back();
}

/// One sample in one dtype and layout: its result on the CPU, the expected result, and its result on the GPU.
class Case {
 public:
  /// @param first whether it is the op's first sample
  Case(const OpDef& op, const Sample& sample, DType dtype, Variant variant, bool first)
      : op_(op),
        sample_(sample),
        dtype_(dtype),
        variant_(variant),
        first_(first),
        drawn_(draw(sample, dtype, variant)) {
    grad_ = sample.checked != Gradients::none && is_floating(dtype) &&
            std::any_of(drawn_.begin(), drawn_.end(), [](const Drawn& d) { return d.differentiable(); });
  }

  /// @param seen collects the ops that ran
  void run(std::set<std::string>& seen, Device gpu) {
    on_cpu(seen);
    exactly();
    judge(cpu_, kCPU);
    replayed(kCPU, cpu_);
    if (gpu.is_cpu() || !tried_on_gpu()) return;
    Watch watch(&seen);
    on_gpu(gpu);
  }

 private:
  std::string where(Device device) const {
    return fmt::format("{}/{}/{}/{}/{}", op_.name, sample_.name, conformance::name(variant_), etna::name(dtype_),
                       device.is_cpu() ? "cpu" : "vulkan");
  }

  void on_cpu(std::set<std::string>& seen) {
    Watch watch(&seen);
    TensorList in = inputs_on(drawn_, kCPU, grad_);
    cpu_.outputs = sample_.call(in);
    if (grad_) {
      bool any =
          std::any_of(cpu_.outputs.begin(), cpu_.outputs.end(), [](const Tensor& y) { return y.requires_grad(); });
      if (!any)
        throw Error("no output requires grad; a sample that is not differentiable says .gradients(Gradients::none)");
    }
    for (std::size_t i = 0; i < cpu_.outputs.size(); ++i) {
      const Tensor& y = cpu_.outputs[i];
      seeds_.push_back(make(draw_gradient(sample_, i, y.numel(), y.dtype()), y.shape(), y.dtype()));
    }
    if (grad_) cpu_.gradients = gradients_of(in, cpu_.outputs, seeds_);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!in[i].defined()) continue;
      report().count("inputs unchanged");
      if (hash(in[i]) != hash(drawn_[i].on(kCPU, false))) throw Error(fmt::format("input {} was changed", i));
    }
  }

  /// The expected values in f64: outputs composed of base ops, gradients by the rules that the differences have
  /// confirmed.
  void exactly() {
    TensorList in;
    for (const Drawn& d : drawn_) in.push_back(d.exact(grad_));
    {
      NoGrad off;
      Watch watch(nullptr, true);
      for (const Tensor& y : sample_.call(in)) wanted_.push_back(read(y));
    }
    if (!grad_) return;
    TensorList seeds;
    for (const Tensor& s : seeds_) seeds.push_back(make(read(s), s.shape(), is_floating(s.dtype()) ? f64 : s.dtype()));
    TensorList outputs = sample_.call(in);
    for (const Tensor& g : gradients_of(in, outputs, seeds))
      wanted_gradients_.push_back(g.defined() ? read(g) : std::vector<double>());
  }

  // A driver takes most of the time to compile kernels, one for each dtype, and for fused ones each layout. By turns,
  // each dtype and each layout has a sample of an op, rather than each sample all of them.
  bool tried_on_gpu() const {
    const bool main = dtype_ == main_dtype(sample_), contiguous = variant_ == Variant::contiguous;
    if (test_all()) {
      if (!rasterizes() || std::getenv("ETNA_CONFORMANCE_BY_TURNS") == nullptr) return true;
      if (first_ || (main && contiguous)) return main || contiguous || layout_has_turn();
      return main ? layout_has_turn() : contiguous && dtype_has_turn();
    }
    if (!main && dtype_ != second_dtype(sample_)) return false;
    return !thins() || first_ || (main && contiguous);
  }
  bool tried_fully() const { return variant_ == Variant::contiguous || test_all(); }

  /// From sample to sample another, in every run the same.
  std::size_t turn() const {
    const auto letters = [](std::string_view name) {
      return std::accumulate(name.begin(), name.end(), std::size_t{0});
    };
    return letters(op_.name) + letters(sample_.name);
  }
  /// Whether this layout is the one besides the contiguous one.
  bool layout_has_turn() const {
    std::vector<Variant> layouts;
    for (Variant v : kVariants) {
      if (v != Variant::contiguous && applies(sample_, v)) layouts.push_back(v);
    }
    return !layouts.empty() && variant_ == layouts[(turn() + static_cast<std::size_t>(dtype_)) % layouts.size()];
  }
  /// Whether this dtype is the one besides the main one.
  bool dtype_has_turn() const {
    std::vector<DType> others(sample_.dtypes.begin(), sample_.dtypes.end());
    std::erase(others, main_dtype(sample_));
    return !others.empty() && dtype_ == others[turn() % others.size()];
  }

  void on_gpu(Device gpu) {
    if (!lacks_kernel(gpu)) {
      const Outcome first = strictly(gpu);
      judge(first, gpu);
      replayed(gpu, first);
      if (!tried_fully()) return;
      OneByOne barriers;
      count(gpu, "eager runs, one by one");
      if (digest(strictly(gpu)) != digest(first)) {
        ADD_FAILURE() << where(gpu) << ": other bits with a barrier behind every dispatch";
      }
      replayed(gpu, first, true);
      return;
    }
    try {
      strictly(gpu);
    } catch (const DeviceError& error) {
      // On a device without such a kernel the op falls back if that is allowed, with the same result.
      if (variant_ != Variant::contiguous) return;
      Strict off(false);
      TensorList in = inputs_on(drawn_, gpu, false);
      NoGrad no_grad;
      Outcome fallen{sample_.call(in), {}};
      judge(fallen, gpu, false);
      return;
    }
    judge(strictly(gpu), gpu);  // it has one after all: a view, or a device with a kernel
  }

  /// Captures and replays: every replay must give the bits of the eager run.
  void replayed(Device device, const Outcome& eager, bool one_by_one = false) {
    if (sample_.transfers || dtype_ != main_dtype(sample_) || !tried_fully()) return;
    Strict on(true);
    TensorList in = inputs_on(drawn_, device, grad_), seeds;
    for (const Tensor& s : seeds_) seeds.push_back(s.to(device));
    auto step = capture(
        [&] {
          TensorList outputs = sample_.call(in), all = outputs;
          if (grad_) {
            for (const Tensor& g : gradients_of(in, outputs, seeds)) all.push_back(g);
          }
          return all;
        },
        {.device = device, .name = op_.name});
    TensorList wanted = eager.outputs;
    wanted.insert(wanted.end(), eager.gradients.begin(), eager.gradients.end());
    for (const char* call : {"run eagerly", "captured", "replayed"}) {
      TensorList got = step();
      ASSERT_EQ(got.size(), wanted.size()) << where(device);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (!got[i].defined() && !wanted[i].defined()) continue;
        count(device, one_by_one ? "captured results, one by one" : "captured results");
        EXPECT_EQ(hash(got[i].to(kCPU)), hash(wanted[i].detach().to(kCPU)))
            << where(device) << ": " << (i < eager.outputs.size() ? "output " : "gradient ")
            << (i < eager.outputs.size() ? i : i - eager.outputs.size()) << " has other bits when " << call;
      }
      // A sample that draws numbers seeds the generator first; a replay does not repeat that.
      manual_seed(random_state().seed);
    }
  }

  bool lacks_kernel(Device gpu) const {
    auto involved = [&](DType t) {
      return dtype_ == t || std::any_of(drawn_.begin(), drawn_.end(),
                                        [&](const Drawn& d) { return d.base.defined() && d.base.dtype() == t; });
    };
    if (involved(f64)) return true;
    if (sample_.subgroups && !gpu::capabilities(gpu).subgroup_arithmetic) return true;
    return std::any_of(sample_.no_kernel.begin(), sample_.no_kernel.end(), involved);
  }

  /// Forward and backward on the GPU, with no transfer in between.
  Outcome strictly(Device gpu) {
    Strict on(true);
    TensorList in = inputs_on(drawn_, gpu, grad_), seeds;
    for (const Tensor& s : seeds_) seeds.push_back(sample_.transfers ? s : s.to(gpu));
    Transfers before = transfers();
    Outcome outcome;
    outcome.outputs = sample_.call(in);
    if (grad_) outcome.gradients = gradients_of(in, outcome.outputs, seeds);
    Transfers after = transfers();
    if (!sample_.transfers && (before.h2d_bytes != after.h2d_bytes || before.d2h_bytes != after.d2h_bytes ||
                               before.fallbacks != after.fallbacks)) {
      ADD_FAILURE() << where(gpu) << ": moved " << after.h2d_bytes - before.h2d_bytes << " bytes to the GPU and "
                    << after.d2h_bytes - before.d2h_bytes << " back, and fell back "
                    << after.fallbacks - before.fallbacks << " times";
    }
    for (Tensor& y : outcome.outputs) y = y.detach().to(kCPU);
    for (Tensor& g : outcome.gradients) g = g.defined() ? g.detach().to(kCPU) : g;
    return outcome;
  }

  void judge(const Outcome& outcome, Device device, bool measured = true) {
    OpReport& row = report().of(op_);
    ASSERT_EQ(outcome.outputs.size(), wanted_.size()) << where(device);
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const Tensor& y = outcome.outputs[i];
      ASSERT_EQ(y.dtype(), cpu_.outputs[i].dtype()) << where(device) << " output " << i;
      ASSERT_EQ(y.shape(), cpu_.outputs[i].shape()) << where(device) << " output " << i;
      Comparison c = compare(y.detach().to(kCPU), wanted_[i]);
      count(device, "outputs");
      if (measured) keep(device.is_cpu() ? row.cpu : row.gpu, c.error);
      double bound = value_bound(dtype_, y.dtype()) * slack();
      EXPECT_LE(c.error, bound) << where(device) << " output " << i << " " << str(y.shape()) << ", " << c.worst;
    }
    // A gradient may vanish entirely if terms of the others' size cancel.
    double smallest = 1e-3;
    for (const std::vector<double>& wanted : wanted_gradients_) smallest = std::max(smallest, 0.3 * typical(wanted));
    for (std::size_t i = 0, k = 0; i < drawn_.size() && !outcome.gradients.empty(); ++i) {
      if (!drawn_[i].differentiable()) continue;
      const Tensor& g = outcome.gradients[k];
      const std::vector<double>& wanted = wanted_gradients_[k++];
      ASSERT_EQ(g.defined(), !wanted.empty() || numel(drawn_[i].input->shape) == 0)
          << where(device) << " gradient of input " << i;
      if (!g.defined()) continue;
      ASSERT_EQ(g.dtype(), drawn_[i].base.dtype()) << where(device) << " gradient of input " << i;
      ASSERT_EQ(g.shape(), drawn_[i].input->shape) << where(device) << " gradient of input " << i;
      Comparison c = compare(g, wanted, smallest);
      count(device, "gradients");
      if (measured) keep(device.is_cpu() ? row.cpu_gradient : row.gpu_gradient, c.error);
      EXPECT_LE(c.error, gradient_bound(dtype_) * slack())
          << where(device) << " gradient of input " << i << ", " << c.worst;
    }
  }

  static void count(Device device, const char* what) {
    report().count(std::string(device.is_cpu() ? "CPU " : "GPU ") + what);
  }

  void keep(Errors& errors, double error) const {
    auto [at, added] = errors.try_emplace(dtype_, error);
    at->second = std::max(at->second, error);
  }

  double slack() const {
    return sample_.slack * (is_floating(dtype_) && item_size(dtype_) == 2 ? sample_.half_slack : 1);
  }

  static std::uint64_t digest(const Outcome& outcome) {
    std::uint64_t h = 1469598103934665603ull;
    for (const Tensor& y : outcome.outputs) h = hash(y, h);
    for (const Tensor& g : outcome.gradients) h = g.defined() ? hash(g, h) : h * 31;
    return h;
  }

  const OpDef& op_;
  const Sample& sample_;
  DType dtype_;
  Variant variant_;
  bool first_;
  std::vector<Drawn> drawn_;
  bool grad_ = false;
  Outcome cpu_;
  TensorList seeds_;
  std::vector<std::vector<double>> wanted_, wanted_gradients_;
};

/// The sample's dtypes; where $ETNA_CONFORMANCE_DTYPE names one of them, that one only. On a slow device this is the
/// walk that can be had.
std::vector<DType> dtypes_of(const Sample& sample) {
  std::vector<DType> all(sample.dtypes.begin(), sample.dtypes.end());
  const char* named = std::getenv("ETNA_CONFORMANCE_DTYPE");
  if (named == nullptr) return all;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](DType t) { return etna::name(t) == std::string_view(named); });
  return found != all.end() ? std::vector{*found} : all;
}

void walk_sample(const OpDef& op, const Sample& sample, Device gpu, bool first) {
  std::set<std::string> seen;
  for (DType dtype : dtypes_of(sample)) {
    for (Variant variant : kVariants) {
      if (!applies(sample, variant)) continue;
      if (dtype != main_dtype(sample) && variant != Variant::contiguous && !test_all()) continue;
      try {
        Case(op, sample, dtype, variant, first).run(seen, gpu);
      } catch (const std::exception& error) {
        ADD_FAILURE() << op.name << "/" << sample.name << "/" << name(variant) << "/" << etna::name(dtype) << ": "
                      << error.what();
      }
    }
  }
  EXPECT_TRUE(seen.contains(op.name) || sample.is_composed || (sample.transfers && gpu.is_cpu()))
      << "the sample '" << sample.name << "' of " << op.name << " does not apply it";
  for (const std::string& covered : sample.covered) {
    EXPECT_TRUE(seen.contains(covered)) << op.name << " '" << sample.name << "' says that it covers " << covered
                                        << ", but never runs it";
  }
  if (sample.checked >= Gradients::first) {
    std::string order = check_differences(sample);
    if (!order.empty()) report().count("differences of " + order + " order");
    if (order.size() > report().of(op).differences.size()) report().of(op).differences = order;
  }
}

}  // namespace

Device gpu_under_test() {
  const char* named = std::getenv("ETNA_DEVICE");
  if (named != nullptr && std::string_view(named) != "auto") return Device::parse(named);
  const char* wanted = std::getenv("ETNA_TEST_VULKAN");
  bool there = false;
  for (const AdapterInfo& a : adapters()) there = there || (a.device == kVulkan && a.rejected.empty());
  if (there) return kVulkan;
  if (wanted != nullptr && std::string_view(wanted) == "1") return select_device("vulkan:0");
  return kCPU;
}

/// The functions composed of ops, as definitions without kernels.
const std::vector<OpDef>& composed_ops() {
  static const std::set<std::string> names = [] {
    std::set<std::string> found;
    for (const Sample& sample : all_samples()) {
      if (sample.is_composed) found.insert(sample.op);
    }
    return found;
  }();
  static const std::vector<OpDef> ops = [] {
    std::vector<OpDef> all;
    for (const std::string& name : names) all.push_back({.name = name.c_str()});
    return all;
  }();
  return ops;
}

void walk(const OpDef& op) {
  static const Device gpu = gpu_under_test();
  static const std::vector<Sample> samples = all_samples();
  bool own = false, empty = false;
  std::vector<std::string> covering;
  for (const Sample& sample : samples) {
    if (std::find(sample.covered.begin(), sample.covered.end(), op.name) != sample.covered.end())
      covering.push_back(sample.op);
    if (sample.op != op.name) continue;
    const bool first = !std::exchange(own, true);
    for (const Input& input : sample.inputs)
      empty = empty || (input.kind != Input::Kind::none && numel(input.shape) == 0);
    walk_sample(op, sample, gpu, first);
  }
  if (own) {
    EXPECT_TRUE(empty) << op.name << " has no sample without elements";
    return;
  }
  if (covering.empty()) {
    ADD_FAILURE() << op.name << " has no samples; add some to tests/ops/ (tests/conformance/samples.h says how)";
    return;
  }
  report().of(op).through = covering.front();
}

}  // namespace etna::conformance
