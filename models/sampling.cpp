#include <etna/models/sampling.h>

#include <cmath>

#include <fmt/format.h>

namespace etna::models {

void SamplingOptions::check(std::int64_t vocabulary) const {
  const auto refuse = [](const char* name, double value, const char* wanted) {
    throw Error(fmt::format("sampling: {} is {}; wanted {}", name, value, wanted));
  };
  if (!(temperature >= 0) || !std::isfinite(temperature)) refuse("temperature", temperature, "0 or more");
  if (top_k < 0) refuse("top_k", static_cast<double>(top_k), "0 (all) or more");
  if (!(top_p >= 0 && top_p <= 1)) refuse("top_p", top_p, "from 0 to 1");
  if (!(min_p >= 0 && min_p <= 1)) refuse("min_p", min_p, "from 0 to 1");
  if (!(typical_p >= 0 && typical_p <= 1)) refuse("typical_p", typical_p, "from 0 to 1");
  if (!(repetition_penalty > 0) || !std::isfinite(repetition_penalty))
    refuse("repetition_penalty", repetition_penalty, "above 0");
  if (!std::isfinite(presence_penalty)) refuse("presence_penalty", presence_penalty, "a number");
  if (!std::isfinite(frequency_penalty)) refuse("frequency_penalty", frequency_penalty, "a number");
  std::int64_t forbidden = 0;
  for (const auto& [token, bias] : logit_bias) {
    forbidden += std::isinf(bias) ? 1 : 0;
    if (token < 0 || token >= vocabulary)
      throw Error(fmt::format("sampling: logit bias for token {}; the vocabulary has {} tokens", token, vocabulary));
    if (std::isnan(bias) || (std::isinf(bias) && bias > 0))
      refuse("a logit bias", static_cast<double>(bias), "a number, or minus infinity");
  }
  if (forbidden > 0 && forbidden == vocabulary)
    throw Error(fmt::format("sampling: logit biases forbid all {} tokens; leave at least one", vocabulary));
}

}  // namespace etna::models
