#include <cmath>

#include <fmt/format.h>

#include <etna/models/encoder.h>
#include <etna/models/internal/table_rows.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::models {
namespace {

const VisionConfig& vision_checked(const VisionConfig& config) {
  config.check();
  return config;
}

/// Of the patches that become one row together.
std::int64_t square_width(const VisionConfig& config) { return config.blocks.width * config.merge * config.merge; }

/// The pairs of a head turn by a patch's line in the first half, and by its column in the second. @return [P, D/2]
Tensor patch_angles(std::int64_t lines, std::int64_t columns, std::int64_t head_size) {
  const Tensor frequencies = rotary_frequencies(head_size / 2);
  const Tensor line = arange(0, lines, 1, f32).unsqueeze(-1) * frequencies;
  const Tensor column = arange(0, columns, 1, f32).unsqueeze(-1) * frequencies;
  const Dims all{lines, columns, head_size / 4};
  const Tensor both = cat({line.unsqueeze(1).expand(all), column.unsqueeze(0).expand(all)}, -1);
  return both.reshape({lines * columns, head_size / 2});
}

/// The neighbours of each of `count` places that are spread evenly over `side` ones, and the second one's share.
struct SpreadPlaces {
  std::vector<std::int64_t> before, behind;
  std::vector<float> share;
};
SpreadPlaces spread_places(std::int64_t count, std::int64_t side) {
  SpreadPlaces places;
  const float last = static_cast<float>(side - 1), step = count > 1 ? last / static_cast<float>(count - 1) : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float at =
        i < count / 2 || count == 1 ? step * static_cast<float>(i) : last - step * static_cast<float>(count - 1 - i);
    const auto before = static_cast<std::int64_t>(at);
    places.before.push_back(before);
    places.behind.push_back(std::min(before + 1, side - 1));
    places.share.push_back(at - static_cast<float>(before));
  }
  return places;
}

}  // namespace

VisionProjector::VisionProjector(Weights& weights, const std::string& name, const VisionConfig& config, bool deep)
    : norm(config.merges == PatchMerge::shuffle
               ? nullptr
               : std::make_unique<Norm>(weights, name + ".norm",
                                        config.merges == PatchMerge::average ? NormKind::rms : NormKind::layer,
                                        deep ? square_width(config) : config.blocks.width, config.blocks.norm_eps,
                                        config.merges == PatchMerge::layers)),
      first(
          config.merges == PatchMerge::layers
              ? std::make_unique<Projection>(weights, name + ".first", square_width(config), square_width(config), true)
              : nullptr),
      last(weights, name + ".last", config.merges == PatchMerge::average ? config.blocks.width : square_width(config),
           config.decoder_width, config.merges == PatchMerge::layers),
      config_(config),
      deep_(deep) {
  if (norm) register_module("norm", *norm);
  if (first) register_module("first", *first);
  register_module("last", last);
}

Tensor VisionProjector::forward(const Tensor& x, std::int64_t lines) const {
  const std::int64_t batch = x.size(0), width = x.size(2), columns = x.size(1) / lines, side = config_.merge;
  const bool averages = config_.merges == PatchMerge::average;
  const Tensor normed = norm && !averages && !deep_ ? (*norm)(x) : x;
  // Squares of patches, in each its lines and columns.
  const Tensor squares = normed.reshape({batch, lines / side, side, columns / side, side, width})
                             .permute({0, 1, 3, 2, 4, 5})
                             .reshape({batch, x.size(1) / (side * side), side * side, width});
  if (averages) return last((*norm)(squares.mean(2)));
  const Tensor rows = squares.flatten(2, 3);
  if (!first) return last(rows);
  return last(gelu((*first)(deep_ ? (*norm)(rows) : rows)));
}

