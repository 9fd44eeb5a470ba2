#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::optim {

struct AverageOptions {
  double decay = -1;         ///< of an exponential average (EMA), in [0, 1); negative: all updates weigh alike (SWA)
  bool use_buffers = false;  ///< averages floating buffers too; else they are copied
};

/// The average of a model's weights over training (SWA: Izmailov et al. 2018), kept beside the model. The first update
/// copies; later ones are one dispatch, and a captured step may contain them. Averages of f16 and bf16 weights are f32.
///     optim::AveragedModel average(model, {.decay = 0.999});
///     for (...) { ...; optimizer.step(); average.update(); }
///     average.swap();  // the model now holds the average
///     evaluate(model);
///     average.swap();  // and its own weights again
/// After averaging, the running statistics of batch norms belong to other weights: call update_bn(), or use_buffers.
class AveragedModel {
 public:
  /// @param model has named_parameters() and named_buffers(), and outlives the average @throws Error for decay >= 1
  template <typename Model>
  explicit AveragedModel(const Model& model, AverageOptions options = {}) : options_(options) {
    for (const auto& x : model.named_parameters()) add(x.name, x.tensor, true);
    for (const auto& x : model.named_buffers()) add(x.name, x.tensor, options.use_buffers);
    check();
  }

  AveragedModel(const AveragedModel&) = delete;  // captured steps refer to it
  AveragedModel& operator=(const AveragedModel&) = delete;

  /// Takes the model's weights into the average.
  void update();
  /// The first call keeps the model's weights aside and copies the average into the model; the second call copies them
  /// back. In between, train nothing: update() is an error.
  void swap();
  /// Copies the average into the model.
  void apply() const;
  std::int64_t updates() const { return updates_; }

  /// The average under the model's names, to load into a model of its own; shares storage.
  std::map<std::string, Tensor> averaged() const;
  /// averaged(), and "n_averaged": the number of updates, f64 on the CPU.
  std::map<std::string, Tensor> state_dict() const;
  /// Copies values. @throws Error listing every name that does not fit; then nothing changes
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  struct Entry {
    std::string name;
    Tensor model, average;
    bool averaged;
    Tensor own = {};  ///< the model's weights between two calls of swap()
  };
  void add(const std::string& name, const Tensor& x, bool averaged);
  void check() const;
  void follow();

  AverageOptions options_;
  std::vector<Entry> entries_;
  std::int64_t updates_ = 0;
  bool swapped_ = false;
};

}  // namespace etna::optim
