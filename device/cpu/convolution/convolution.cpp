#include <etna/device/cpu/convolution/convolution.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#ifdef ETNA_HAS_ONEDNN
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string_view>

#include <oneapi/dnnl/dnnl.hpp>

#include <etna/device/cpu/gemm/one_openmp_thread.h>
#include <etna/device/cpu/parallel.h>
#include <etna/device/cpu/scratch.h>
#endif

namespace etna::cpu {

bool Convolution::operator<(const Convolution& o) const {
  auto all = [](const Convolution& v) {
    return std::tie(v.n, v.c, v.k, v.groups, v.in, v.out, v.kernel, v.stride, v.padding, v.padding_behind, v.dilation);
  };
  return all(*this) < all(o);
}

#ifdef ETNA_HAS_ONEDNN
namespace {

using dnnl::memory;
using Desc = memory::desc;
using Type = memory::data_type;
using Tag = memory::format_tag;

const dnnl::engine& engine() {
  // Never destroyed: destructors of static objects may still compute.
  static const auto* instance = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *instance;
}

dnnl::stream& stream() {
  thread_local dnnl::stream mine(engine());
  return mine;
}

memory at(const Desc& desc, const void* where) {
  // oneDNN has one type for inputs and outputs.
  return memory(desc, engine(), const_cast<void*>(where));
}

enum class Kind { forward, forward_bias, input, weight };

/// oneDNN's code is best for the number of dimensions that there are.
int dimensions(const Convolution& c) {
  auto flat = [&](std::size_t d) { return c.in[d] == 1 && c.out[d] == 1 && c.kernel[d] == 1; };
  return !flat(0) ? 3 : !flat(1) ? 2 : 1;
}

memory::dims last(const std::array<std::int64_t, 3>& sizes, int dims) { return {sizes.end() - dims, sizes.end()}; }

Desc pixels(std::int64_t n, std::int64_t channels, const std::array<std::int64_t, 3>& sizes, int dims) {
  memory::dims shape = {n, channels};
  for (std::int64_t s : last(sizes, dims)) shape.push_back(s);
  return Desc(shape, Type::f32, dims == 3 ? Tag::ndhwc : dims == 2 ? Tag::nhwc : Tag::nwc);
}

/// The weight as given: [k, kernel..., c / groups].
Desc weight_as_given(const Convolution& c, int dims, bool any) {
  const std::int64_t channels = c.c / c.groups, filters = c.k / c.groups;
  memory::dims shape = {filters, channels}, strides = {0, 1};
  const memory::dims kernel = last(c.kernel, dims);
  std::int64_t step = channels;
  memory::dims spatial(kernel.size());
  for (std::size_t i = kernel.size(); i-- > 0; step *= kernel[i]) spatial[i] = step;
  strides[0] = step;
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  strides.insert(strides.end(), spatial.begin(), spatial.end());
  if (c.groups > 1) {
    shape.insert(shape.begin(), c.groups);
    strides.insert(strides.begin(), step * filters);
  }
  return any ? Desc(shape, Type::f32, Tag::any) : Desc(shape, Type::f32, strides);
}

/// A compiled primitive for given sizes.
class Ready {
 public:
  Ready(const Convolution& c, Kind kind) : kind_(kind) {
    const int dims = dimensions(c);
    x_ = pixels(c.n, c.c, c.in, dims), y_ = pixels(c.n, c.k, c.out, dims);
    given_ = weight_as_given(c, dims, false);
    bias_ = kind == Kind::forward_bias ? Desc({c.k}, Type::f32, Tag::a) : Desc();
    OneOpenMpThread one;
    try {
      make(c, dims);
    } catch (const dnnl::error&) {
      primitive_ = {};
    }
  }

  explicit operator bool() const { return static_cast<bool>(primitive_); }

  /// The weight in the layout that run() takes: as given, or a copy in `memory`.
  const float* prepare(const float* weight, Scratch<float>& memory) const {
    if (weight_ == given_) return weight;
    memory.resize(weight_.get_size() / sizeof(float) + 1);
    OneOpenMpThread one;
    auto from = at(given_, weight), to = at(weight_, memory.data());
    dnnl::reorder(from, to).execute(stream(), from, to);
    stream().wait();
    return memory.data();
  }

