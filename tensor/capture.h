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

#include <etna/tensor/tensor.h>

/// Recording a step once and replaying it: no shape inference, no tape, no allocation, a few microseconds of host time.
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
/// The rules, and how it works: docs/capture.md.
namespace etna {

struct CaptureOptions {
  /// Where the step runs; arguments on the host are brought there. Left out: where the first call's ops ran.
  std::optional<Device> device = {};
  std::string name = "step";  ///< for messages and reports
  /// On a GPU: commands run in the order in which they were recorded, each behind a barrier, so that their times add
  /// up. Else those that do not touch each other's memory run side by side, and elementwise ones are joined.
  bool one_by_one = false;
};

/// What one recording holds, and what planning made of it.
struct ProgramReport {
  std::string name;
  Device device;
  std::int64_t commands = 0;           ///< dispatches, copies and fills; on the CPU calls of ops
  std::int64_t fused_commands = 0;     ///< elementwise ops, and reductions of their results, that were joined ...
  std::int64_t fused_kernels = 0;      ///< ... into so many; `commands` counts these
  std::int64_t compiled_kernels = 0;   ///< of these, that were compiled; the others were known
  double compile_ms = 0;               ///< what that took, a part of capture_ms
  std::uint64_t fused_bytes = 0;       ///< that a replay does not read and write because of it
  std::int64_t groups = 0;             ///< commands of a group run side by side; on the CPU each is its own
  std::int64_t barriers_eager = 0;     ///< of the first, eager call; 0 where there was none, and on the CPU
  std::int64_t barriers_in_order = 0;  ///< of the commands as recorded, each result in memory of its own
  std::int64_t barriers = 0;           ///< of a replay
  std::uint64_t planned_bytes = 0;     ///< of all that lives within a replay only, sharing memory in time
  std::uint64_t live_bytes = 0;        ///< the most of that alive at one time: no plan can do with less
  std::uint64_t naive_bytes = 0;       ///< the same without sharing
  std::uint64_t kept_bytes = 0;        ///< results that outlive a replay: outputs, gradients
  std::uint64_t constant_bytes = 0;    ///< tables of addresses, and the state that changes from replay to replay
  std::uint64_t input_bytes = 0;       ///< copies of the arguments
  std::uint64_t state_bytes = 0;       ///< written by the host before each replay: learning rates, step numbers, seeds
  double capture_ms = 0;               ///< host time of recording, planning and baking

  std::string str() const;  ///< a few lines for people
};

class Program;

/// The part of a captured function that does not depend on its type. Not for several threads at once.
class Captured {
 public:
  ~Captured();
  Captured(Captured&&) noexcept;
  Captured& operator=(Captured&&) noexcept;

  /// True once a call was recorded.
  bool captured() const;
  /// Of the recording last made or replayed. @throws CaptureError before the first
  const ProgramReport& report() const;
  std::int64_t captures() const;  ///< recordings made, counting those made anew
  std::int64_t replays() const;   ///< calls that were replayed
  /// Forgets all recordings and gives their memory back. The next call runs eagerly.
  void reset();

 protected:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  explicit Captured(CaptureOptions options);
  std::vector<Tensor> run(const std::vector<Tensor>& arguments, const Function& function);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A function of tensors, called as the function itself. Made by capture().
template <typename F>
class CapturedFunction : public Captured {
 public:
  CapturedFunction(F function, CaptureOptions options) : Captured(std::move(options)), function_(std::move(function)) {}

  /// One real step: the first call runs eagerly, the second records and runs, later ones replay. Results are the same
  /// tensors at each replay, overwritten by the next: clone() what must stay.
  /// @param arguments tensors that do not require grad; their values are copied in
  /// @throws what the function throws; CaptureError where the step does something that cannot be replayed
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

/// @param function of any number of `const Tensor&`, returning nothing, a Tensor or a std::vector<Tensor>. It and what
/// it refers to must live as long as the result. Under ETNA_CAPTURE=0 every call runs eagerly.
template <typename F>
CapturedFunction<F> capture(F function, CaptureOptions options = {}) {
  return {std::move(function), std::move(options)};
}

/// True while a step is recorded in this thread.
bool capturing();

/// Runs `f` now and, where a step is being recorded, again at every replay before its commands, in the order in which
/// such calls were made: counters, schedules, whatever the host does once a step.
void each_step(std::function<void()> f);

/// A 0-d tensor whose value the host computes once a step: now and, where a step is being recorded, before each replay,
/// in the order of such calls. An ordinary input of ops: a learning rate, a step count, the start of a slice. All
/// values of a step go to the device in one upload.
///     Tensor lr = each_step([&] { return schedule(i++); }, {f32, device});
Tensor each_step(std::function<double()> value, TensorOptions options);

namespace detail {
/// The same for several values at once. @param fill writes the bytes of a contiguous tensor
Tensor each_step_tensor(const Shape& shape, TensorOptions options, std::function<void(std::byte*)> fill);
}  // namespace detail

/// What runs while one lives is not part of the step being recorded: it happens now, once.
class NotCaptured {
 public:
  NotCaptured();
  ~NotCaptured();
  NotCaptured(const NotCaptured&) = delete;
  NotCaptured& operator=(const NotCaptured&) = delete;

 private:
  void* session_;
};

}  // namespace etna
