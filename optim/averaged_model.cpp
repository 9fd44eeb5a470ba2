#include <etna/optim/averaged_model.h>

#include <tuple>

#include <fmt/format.h>

#include <etna/dist/sharding.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/name_list.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

void AveragedModel::add(const std::string& name, const Tensor& x, bool averaged) {
  GradMode off(false);
  if (distributed::is_divided(x))
    throw Error(
        fmt::format("AveragedModel: '{}' is divided among the ranks (ZeRO stage 3); averages need whole weights, as "
                    "stages 0 to 2 have them",
                    name));
  const bool floating = averaged && is_floating(x.dtype());
  const DType t = floating && x.dtype() != f64 ? f32 : x.dtype();
  // Contiguous, whatever the model's layout: the kernel wants that.
  entries_.push_back({name, x, x.detach().to(t).contiguous().clone(), floating});
}

void AveragedModel::check() const {
  if (!(options_.decay < 1)) throw Error(fmt::format("AveragedModel: a decay of {} is not below 1", options_.decay));
}

/// Moves averages to where the model's tensors are now.
void AveragedModel::follow() {
  for (Entry& e : entries_) e.average = e.average.to(e.model.device());
}

void AveragedModel::update() {
  if (swapped_) throw Error("AveragedModel: update() while the model holds the average; call swap() first");
  GradMode off(false);
  follow();
  std::map<Device, std::vector<Tensor>> lists;
  for (Entry& e : entries_) {
    if (!e.averaged) {
      e.average.copy_(e.model.detach());
      continue;
    }
    std::vector<Tensor>& list = lists[e.model.device()];
    list.push_back(e.average);
    list.push_back(e.model.detach());
  }
  each_step([this] { ++updates_; });
  for (const auto& [device, list] : lists) {
    average_step_(list, each_step_numbers(list, [this] { return StepValues{.step = updates_}; }),
                  {.decay = options_.decay});
  }
}

void AveragedModel::swap() {
  GradMode off(false);
  follow();
  for (Entry& e : entries_) {
    Tensor weights = e.model.detach();
    if (swapped_) {
      weights.copy_(e.own);
      e.own = {};
    } else {
      e.own = weights.clone();
      weights.copy_(e.average);
    }
  }
  swapped_ = !swapped_;
}

void AveragedModel::apply() const {
  GradMode off(false);
  for (const Entry& e : entries_) e.model.detach().copy_(e.average);
}

std::map<std::string, Tensor> AveragedModel::averaged() const {
  std::map<std::string, Tensor> state;
  for (const Entry& e : entries_) state[e.name] = e.average;
  return state;
}

std::map<std::string, Tensor> AveragedModel::state_dict() const {
  std::map<std::string, Tensor> state = averaged();
  state["n_averaged"] = scalar(static_cast<double>(updates_), {f64});
  return state;
}

void AveragedModel::load_state_dict(const std::map<std::string, Tensor>& state) {
  std::vector<std::string> wrong;
  for (const Entry& e : entries_) {
    const auto found = state.find(e.name);
    if (found == state.end()) {
      wrong.push_back(e.name + " (missing)");
    } else if (found->second.shape() != e.average.shape()) {
      wrong.push_back(fmt::format("{} {} (wanted {})", e.name, str(found->second.shape()), str(e.average.shape())));
    }
  }
  if (!state.contains("n_averaged")) wrong.emplace_back("n_averaged (missing)");
  if (!wrong.empty() || state.size() != entries_.size() + 1) {
    throw Error(fmt::format("load_state_dict: {} entries for an average of {} tensors; wrong: {}", state.size(),
                            entries_.size(), wrong.empty() ? "entries it does not know" : name_list(wrong)));
  }
  GradMode off(false);
  for (Entry& e : entries_) e.average.copy_(state.at(e.name));
  updates_ = state.at("n_averaged").item<std::int64_t>();
}

}  // namespace etna::optim
