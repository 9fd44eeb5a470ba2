#include <etna/tensor/ops/convolution/internal/cpu/convolution.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#ifdef ETNA_HAS_ONEDNN
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string_view>

#include <oneapi/dnnl/dnnl.hpp>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/one_openmp_thread.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/onednn.h>
#else
#include <etna/tensor/ops/matmul/gemm/internal/cpu/libraries.h>
#endif

namespace etna::cpu {

bool Convolution::operator<(const Convolution& o) const {
  auto all = [](const Convolution& v) {
    return std::tie(v.n, v.c, v.k, v.groups, v.in, v.out, v.kernel, v.stride, v.padding, v.padding_after, v.dilation,
                    v.bf16);
  };
  return all(*this) < all(o);
}

#ifdef ETNA_HAS_ONEDNN
namespace {

using dnnl::memory;
using ConvolutionDesc = memory::desc;
using ConvolutionType = memory::data_type;
using Tag = memory::format_tag;

const dnnl::engine& convolution_engine() {
  // Never destroyed: destructors of static objects may still compute.
  static const auto* instance = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *instance;
}

dnnl::stream& stream() {
  thread_local dnnl::stream mine(convolution_engine());
  return mine;
}

memory at(const ConvolutionDesc& desc, const void* where) {
  // oneDNN has one type for inputs and outputs.
  return memory(desc, convolution_engine(), const_cast<void*>(where));
}

enum class Kind { forward, forward_bias, input, weight };

/// The number of spatial dimensions given to oneDNN: its code is fastest without leading dimensions of size 1.
int dimensions(const Convolution& c) {
  auto flat = [&](std::size_t d) { return c.in[d] == 1 && c.out[d] == 1 && c.kernel[d] == 1; };
  return !flat(0) ? 3 : !flat(1) ? 2 : 1;
}

memory::dims last(const std::array<std::int64_t, 3>& sizes, int dims) { return {sizes.end() - dims, sizes.end()}; }

ConvolutionType type_of(const Convolution& c) { return c.bf16 ? ConvolutionType::bf16 : ConvolutionType::f32; }

ConvolutionDesc pixels(const Convolution& c, std::int64_t channels, const std::array<std::int64_t, 3>& sizes,
                       int dims) {
  memory::dims shape = {c.n, channels};
  for (std::int64_t s : last(sizes, dims)) shape.push_back(s);
  return ConvolutionDesc(shape, type_of(c), dims == 3 ? Tag::ndhwc : dims == 2 ? Tag::nhwc : Tag::nwc);
}

memory::dims weight_shape(const Convolution& c, int dims) {
  memory::dims shape = {c.k / c.groups, c.c / c.groups};
  const memory::dims kernel = last(c.kernel, dims);
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  if (c.groups > 1) shape.insert(shape.begin(), c.groups);
  return shape;
}

/// @param strides of k, the kernel's dimensions and c
ConvolutionDesc weight_as_given(const Convolution& c, const std::array<std::int64_t, 5>& strides,
                                ConvolutionType type) {
  const int dims = dimensions(c);
  memory::dims all = {strides[0], strides[4]};
  all.insert(all.end(), strides.begin() + 4 - dims, strides.begin() + 4);
  if (c.groups > 1) all.insert(all.begin(), strides[0] * (c.k / c.groups));
  return ConvolutionDesc(weight_shape(c, dims), type, all);
}

std::array<std::int64_t, 5> dense_strides(const Convolution& c) {
  std::array<std::int64_t, 5> strides{};
  std::int64_t step = c.c / c.groups;
  strides[4] = 1;
  for (std::size_t d = 3; d > 0; step *= c.kernel[--d]) strides[d] = step;
  strides[0] = step;
  return strides;
}

/// The number of neighbours along the first dimension that a blocked layout stores together.
std::int64_t first_block(const ConvolutionDesc& desc) {
  std::int64_t block = 1;
#if DNNL_VERSION_MAJOR >= 3
  const memory::dims sizes = desc.get_inner_blks(), of = desc.get_inner_idxs();
  for (std::size_t i = 0; i < sizes.size(); ++i) block *= of[i] == 0 ? sizes[i] : 1;
#else
  const auto& blocking = desc.data.format_desc.blocking;
  for (int i = 0; i < blocking.inner_nblks; ++i) block *= blocking.inner_idxs[i] == 0 ? blocking.inner_blks[i] : 1;
#endif
  return block;
}

/// Calls each(shape, offsets) for blocks of filters of a weight, from all threads. @param block number of filters that
/// the layout stores together
template <typename Each>
void in_blocks(const memory::dims& shape, std::int64_t block, const Each& each) {
  constexpr std::int64_t kAlone = 1 << 15;  // smaller weights are one block
  const std::int64_t filters = shape[0];
  const std::int64_t size = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t rows = size < kAlone ? filters : block * std::max<std::int64_t>(1, 64 / block);
  for_each_task((filters + rows - 1) / rows, [&](std::int64_t t) {
    memory::dims part = shape, offsets(shape.size(), 0);
    part[0] = std::min(rows, filters - t * rows), offsets[0] = t * rows;
    each(part, offsets);
  });
}

void reorder(const ConvolutionDesc& from, const void* source, const ConvolutionDesc& to, const void* target) {
  OneOpenMpThread one;
  auto a = at(from, source), b = at(to, target);
  dnnl::reorder(a, b).execute(stream(), a, b);
  stream().wait();
}

/// A compiled primitive for given sizes.
class ConvolutionReady {
 public:
  ConvolutionReady(const Convolution& c, Kind kind) : kind_(kind) {
    const int dims = dimensions(c);
    x_ = pixels(c, c.c, c.in, dims), y_ = pixels(c, c.k, c.out, dims);
    shape_ = weight_shape(c, dims);
    bias_ = kind == Kind::forward_bias ? ConvolutionDesc({c.k}, ConvolutionType::f32, Tag::a) : ConvolutionDesc();
    OneOpenMpThread one;
    try {
      make(c, dims);
    } catch (const dnnl::error&) {
      primitive_ = {};
    }
  }

