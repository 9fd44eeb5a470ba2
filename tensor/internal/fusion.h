#pragma once

#include <span>
#include <vector>

#include <etna/device/profile/profiler.h>
#include <etna/tensor/op.h>

/// Fusion of consecutive calls of ops. Models are written plainly: `x + attention(norm(x))`, `gelu(linear(x))`. apply()
/// holds a call back if the next ones may join it, and then runs one call of a fused op in place of several.
///
/// A fused op says in its definition which calls it replaces (OpDef::replaces). Calls are matched in the order in which
/// they are made, eagerly and in a captured step alike, so both run the same kernels. Eager steps on the CPU are not
/// fused: there the program may write to a tensor's memory at any time.
namespace etna::fusion {

/// A call whose kernel has not run yet. Its outputs are allocated, and autograd knows it.
struct Call {
  const OpDef* op = nullptr;
  TensorList in, out;
  Attrs attrs;
  profile::Labels labels = {};
};

/// The calls at the beginning of a pattern; each reads the first output of the one before it.
using Calls = std::span<const Call>;

/// True if nothing can read the first output of calls[i] except one operand of calls[i + 1]: a fused op need not write
/// it. A copy of the tensor, as in a Call under construction, counts as a reader.
bool dead(Calls calls, std::size_t i);

/// True if computing this value without storing it could change the bits of an eager step: those of the CPU are not
/// fused, and a 16-bit value is rounded when it is stored.
bool rounds_when_stored(const Tensor& x);

/// The operand that calls[i], an `add`, adds to the first output of calls[i - 1]; undefined if it adds a number, or
/// that output to itself.
Tensor added_to(Calls calls, std::size_t i);

/// Turns fusion on or off for this thread's scope. ETNA_FUSE_OPS=0 turns it off for the process.
class Fusion {
 public:
  explicit Fusion(bool on);
  ~Fusion();
  Fusion(const Fusion&) = delete;
  Fusion& operator=(const Fusion&) = delete;

 private:
  bool before_;
};

/// Keeps the call back if it begins or continues a pattern on this device; first runs those held back that it does not
/// continue. Returns false if the caller must run it now.
bool hold_back(const OpCall& call, Device device, const TensorList& out);

/// True while this thread runs calls that were held back.
bool running_held_back();

/// Forgets what this thread's recording holds back, after it failed.
void drop_recorded();

/// Calls held back, oldest first. They always begin a pattern.
class Window {
 public:
  Window() = default;
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  bool hold_back(const OpCall& call, const TensorList& out);
  /// Runs all calls, fused where they match. If one throws, those after it are dropped.
  void run();
  void drop();

 private:
  void push(const OpCall& call, const TensorList& out);

  std::vector<Call> calls_;
};

}  // namespace etna::fusion
