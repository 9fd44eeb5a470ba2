#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <etna/device/capture_report.h>
#include <etna/device/owned.h>
#include <etna/tensor/tensor.h>

/// Captures a step once and replays it: no shape inference, no tape, no allocation, a few microseconds of host time.
///
///     auto step = capture([&](const Tensor& x, const Tensor& y) {
///       Tensor loss = model.loss(x, y);
///       loss.backward();
///       optim::clip_grad_norm_(parameters, 1.0);
///       optimizer.step();
///       schedule.step();
///       optimizer.zero_grad();
///       return loss;
///     }, {.device = device});
///     for (const Batch& batch : loader) loss = step(batch.x, batch.y);
///
/// Rules and implementation: docs/capture.md.
namespace etna {

struct CaptureOptions {
  /// The device of the step. Arguments on the host are copied to it. By default the device of the first call's ops.
  std::optional<Device> device = {};
  std::string name = "step";  ///< for messages and reports
  /// For timing on a GPU. True: commands run in the order of the calls with a barrier before each, so that their times
  /// add up. False: commands that share no memory run concurrently, and elementwise commands are fused.
  bool one_by_one = false;
  /// Calls with other shapes are expected: they are captured without a warning.
  bool varied_shapes = false;
};

/// The part of a captured function that does not depend on its type. Not thread-safe.
class Captured {
 public:
  ~Captured();
  Captured(Captured&&) noexcept;
  Captured& operator=(Captured&&) noexcept;

  /// True once a call was captured.
  bool captured() const;
  /// Report of the capture last made or replayed. @throws CaptureError before the first capture
  const CaptureReport& report() const;
  std::int64_t captures() const;  ///< captures made, including re-captures
  std::int64_t replays() const;   ///< replayed calls
  /// Drops all captures and frees their memory. The next call runs eagerly.
  void reset();

 protected:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  explicit Captured(CaptureOptions options);
  std::vector<Tensor> run(const std::vector<Tensor>& arguments, const Function& function);

 private:
  struct State;
  Owned<State> state_;
};

/// A captured function of tensors, called like the function itself. Made by capture().
template <typename F>
class CapturedFunction : public Captured {
 public:
  CapturedFunction(F function, CaptureOptions options) : Captured(std::move(options)), function_(std::move(function)) {}

  /// Runs one step: the first call runs eagerly, the second is captured and run, later calls replay. Every replay
  /// returns the same tensors and overwrites them: clone() a result to keep it.
  /// @param arguments tensors that do not require grad; their values are copied in
  /// @throws whatever the function throws; CaptureError if the step does something that cannot be replayed
  template <typename... Tensors>
  auto operator()(const Tensors&... arguments) {
    using Result = std::invoke_result_t<F&, const Tensors&...>;
    static_assert((std::is_same_v<Tensors, Tensor> && ...), "a captured function takes tensors");
    std::vector<Tensor> results = run({arguments...}, [this](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      return call<Result>(in, std::make_index_sequence<sizeof...(Tensors)>());
    });
    if constexpr (std::is_same_v<Result, Tensor>) {
      return results.front();
    } else if constexpr (!std::is_void_v<Result>) {
      return results;
    }
  }

 private:
  template <typename Result, std::size_t... I>
  std::vector<Tensor> call([[maybe_unused]] const std::vector<Tensor>& in, std::index_sequence<I...>) {
    static_assert(
        std::is_void_v<Result> || std::is_same_v<Result, Tensor> || std::is_same_v<Result, std::vector<Tensor>>,
        "a captured function returns nothing, a Tensor or a std::vector<Tensor>");
    if constexpr (std::is_void_v<Result>) {
      function_(in[I]...);
      return {};
    } else if constexpr (std::is_same_v<Result, Tensor>) {
      return {function_(in[I]...)};
    } else {
      return function_(in[I]...);
    }
  }

  F function_;
};

/// Makes a function of tensors whose second call is captured, and replayed from then on.
/// @param function takes any number of `const Tensor&` and returns nothing, a Tensor or a std::vector<Tensor>. It and
/// everything it refers to must live as long as the result. Under ETNA_CAPTURE=0 every call runs eagerly.
template <typename F>
CapturedFunction<F> capture(F function, CaptureOptions options = {}) {
  return {std::move(function), std::move(options)};
}

/// True while this thread captures a step.
bool capturing();

/// Runs `f` now. If a step is being captured, also runs `f` before the commands of every replay, in the order in which
/// each_step() was called. For counters, schedules and anything else the host does once a step.
void each_step(std::function<void()> f);

/// A 0-d tensor whose value the host computes once a step: now and, if a step is being captured, before each replay, in
/// call order. Ops take it as an ordinary input: a learning rate, a step count, the start of a slice. All such values
/// of a step go to the device in one upload.
///     Tensor lr = each_step([&] { return schedule(i++); }, {f32, device});
Tensor each_step(std::function<double()> value, TensorOptions options);

namespace detail {
/// The same for several values at once. @param fill writes the bytes of a contiguous tensor
Tensor each_step_tensor(const Shape& shape, TensorOptions options, std::function<void(std::byte*)> fill);
}  // namespace detail

class CapturedStep;

/// While one lives, this thread's work is not part of the step being captured: it happens once, now.
class NotCaptured {
 public:
  NotCaptured();
  ~NotCaptured();
  NotCaptured(const NotCaptured&) = delete;
  NotCaptured& operator=(const NotCaptured&) = delete;

 private:
  CapturedStep* step_;
};

/// A number on its way from a GPU to the host. Only a get() that comes too early waits.
class PendingValue {
 public:
  PendingValue() = default;
  /// False if default-constructed.
  bool defined() const { return state_ != nullptr; }
  /// True if get() would not wait. Queued work must reach the GPU first, with the next step or a synchronize().
  bool ready() const;
  /// The value; waits until it has arrived. May be called again. @throws DeviceLost
  double get() const;

 private:
  friend PendingValue read_later(const Tensor& x);
  friend std::vector<PendingValue> read_each_later(const Tensor& x);
  struct State;
  std::shared_ptr<const State> state_;  ///< of all that one transfer brings
  std::size_t index_ = 0;               ///< among them
};

/// Reads the only element of a tensor, as it is once everything queued so far has run. Counted as a transfer.
/// @throws ShapeError unless there is exactly one element
PendingValue read_later(const Tensor& x);

/// The same for every element, in row-major order. They come together: on a GPU one transfer brings up to 4 KiB.
std::vector<PendingValue> read_each_later(const Tensor& x);

}  // namespace etna