  explicit operator bool() const { return static_cast<bool>(primitive_); }
  const ConvolutionDesc& weight() const { return weight_; }
  const memory::dims& shape() const { return shape_; }

  /// Returns the weight in the layout that run() takes: as given, or a copy in `memory`. @param alone on this thread
  /// only
  const void* prepare(const Convolution& c, const StridedWeight& weight, Scratch<char>& memory, bool alone) const {
    const ConvolutionDesc given = weight_as_given(c, weight.strides, type_of(c));
    if (weight_ == given) return weight.data;
    memory.resize(weight_.get_size() + 1);
    if (alone) {
      reorder(given, weight.data, weight_, memory.data());
      return memory.data();
    }
    in_blocks(shape_, first_block(weight_), [&](const memory::dims& part, const memory::dims& offsets) {
      reorder(given.submemory_desc(part, offsets), weight.data, weight_.submemory_desc(part, offsets), memory.data());
    });
    return memory.data();
  }

  /// @param weight in the layout of weight(); for Kind::weight the result
  void run(const void* x, const void* weight, const float* bias, const void* y) const {
    OneOpenMpThread one;
    Scratch<char> scratch(scratch_.get_size() + 1);
    std::unordered_map<int, memory> arguments = {{DNNL_ARG_SCRATCHPAD, at(scratch_, scratch.data())}};
    const bool forward = kind_ == Kind::forward || kind_ == Kind::forward_bias;
    arguments.insert({kind_ == Kind::input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, at(x_, x)});
    arguments.insert({kind_ == Kind::weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, at(weight_, weight)});
    arguments.insert({forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, at(y_, y)});
    if (bias != nullptr) arguments.insert({DNNL_ARG_BIAS, at(bias_, bias)});
    primitive_.execute(stream(), arguments);
    stream().wait();
  }

