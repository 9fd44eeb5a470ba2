#include <etna/models/internal/state_config.h>

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include <etna/tensor/ops/recurrent/internal/states.h>

// Layers with a state: their sizes.
namespace etna::models {

std::int64_t state_parameters(const DecoderConfig& c, MixerKind mixer) {
  const StateConfig& s = c.state;
  const std::int64_t channels = c.state_channels(mixer), taps = channels * (s.kernel + (s.kernel_bias ? 1 : 0));
  if (mixer == MixerKind::convolution)
    return taps + c.width * 4 * c.width + (s.input_bias ? 3 * c.width : 0) + (s.output_bias ? c.width : 0);
  const std::int64_t values = s.value_rows(), output = c.width * values + (s.output_bias ? c.width : 0);
  if (mixer == MixerKind::delta)
    return taps + output + c.width * (channels + values + 2 * s.heads) + 2 * s.heads + s.value_size;
  const std::int64_t input = values + channels + s.heads;
  return taps + output + input * (c.width + (s.input_bias ? 1 : 0)) + 3 * s.heads + (s.norm ? values : 0);
}

bool has_dense_layer(const DecoderConfig& c) {
  if (c.each_layer.empty()) return c.experts.count == 0;
  return std::any_of(c.each_layer.begin(), c.each_layer.end(),
                     [](const LayerConfig& layer) { return layer.has_feed_forward && !layer.experts; });
}

void check_states(const DecoderConfig& c) {
  if (!c.has_state()) return;
  const auto refuse = [](const std::string& what) { throw FormatError(what); };
  const StateConfig& s = c.state;
  const bool alone = std::none_of(c.each_layer.begin(), c.each_layer.end(), [](const LayerConfig& layer) {
    return layer.mixer == MixerKind::delta || layer.has_mamba();
  });
  const std::int64_t heads = alone ? 0 : 1;
  for (const auto& [what, value, least, most] :
       {std::tuple{"the number of positions that the convolution of a state spans", s.kernel, std::int64_t{1},
                   kMostConvolution},
        std::tuple{"the number of heads of a state", s.heads, heads, std::int64_t{1} << 14},
        std::tuple{"the number of heads of a state's keys", s.key_heads, heads, std::int64_t{1} << 14},
        std::tuple{"the size of a state's keys", s.key_size, heads, std::int64_t{1} << 12},
        std::tuple{"the size of a state's values", s.value_size, heads, std::int64_t{1} << 14}}) {
    if (value < least || value > most)
      refuse(fmt::format("{} is {}; it must be from {} to {}", what, value, least, most));
  }
  if (!alone && s.heads % s.key_heads != 0)
    refuse(fmt::format("{} heads of a state cannot share {} heads of keys; the second must divide the first", s.heads,
                       s.key_heads));
  if (s.norm_groups < 1 || s.value_rows() % s.norm_groups != 0)
    refuse(fmt::format("{} elements of a state's result are not {} groups", s.value_rows(), s.norm_groups));
  if (!(s.least_step >= 0 && s.least_step <= s.largest_step))
    refuse(fmt::format("steps of time are limited to {} to {}; wanted 0 or above, in this order", s.least_step,
                       s.largest_step));
  for (const double scale : {s.input_scale, s.output_scale, s.part_scales[0], s.part_scales[1], s.part_scales[2],
                             s.part_scales[3], s.part_scales[4]})
    if (!(scale >= -1e6 && scale <= 1e6)) refuse(fmt::format("a factor of a state's layer is {}", scale));
  if (c.parallel || c.post_norms || !c.pre_norms || c.norm != NormKind::rms || c.sub_norms)
    refuse("blocks with a state have an RMS norm in front of each sublayer, and run these one after the other");
}

}  // namespace etna::models
