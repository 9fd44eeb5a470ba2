#include <algorithm>

#include <etna/device/graph/memory_plan.h>
#include <etna/device/profile/profiler.h>
#include <etna/tensor/graph/sessions.h>
#include <etna/tensor/recording.h>

/// Capture on the CPU. Ops run as usual while they are recorded. Afterwards their results move into planned memory, and
/// a replay calls the same kernels on the same tensors.
namespace etna::recording {
namespace {

using graph::Lifetime;
using graph::MemoryPlan;
using graph::plan_memory;

/// A description of a tensor while recording. A handle would keep the storage alive and hide when it died.
struct Operand {
  std::size_t storage = 0;  ///< number, or kOutside
  Tensor outside;           ///< a view of a storage from before the recording
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;
  DType dtype = DType::f32;
  bool defined = false;
};
constexpr std::size_t kOutside = ~std::size_t{0};

struct RecordedCall {
  const OpDef* op;
  Attrs attrs;
  std::vector<Operand> in, out;
  std::vector<std::size_t> workspace;  ///< storages that the kernel allocated itself, in order
  const char* phase = nullptr;         ///< for the profiler
};

struct Made {
  std::weak_ptr<Storage> storage;
  std::size_t bytes;
  std::uint32_t first, last;  ///< indices of calls
};

/// A call ready to run.
struct Call {
  const OpDef* op;
  Attrs attrs;
  TensorList in, out;
  std::vector<StoragePtr> workspace;
  const char* phase;
};

/// Gives a kernel the planned memory for its own allocations.
class Workspace final : public AllocationHook {
 public:
  void begin(const std::vector<StoragePtr>& storages) {
    storages_ = &storages;
    next_ = 0;
  }
  StoragePtr allocate(Device device, std::size_t bytes) override {
    if (!device.is_cpu() || next_ == storages_->size() || (*storages_)[next_]->bytes() != bytes) return nullptr;
    return (*storages_)[next_++];
  }

 private:
  const std::vector<StoragePtr>* storages_ = nullptr;
  std::size_t next_ = 0;
};

class CpuReplay final : public Replay {
 public:
  explicit CpuReplay(std::vector<Call> calls) : calls_(std::move(calls)) {}

  void run(HostSteps&) override {
    GradMode off(false);
    AllocationHook* before = set_allocation_hook(&workspace_);
    try {
      for (Call& call : calls_) {
        workspace_.begin(call.workspace);
        Running running(call.op->name);
        profile::Scope phase(call.phase, profile::Category::phase);
        profile::Scope scope(call.op->name, profile::Category::op);
        call.op->cpu({*call.op, call.in, call.attrs}, call.out);
      }
    } catch (...) {
      set_allocation_hook(before);
      throw;
    }
    set_allocation_hook(before);
  }

  void run_first(HostSteps&) override {}

 private:
  std::vector<Call> calls_;
  Workspace workspace_;
};

class CpuSession final : public Session {
 public:
  explicit CpuSession(std::string name) : Session(std::move(name), kCPU) {}

  void kernel_begins() override { ++depth_; }
  void kernel_ends() override { --depth_; }
  bool in_kernel() const override { return depth_ > 0; }

  void ran(const OpCall& call, std::span<const Tensor> out) override {
    if (depth_ > 0) return;
    RecordedCall recorded{&call.op, call.attrs, {}, {}, std::move(workspace_), profile::Labels::now().phase};
    workspace_.clear();
    for (const Tensor& x : call.in) recorded.in.push_back(operand(x));
    for (const Tensor& x : out) recorded.out.push_back(operand(x));
    calls_.push_back(std::move(recorded));
  }

  Tensor numbers(const Shape& shape, DType dtype, std::function<void(std::byte*)> fill) override {
    Tensor made;
    {
      NotCaptured outside;  // outside any plan, which would reuse the memory
      made = empty(shape, {dtype, kCPU});
    }
    StoragePtr storage = made.storage();
    fill(storage->host());
    host().add([storage, fill = std::move(fill)] { fill(storage->host()); });
    return made;
  }