VisionTower::VisionTower(const VisionConfig& given, Weights& weights)
    : config(vision_checked(given)),
      patch_embedding(weights, "patch_embedding", 3 * config.patch_size * config.patch_size, config.blocks.width, true),
      position_embedding(weights, "position_embedding", config.blocks.width,
                         config.patches_per_side() * config.patches_per_side(), false),
      norm(config.merges == PatchMerge::layers
               ? nullptr
               : std::make_unique<Norm>(weights, "norm", NormKind::layer, config.blocks.width, config.blocks.norm_eps,
                                        true)),
      projector(weights, "projector", config) {
  register_module("patch_embedding", patch_embedding);
  register_module("position_embedding", position_embedding);
  register_module("blocks", blocks);
  for (std::int64_t i = 0; i < config.blocks.layers; ++i)
    blocks.emplace_back(weights, fmt::format("blocks.{}", i), config.blocks, i);
  if (norm) register_module("norm", *norm);
  register_module("projector", projector);
  register_module("deep", deep);
  for (std::size_t i = 0; i < config.deep_layers.size(); ++i)
    deep.emplace_back(weights, fmt::format("deep.{}", i), config, true);
}

/// Learned positions of a grid of patches; of another size than the table, linear between those of its neighbours.
Tensor VisionTower::positions(std::int64_t lines, std::int64_t columns, Device device) const {
  const std::int64_t side = config.patches_per_side();
  if (lines == side && columns == side) return table_rows(position_embedding, arange(0, side * side, 1, {i64, device}));
  const SpreadPlaces by_line = spread_places(lines, side), by_column = spread_places(columns, side);
  const auto places = [&](const std::vector<std::int64_t>& of_lines, const std::vector<std::int64_t>& of_columns) {
    std::vector<std::int64_t> all;
    for (const std::int64_t line : of_lines)
      for (const std::int64_t column : of_columns) all.push_back(line * side + column);
    const NotCaptured now;
    return from_vector(all, {lines, columns}, device);
  };
  const auto share = [&](const std::vector<float>& shares, const Shape& shape) {
    const NotCaptured now;
    return from_vector(shares, shape, device);
  };
  const Tensor down = share(by_line.share, {lines, 1, 1}), right = share(by_column.share, {1, columns, 1});
  const auto between = [&](const std::vector<std::int64_t>& of_lines) {
    return table_rows(position_embedding, places(of_lines, by_column.before)) * (1.0 - right) +
           table_rows(position_embedding, places(of_lines, by_column.behind)) * right;
  };
  return (between(by_line.before) * (1.0 - down) + between(by_line.behind) * down).flatten(0, 1);
}

VisionTower::Output VisionTower::forward(const Tensor& patches, std::int64_t lines,
                                         const std::function<void()>& between) const {
  const std::int64_t count = patches.dim() == 3 ? patches.size(1) : 0, side = config.merge;
  const std::int64_t columns = lines > 0 ? count / lines : 0;
  if (columns < 1 || patches.size(2) != patch_embedding.in || lines * columns != count || lines % side != 0 ||
      columns % side != 0) {
    throw ShapeError(
        fmt::format("VisionTower: patches are {} in {} lines; wanted [B, lines · columns, {}], both "
                    "multiples of {}",
                    str(patches.shape()), lines, patch_embedding.in, side));
  }
  const Device device = patches.device();
  EncoderSight sight;
  if (config.rotary) {
    const NotCaptured now;
    const Tensor angles = patch_angles(lines, columns, config.blocks.head_size).to(device);
    sight.cosines = cos(angles);
    sight.sines = sin(angles);
  }
  Tensor x = patch_embedding(patches) + positions(lines, columns, device);
  Output output;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    x = blocks[i].forward(x, sight);
    const std::size_t level = output.deep.size();
    if (level < deep.size() && config.deep_layers[level] == static_cast<std::int64_t>(i))
      output.deep.push_back(deep[level].forward(x, lines));
    if (between) between();
  }
  output.rows = projector.forward(norm ? (*norm)(x) : x, lines);
  return output;
}

}  // namespace etna::models