  /// @param weight as prepare() returned it; for Kind::weight the result, as given
  void run(const float* x, const float* weight, const float* bias, const float* y) const {
    OneOpenMpThread one;
    Scratch<char> scratch(scratch_.get_size() + 1);
    if (kind_ == Kind::weight) {
      const bool same = weight_ == given_;
      Scratch<float> blocked(same ? 1 : weight_.get_size() / sizeof(float) + 1);
      auto result = at(weight_, same ? weight : blocked.data()), to = at(given_, weight);
      primitive_.execute(stream(), {{DNNL_ARG_SRC, at(x_, x)},
                                    {DNNL_ARG_DIFF_DST, at(y_, y)},
                                    {DNNL_ARG_DIFF_WEIGHTS, result},
                                    {DNNL_ARG_SCRATCHPAD, at(scratch_, scratch.data())}});
      if (!same) dnnl::reorder(result, to).execute(stream(), result, to);
    } else if (kind_ == Kind::input) {
      primitive_.execute(stream(), {{DNNL_ARG_DIFF_SRC, at(x_, x)},
                                    {DNNL_ARG_WEIGHTS, at(weight_, weight)},
                                    {DNNL_ARG_DIFF_DST, at(y_, y)},
                                    {DNNL_ARG_SCRATCHPAD, at(scratch_, scratch.data())}});
    } else {
      std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, at(x_, x)},
                                                   {DNNL_ARG_WEIGHTS, at(weight_, weight)},
                                                   {DNNL_ARG_DST, at(y_, y)},
                                                   {DNNL_ARG_SCRATCHPAD, at(scratch_, scratch.data())}};
      if (bias != nullptr) arguments.insert({DNNL_ARG_BIAS, at(bias_, bias)});
      primitive_.execute(stream(), arguments);
    }
    stream().wait();
  }

 private:
  void make(const Convolution& c, int dims) {
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const memory::dims stride = last(c.stride, dims), before = last(c.padding, dims);
    memory::dims behind = last(c.padding_behind, dims), dilation = last(c.dilation, dims);
    for (auto& d : dilation) --d;
    const Desc weight = weight_as_given(c, dims, true);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto training = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
    dnnl::convolution_forward::primitive_desc forward(engine(), training, algorithm, x_, weight, bias_, y_, stride,
                                                      dilation, before, behind, attributes, true);
    if (!forward) return;
    if (kind_ == Kind::input) {
      take<dnnl::convolution_backward_data>(
          {engine(), algorithm, x_, weight, y_, stride, dilation, before, behind, forward, attributes, true});
    } else if (kind_ == Kind::weight) {
      take_weight({engine(), algorithm, x_, weight, y_, stride, dilation, before, behind, forward, attributes, true});
    } else {
      take<dnnl::convolution_forward>(forward);
    }
#else
    using Forward = dnnl::convolution_forward;
    const auto forward_desc =
        kind_ == Kind::forward_bias
            ? Forward::desc(training, algorithm, x_, weight, bias_, y_, stride, dilation, before, behind)
            : Forward::desc(training, algorithm, x_, weight, y_, stride, dilation, before, behind);
    Forward::primitive_desc forward(forward_desc, attributes, engine(), true);
    if (!forward) return;
    if (kind_ == Kind::input) {
      using Backward = dnnl::convolution_backward_data;
      take<Backward>(
          Backward::primitive_desc(Backward::desc(algorithm, x_, weight, y_, stride, dilation, before, behind),
                                   attributes, engine(), forward, true));
    } else if (kind_ == Kind::weight) {
      using Backward = dnnl::convolution_backward_weights;
      take_weight(Backward::primitive_desc(Backward::desc(algorithm, x_, weight, y_, stride, dilation, before, behind),
                                           attributes, engine(), forward, true));
    } else {
      take<Forward>(forward);
    }
#endif
  }

  /// The reference implementation takes what no other does; patches and gemms are much faster.
  template <typename Found>
  static bool good(const Found& found) {
    return found && !std::string_view(found.impl_info_str()).starts_with("ref");
  }
  template <typename Primitive>
  void take(const typename Primitive::primitive_desc& found) {
    if (!good(found)) return;
    weight_ = found.weights_desc(), scratch_ = found.scratchpad_desc();
    primitive_ = Primitive(found);
  }
  void take_weight(const dnnl::convolution_backward_weights::primitive_desc& found) {
    if (!good(found)) return;
    weight_ = found.diff_weights_desc(), scratch_ = found.scratchpad_desc();
    primitive_ = dnnl::convolution_backward_weights(found);
  }

  Kind kind_;
  Desc x_, y_, given_, weight_, bias_, scratch_;
  dnnl::primitive primitive_;
};

