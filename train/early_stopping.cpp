#include <etna/train/evaluator.h>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/ops.h>

namespace etna::training {

EarlyStopping::EarlyStopping(EarlyStoppingOptions options) : options_(options) {
  if (options.patience < 0 || !(options.min_delta >= 0)) {
    throw Error(fmt::format("EarlyStopping: a patience of {} and a min_delta of {}; neither may be negative",
                            options.patience, options.min_delta));
  }
}

bool EarlyStopping::improved(double value) {
  const double cost = options_.maximize ? -value : value;
  const bool better = cost < best_ - options_.min_delta;
  if (better) best_ = cost;
  bad_ = better ? 0 : bad_ + 1;
  return better;
}

std::map<std::string, Tensor> EarlyStopping::state_dict() const {
  return {{"best", scalar(best_, {f64})}, {"num_bad", scalar(static_cast<double>(bad_), {f64})}};
}

void EarlyStopping::load_state_dict(const std::map<std::string, Tensor>& state) {
  if (state.size() != 2 || !state.contains("best") || !state.contains("num_bad"))
    throw Error("EarlyStopping: the state should hold best and num_bad");
  best_ = state.at("best").item<double>();
  bad_ = state.at("num_bad").item<std::int64_t>();
}

}  // namespace etna::training