  std::unique_ptr<Replay> finish(ProgramReport& report) override {
    // The eager step left its memory in the cache; the plan allocates its own.
    empty_cache(kCPU);
    std::vector<StoragePtr> storages = place_all(report);
    std::vector<Call> calls;
    for (RecordedCall& r : calls_) {
      Call call{r.op, r.attrs, {}, {}, {}, r.phase};
      for (const Operand& x : r.in) call.in.push_back(tensor(x, storages));
      for (const Operand& x : r.out) call.out.push_back(tensor(x, storages));
      for (std::size_t w : r.workspace) call.workspace.push_back(storages[w]);
      calls.push_back(std::move(call));
    }
    report.commands = report.groups = static_cast<std::int64_t>(calls.size());
    return std::make_unique<CpuReplay>(std::move(calls));
  }

 private:
  std::uint32_t now() const { return static_cast<std::uint32_t>(calls_.size()); }

  StoragePtr place(std::size_t bytes) override {
    set_allocation_hook(nullptr);
    StoragePtr storage;
    try {
      storage = etna::allocate(kCPU, bytes);
    } catch (...) {
      set_allocation_hook(this);
      throw;
    }
    set_allocation_hook(this);
    numbers_[storage.get()] = made_.size();
    if (depth_ > 0) workspace_.push_back(made_.size());
    made_.push_back({storage, bytes, now(), now()});
    return storage;
  }

  /// The storage's number, if it was made while recording. An address alone is not enough: it may be another storage's
  /// by now.
  std::size_t number(const Storage& storage) const {
    auto found = numbers_.find(&storage);
    if (found == numbers_.end() || made_[found->second].storage.lock().get() != &storage) return kOutside;
    return found->second;
  }
  bool made_here(const Storage& storage) const override { return number(storage) != kOutside; }

  Operand operand(const Tensor& x) {
    Operand o;
    if (!x.defined()) return o;
    o.defined = true;
    o.shape = x.shape();
    o.strides = x.strides();
    o.offset = x.offset();
    o.dtype = x.dtype();
    o.storage = number(*x.storage());
    if (o.storage == kOutside) {
      // Not an owner: the program holds the storages it uses, and its use counts must show whether anyone else does.
      o.outside =
          detail::make_view(StoragePtr(StoragePtr(), x.storage().get()), kCPU, o.dtype, o.shape, o.strides, o.offset);
    } else {
      made_[o.storage].last = now();
    }
    return o;
  }

  static Tensor tensor(const Operand& o, const std::vector<StoragePtr>& storages) {
    if (!o.defined) return {};
    if (o.storage == kOutside) return o.outside;
    return detail::make_view(storages[o.storage], kCPU, o.dtype, o.shape, o.strides, o.offset);
  }

  /// Allocates memory for everything made while recording: storages that are still held keep their own, the rest is
  /// planned.
  std::vector<StoragePtr> place_all(ProgramReport& report) {
    std::vector<StoragePtr> storages(made_.size());
    std::vector<Lifetime> lifetimes;
    std::vector<std::size_t> planned;
    for (std::size_t i = 0; i < made_.size(); ++i) {
      storages[i] = made_[i].storage.lock();
      if (storages[i]) {
        report.kept_bytes += made_[i].bytes;
      } else {
        lifetimes.push_back({made_[i].bytes, made_[i].first, made_[i].last});
        planned.push_back(i);
      }
    }
    MemoryPlan plan = plan_memory(lifetimes, ~std::size_t{0});
    std::vector<StoragePtr> chunks;
    for (std::size_t bytes : plan.chunks) chunks.push_back(etna::allocate(kCPU, bytes));
    for (std::size_t k = 0; k < planned.size(); ++k) {
      StoragePtr& storage = storages[planned[k]];
      storage = std::make_shared<Storage>(kCPU, lifetimes[k].bytes, nullptr, 0, nullptr);
      storage->rebind(chunks[plan.places[k].chunk], plan.places[k].offset);
    }
    report.planned_bytes = plan.planned;
    report.live_bytes = plan.live;
    report.naive_bytes = plan.naive;
    return storages;
  }

  std::vector<RecordedCall> calls_;
  std::vector<Made> made_;
  std::unordered_map<const Storage*, std::size_t> numbers_;
  std::vector<std::size_t> workspace_;  ///< allocated by the running kernel
  int depth_ = 0;
  profile::KeepLabels labels_;  // replays may be profiled later
};

}  // namespace

std::unique_ptr<Session> make_cpu_session(std::string name) { return std::make_unique<CpuSession>(std::move(name)); }

}  // namespace etna::recording