 private:
  void make(const Convolution& c, int dims) {
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const memory::dims stride = last(c.stride, dims), before = last(c.padding, dims);
    memory::dims after = last(c.padding_after, dims), dilation = last(c.dilation, dims);
    for (auto& d : dilation) --d;
    const ConvolutionDesc weight(shape_, kind_ == Kind::weight ? ConvolutionType::f32 : type_of(c), Tag::any),
        hint(shape_, type_of(c), Tag::any);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto training = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
    dnnl::convolution_forward::primitive_desc forward(convolution_engine(), training, algorithm, x_, hint, bias_, y_,
                                                      stride, dilation, before, after, attributes, true);
    if (!forward) return;
    if (kind_ == Kind::input) {
      take<dnnl::convolution_backward_data>({convolution_engine(), algorithm, x_, weight, y_, stride, dilation, before,
                                             after, forward, attributes, true});
    } else if (kind_ == Kind::weight) {
      take_weight({convolution_engine(), algorithm, x_, weight, y_, stride, dilation, before, after, forward,
                   attributes, true});
    } else {
      take<dnnl::convolution_forward>(forward);
    }
#else
    using Forward = dnnl::convolution_forward;
    const auto forward_desc =
        kind_ == Kind::forward_bias
            ? Forward::desc(training, algorithm, x_, hint, bias_, y_, stride, dilation, before, after)
            : Forward::desc(training, algorithm, x_, hint, y_, stride, dilation, before, after);
    Forward::primitive_desc forward(forward_desc, attributes, convolution_engine(), true);
    if (!forward) return;
    if (kind_ == Kind::input) {
      using Backward = dnnl::convolution_backward_data;
      take<Backward>(
          Backward::primitive_desc(Backward::desc(algorithm, x_, weight, y_, stride, dilation, before, after),
                                   attributes, convolution_engine(), forward, true));
    } else if (kind_ == Kind::weight) {
      using Backward = dnnl::convolution_backward_weights;
      take_weight(Backward::primitive_desc(Backward::desc(algorithm, x_, weight, y_, stride, dilation, before, after),
                                           attributes, convolution_engine(), forward, true));
    } else {
      take<Forward>(forward);
    }
#endif
  }

