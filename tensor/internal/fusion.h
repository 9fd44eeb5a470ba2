#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/profile/profiler.h>
#include <etna/tensor/op.h>

/// Fusion of consecutive calls of ops. Models are written plainly: `x + attention(norm(x))`, `gelu(linear(x))`. apply()
/// holds a call back if the next ones may join it, and then runs one call of a fused op in place of several.
///
/// A fused op says in its definition which calls it replaces (OpDef::replaces). Calls are matched in the order in which
/// they are made, eagerly and in a captured step alike, so both run the same kernels. Eager steps on the CPU are not
/// fused, except in the scope of an OnCpu: the program may write to a tensor's memory at any time.
///
/// A fused call may leave out results that are cheap to compute: they are computed when somebody reads them, which for
/// most is never. It may also give a result in another form, for example quantized, which later calls read instead.
namespace etna::fusion {

/// A call whose kernel has not run yet. Its outputs are allocated, and autograd knows it.
struct Call {
  const OpDef* op = nullptr;
  TensorList in, out;
  Attrs attrs;
  profile::Labels labels = {};
};

/// A tensor's values as some ops prefer to read them (OpDef::read_form).
struct Form {
  Tensor of;
  TensorList data;
  Attrs attrs;
};

/// What replaces calls. `op` may be null: then there is only a form, and nothing runs.
struct Fused : Call {
  std::size_t replaces = 0;      ///< how many calls from the first on; all of the pattern unless fuse() says less
  std::vector<Call> later = {};  ///< compute the results that it leaves out
  std::vector<Form> forms = {};  ///< of results of the calls that it replaces
  const char* why = "";          ///< where fuse() returns false: the reason, for ETNA_FUSE_LOG=1
};

/// The calls at the beginning of a pattern.
using Calls = std::span<const Call>;

/// True if nothing can read the first output of calls[i] except one operand of calls[i + 1]: a fused op need not write
/// it. A copy of the tensor, as in a Call under construction, counts as a reader.
bool dead(Calls calls, std::size_t i);

/// True if b has the elements of a in their order: a itself, or a reshaped view of it.
bool same_elements(const Tensor& a, const Tensor& b);

/// True if computing this value without storing it could change the bits of an eager step: those of the CPU are not
/// fused, and a 16-bit value is rounded when it is stored.
bool rounds_when_stored(const Tensor& x);

/// The operand that calls[i], an `add`, adds to the first output of calls[i - 1]; undefined if it adds a number, or
/// that output to itself.
Tensor added_to(Calls calls, std::size_t i);

/// Where the device is the CPU, also fuses this thread's eager calls, in a scope in which nobody writes to memory of
/// tensors except ops.
class OnCpu {
 public:
  explicit OnCpu(Device device);
  /// @throws what the calls still held back throw
  ~OnCpu() noexcept(false);
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;

 private:
  bool active_;
};

/// False if the call runs at once: it begins no pattern, and nothing waits.
bool may_hold_back(const OpDef& op);
/// Keeps the call back if it begins or continues a pattern on this device; first runs those held back that it does not
/// continue. Returns false if the caller must run it now.
bool hold_back(const OpCall& call, Device device, const TensorList& out);

/// True while this thread runs calls that were held back.
bool running_held_back();

/// How many own this tensor or its storage, whichever are more. Calls held back own theirs, so they run first.
long owners(const Tensor& x);
long owners(const StoragePtr& storage);

/// Forgets what this thread's capture holds back, after it failed.
void drop_captured();

/// Calls held back, oldest first, which always begin a pattern, and what fused calls left out.
class Window {
 public:
  Window() = default;
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  bool hold_back(const OpCall& call, const TensorList& out);
  /// Runs all calls, fused where they match, and computes what was left out, unless nobody can read it. If one throws,
  /// those after it are dropped.
  void run();
  void drop();

 private:
  struct KeptForm {
    Form form;
    std::uint32_t version, data_version;  ///< of both storages, when it was made
  };

  void run_first(std::vector<Call>& done);
  void keep(Fused& fused);
  void adopt(Call& call) const;
  void run_before(const Call& call);
  void run_later(std::size_t i);
  void drop_dead(std::vector<Call>& gone);
  bool dead(const Tensor& x) const;
  void count();

  std::vector<Call> calls_;
  std::vector<Call> later_;
  std::vector<KeptForm> forms_;
  bool counted_ = false;  ///< in pending_work
};

}  // namespace etna::fusion