/// The cached primitives. When there are many, all are dropped, including sizes that will not recur.
std::shared_ptr<const Ready> ready(const Convolution& c, Kind kind) {
  using Key = std::pair<Kind, Convolution>;
  constexpr std::size_t kMost = 1024;
  static std::shared_mutex mutex;
  static auto* known = new std::map<Key, std::shared_ptr<const Ready>>;
  const Key key{kind, c};
  {
    std::shared_lock lock(mutex);
    if (auto found = known->find(key); found != known->end()) return found->second;
  }
  auto made = std::make_shared<const Ready>(c, kind);
  std::unique_lock lock(mutex);
  if (known->size() >= kMost) known->clear();
  return known->emplace(key, std::move(made)).first->second;
}

/// The images of a task.
struct Images {
  std::int64_t first = 0, count = 0;
};

/// Images dealt out evenly: tasks of at most two sizes.
struct Deal {
  std::int64_t images, tasks;

  explicit Deal(std::int64_t n) : images(n), tasks(std::min<std::int64_t>(n, workers())) {}
  Images of(std::int64_t task) const {
    const std::int64_t first = images * task / tasks;
    return {first, images * (task + 1) / tasks - first};
  }
};

/// The primitives of all tasks; empty if one is missing.
std::vector<std::shared_ptr<const Ready>> primitives(const Convolution& c, Kind kind, const Deal& deal) {
  std::vector<std::shared_ptr<const Ready>> all;
  Convolution part = c;
  for (std::int64_t task = 0; task < deal.tasks; ++task) {
    part.n = deal.of(task).count;
    all.push_back(ready(part, kind));
    if (!*all.back()) return {};
  }
  return all;
}

std::int64_t pixels_of(const std::array<std::int64_t, 3>& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

bool over_images(const Convolution& c, Kind kind, const float* x, const float* weight, const float* bias,
                 const float* y) {
  const Deal deal(c.n);
  const auto run = primitives(c, kind, deal);
  if (run.empty()) return false;
  // Both sizes of tasks may want different layouts of the weight.
  Scratch<float> first_copy, last_copy;
  const float* first = run.front()->prepare(weight, first_copy);
  const float* last = run.back() == run.front() ? first : run.back()->prepare(weight, last_copy);
  const std::int64_t x_size = pixels_of(c.in) * c.c, y_size = pixels_of(c.out) * c.k;
  for_each_task(deal.tasks, [&](std::int64_t task) {
    const auto& mine = run[static_cast<std::size_t>(task)];
    const std::int64_t image = deal.of(task).first;
    mine->run(x + image * x_size, mine == run.front() ? first : last, bias, y + image * y_size);
  });
  return true;
}

}  // namespace

bool convolution(const Convolution& c, const float* x, const float* weight, const float* bias, float* y) {
  return over_images(c, bias != nullptr ? Kind::forward_bias : Kind::forward, x, weight, bias, y);
}

bool convolution_input(const Convolution& c, const float* g, const float* weight, float* x) {
  return over_images(c, Kind::input, x, weight, nullptr, g);
}

bool convolution_weight(const Convolution& c, const float* x, const float* g, float* weight) {
  const Deal deal(c.n);
  const auto run = primitives(c, Kind::weight, deal);
  if (run.empty()) return false;
  const std::int64_t x_size = pixels_of(c.in) * c.c, y_size = pixels_of(c.out) * c.k,
                     size = c.k * pixels_of(c.kernel) * (c.c / c.groups);
  Scratch<float> others(static_cast<std::size_t>(std::max<std::int64_t>(1, (deal.tasks - 1) * size)));
  for_each_task(deal.tasks, [&](std::int64_t task) {
    const std::int64_t image = deal.of(task).first;
    run[static_cast<std::size_t>(task)]->run(x + image * x_size, task == 0 ? weight : others.data() + (task - 1) * size,
                                             nullptr, g + image * y_size);
  });
  if (deal.tasks == 1) return true;
  parallel_for(size, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = 1; task < deal.tasks; ++task) {
      const float* from = others.data() + (task - 1) * size;
      for (std::int64_t i = begin; i < end; ++i) weight[i] += from[i];
    }
  });
  return true;
}

#else

bool convolution(const Convolution&, const float*, const float*, const float*, float*) { return false; }
bool convolution_input(const Convolution&, const float*, const float*, float*) { return false; }
bool convolution_weight(const Convolution&, const float*, const float*, float*) { return false; }

#endif

}  // namespace etna::cpu