  /// False for oneDNN's fallback, its reference implementation: patches and gemms are much faster.
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
  memory::dims shape_;
  ConvolutionDesc x_, y_, weight_, bias_, scratch_;
  dnnl::primitive primitive_;
};

/// The cached primitives. When there are too many, all are dropped, so sizes that do not recur do not pile up.
std::shared_ptr<const ConvolutionReady> convolution_ready(const Convolution& c, Kind kind) {
  using Key = std::pair<Kind, Convolution>;
  constexpr std::size_t kMost = 1024;
  static std::shared_mutex mutex;
  static auto* known = new std::map<Key, std::shared_ptr<const ConvolutionReady>>;
  const Key key{kind, c};
  {
    std::shared_lock lock(mutex);
    if (auto found = known->find(key); found != known->end()) return found->second;
  }
  auto made = std::make_shared<const ConvolutionReady>(c, kind);
  std::unique_lock lock(mutex);
  if (known->size() >= kMost) known->clear();
  return known->emplace(key, std::move(made)).first->second;
}

std::int64_t pixels_of(const std::array<std::int64_t, 3>& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

/// The dimension that tasks divide: images, or filters (for the gradient by x: input channels) if there are more
/// weights than pixels. Splitting filters, each task reads and packs only its share of the weight and sums nothing
/// twice.
struct Split {
  bool channels = false;
  std::int64_t all = 0, tasks = 0, unit = 1;

  Split(const Convolution& c, Kind kind) {
    const std::int64_t split = kind == Kind::input ? c.c : c.k;
    const std::int64_t results = c.n * (kind == Kind::input ? pixels_of(c.in) : pixels_of(c.out)) * split;
    constexpr std::int64_t kLeast = 64;
    channels = c.groups == 1 && split % kLeast == 0 && split / kLeast >= workers() &&
               (c.n < workers() || c.k * c.c * pixels_of(c.kernel) > results);
    unit = channels ? kLeast : 1;
    all = channels ? split : c.n;
    tasks = std::min<std::int64_t>(all / unit, workers());
  }
  std::int64_t first(std::int64_t task) const { return all / unit * task / tasks * unit; }
  std::int64_t count(std::int64_t task) const { return first(task + 1) - first(task); }
  Convolution part(Convolution c, Kind kind, std::int64_t task) const {
    (!channels ? c.n : kind == Kind::input ? c.c : c.k) = count(task);
    return c;
  }
};

/// The primitives of all tasks; empty if oneDNN lacks one of them.
std::vector<std::shared_ptr<const ConvolutionReady>> primitives(const Convolution& c, Kind kind, const Split& split) {
  std::vector<std::shared_ptr<const ConvolutionReady>> all;
  for (std::int64_t task = 0; task < split.tasks; ++task) {
    all.push_back(convolution_ready(split.part(c, kind, task), kind));
    if (!*all.back()) return {};
  }
  return all;
}

/// Copies `count` channels of each pixel.
void copy_channels(const char* from, std::int64_t from_step, char* to, std::int64_t to_step, std::int64_t pixels,
                   std::int64_t bytes) {
  for (std::int64_t p = 0; p < pixels; ++p)
    std::memcpy(to + p * to_step, from + p * from_step, static_cast<std::size_t>(bytes));
}

std::int64_t item_of(const Convolution& c) { return c.bf16 ? 2 : 4; }

/// Forward, or the gradient by x: each task reads all of `from` and writes its channels of `to`.
bool by_channels(const Convolution& c, Kind kind, const Split& split, const char* from, const StridedWeight& weight,
                 const float* bias, char* to) {
  const auto run = primitives(c, kind, split);
  if (run.empty()) return false;
  const bool back = kind == Kind::input;
  const std::int64_t item = item_of(c), pixels = c.n * (back ? pixels_of(c.in) : pixels_of(c.out));
  for_each_task(split.tasks, [&](std::int64_t t) {
    const ConvolutionReady& mine = *run[static_cast<std::size_t>(t)];
    const std::int64_t first = split.first(t), bytes = split.count(t) * item;
    const auto* part = static_cast<const char*>(weight.data) + first * weight.strides[back ? 4 : 0] * item;
    Scratch<char> packed, result(static_cast<std::size_t>(pixels * bytes));
    const void* w = mine.prepare(split.part(c, kind, t), {part, weight.strides}, packed, true);
    if (back)
      mine.run(result.data(), w, nullptr, from);
    else
      mine.run(from, w, bias == nullptr ? nullptr : bias + first, result.data());
    copy_channels(result.data(), bytes, to + first * item, split.all * item, pixels, bytes);
  });
  return true;
}

bool in_parts(const Convolution& c, Kind kind, const void* x, const StridedWeight& weight, const float* bias,
              const void* y) {
  const Split split(c, kind);
  auto* xs = static_cast<char*>(const_cast<void*>(x));
  auto* ys = static_cast<char*>(const_cast<void*>(y));
  if (split.channels) {
    return kind == Kind::input ? by_channels(c, kind, split, ys, weight, bias, xs)
                               : by_channels(c, kind, split, xs, weight, bias, ys);
  }
  const auto run = primitives(c, kind, split);
  if (run.empty()) return false;
  // The two sizes of tasks may want different layouts of the weight.
  Scratch<char> first_copy, last_copy;
  const void* first = run.front()->prepare(c, weight, first_copy, false);
  const void* last =
      run.back()->weight() == run.front()->weight() ? first : run.back()->prepare(c, weight, last_copy, false);
  const std::int64_t x_size = pixels_of(c.in) * c.c * item_of(c), y_size = pixels_of(c.out) * c.k * item_of(c);
  for_each_task(split.tasks, [&](std::int64_t task) {
    const auto& mine = run[static_cast<std::size_t>(task)];
    const std::int64_t image = split.first(task);
    mine->run(xs + image * x_size, mine->weight() == run.front()->weight() ? first : last, bias, ys + image * y_size);
  });
  return true;
}

bool weight_by_filters(const Convolution& c, const Split& split, const char* x, const char* g, float* weight) {
  const auto run = primitives(c, Kind::weight, split);
  if (run.empty()) return false;
  const std::int64_t item = item_of(c), pixels = c.n * pixels_of(c.out), filter = c.c * pixels_of(c.kernel);
  for_each_task(split.tasks, [&](std::int64_t t) {
    const auto& mine = *run[static_cast<std::size_t>(t)];
    const std::int64_t first = split.first(t), bytes = split.count(t) * item;
    Scratch<char> part(static_cast<std::size_t>(pixels * bytes)), blocked(mine.weight().get_size() + 1);
    copy_channels(g + first * item, c.k * item, part.data(), bytes, pixels, bytes);
    mine.run(x, blocked.data(), nullptr, part.data());
    reorder(mine.weight(), blocked.data(),
            weight_as_given(split.part(c, Kind::weight, t), dense_strides(c), ConvolutionType::f32),
            weight + first * filter);
  });
  return true;
}

}  // namespace

bool convolves_bf16() { return onednn_multiplies_bf16(); }

bool convolution(const Convolution& c, const void* x, const StridedWeight& weight, const float* bias, void* y) {
  return in_parts(c, bias != nullptr ? Kind::forward_bias : Kind::forward, x, weight, bias, y);
}

bool convolution_input(const Convolution& c, const void* g, const StridedWeight& weight, void* x) {
  return in_parts(c, Kind::input, x, weight, nullptr, g);
}

bool convolution_weight(const Convolution& c, const void* x, const void* g, float* weight) {
  const Split split(c, Kind::weight);
  const auto *xs = static_cast<const char*>(x), *gs = static_cast<const char*>(g);
  if (split.channels) return weight_by_filters(c, split, xs, gs, weight);
  const auto run = primitives(c, Kind::weight, split);
  if (run.empty()) return false;
  const std::int64_t x_size = pixels_of(c.in) * c.c * item_of(c), y_size = pixels_of(c.out) * c.k * item_of(c);
  std::vector<Scratch<char>> sums;
  for (const auto& mine : run) sums.emplace_back(mine->weight().get_size() + 1);
  for_each_task(split.tasks, [&](std::int64_t task) {
    const auto i = static_cast<std::size_t>(task);
    const std::int64_t image = split.first(task);
    run[i]->run(xs + image * x_size, sums[i].data(), nullptr, gs + image * y_size);
  });
  const ConvolutionDesc given = weight_as_given(c, dense_strides(c), ConvolutionType::f32);
  const std::int64_t filter = c.c / c.groups * pixels_of(c.kernel);
  std::int64_t block = 1;
  for (const auto& mine : run) block = std::lcm(block, first_block(mine->weight()));
  in_blocks(run.front()->shape(), block, [&](const memory::dims& part, const memory::dims& offsets) {
    const std::int64_t per = c.groups > 1 ? filter * (c.k / c.groups) : filter, n = part[0] * per;
    float* to = weight + offsets[0] * per;
    const ConvolutionDesc dense = given.submemory_desc(part, memory::dims(part.size(), 0));
    Scratch<float> other(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < run.size(); ++i) {
      float* target = i == 0 ? to : other.data();
      reorder(run[i]->weight().submemory_desc(part, offsets), sums[i].data(), dense, target);
      for (std::int64_t j = 0; j < n && i > 0; ++j) to[j] += other[static_cast<std::size_t>(j)];
    }
  });
  return true;
}

#else

bool convolves_bf16() { return false; }
bool convolution(const Convolution& c, const void* x, const StridedWeight& weight, const float* bias, void* y) {
  if (!goes_by_patches(c)) return false;
  const auto run = packed_has_vectors() && goes_direct(c) ? direct_forward : patches_forward;
  run(c, static_cast<const float*>(x), weight, bias, static_cast<float*>(y));
  return true;
}

bool convolution_input(const Convolution& c, const void* g, const StridedWeight& weight, void* x) {
  if (!goes_by_patches(c)) return false;
  const auto run = packed_has_vectors() && input_goes_direct(c) ? direct_input : patches_input;
  run(c, static_cast<const float*>(g), weight, static_cast<float*>(x));
  return true;
}

bool convolution_weight(const Convolution& c, const void* x, const void* g, float* weight) {
  if (!goes_by_patches(c)) return false;
  const auto run = packed_has_vectors() && goes_direct(c) ? direct_weight : patches_weight;
  run(c, static_cast<const float*>(x), static_cast<const float*>(g), weight);
  return true;
}

#endif

}  // namespace etna::cpu
