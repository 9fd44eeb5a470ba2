#include <algorithm>

#include <fmt/format.h>

#include <etna/models/internal/generator_slots.h>
#include <etna/tensor/ops.h>

// Images in prompts.
namespace etna::models {
namespace {

std::int64_t row_count(const ImageRows& image) { return image.rows.size(0); }

/// Of one position: its number in the text, and where it is in an image.
struct RopePlace {
  std::int64_t number = 0, line = 0, column = 0;
};

/// An image takes as many positions as its longer side has rows, and rows have their lines and columns in it. All are
/// moved so that the text's end is where the cache has it: scores depend on distances alone.
std::vector<RopePlace> rope_places(const PromptImages& images, std::int64_t length) {
  std::vector<RopePlace> places;
  std::int64_t next = 0;
  for (std::size_t i = 0; std::ssize(places) < length;) {
    if (i == images.images.size() || std::ssize(places) < images.places[i]) {
      places.push_back({next, next, next});
      ++next;
      continue;
    }
    const ImageRows& image = images.images[i++];
    const std::int64_t rows = row_count(image), lines = rows / image.columns;
    for (std::int64_t r = 0; r < rows; ++r)
      places.push_back({next, next + r / image.columns, next + r % image.columns});
    next += std::max(lines, image.columns);
  }
  for (RopePlace& place : places) {
    place.number += length - next;
    place.line += length - next;
    place.column += length - next;
  }
  return places;
}

/// @return [count, pairs of rope]
Tensor pair_positions(const RopeConfig& rope, const PromptImages& images, std::int64_t length, std::int64_t at,
                      std::int64_t count) {
  const std::int64_t size = rope.size / 2;
  const std::vector<RopePlace> places = rope_places(images, length);
  std::vector<float> all;
  for (std::int64_t p = at; p < at + count; ++p) {
    const RopePlace& place = places[static_cast<std::size_t>(p)];
    for (std::int64_t pair = 0; pair < size; ++pair) {
      const bool line = pair % 3 == 1 && pair / 3 < rope.pairs_by_place[0];
      const bool column = pair % 3 == 2 && pair / 3 < rope.pairs_by_place[1];
      all.push_back(static_cast<float>(line ? place.line : column ? place.column : place.number));
    }
  }
  return from_vector(all, {count, size});
}

/// By how much the positions of a text's end are moved.
std::int64_t shift_of(const PromptImages& images) {
  std::int64_t shift = 0;
  for (const ImageRows& image : images.images)
    shift += row_count(image) - std::max(row_count(image) / image.columns, image.columns);
  return shift;
}

}  // namespace

CachedPrompt cached_prompt(const DecoderConfig& config, std::int64_t adapter, const PromptImages* images) {
  CachedPrompt prompt{.adapter = adapter, .contents = {}};
  if (images == nullptr) return prompt;
  if (!config.rope.pairs_by_place.empty()) prompt.shift = shift_of(*images);
  for (std::size_t i = 0; i < images->images.size(); ++i) {
    const ImageRows& image = images->images[i];
    prompt.contents.push_back({images->places[i], images->places[i] + row_count(image), image.content});
    prompt.known = prompt.known && image.content > 0;
  }
  return prompt;
}

std::int64_t shared_length(const PromptImages* images, std::int64_t length) {
  std::int64_t shared = (length - 1) / kCacheBlock * kCacheBlock;
  for (std::size_t i = images == nullptr ? 0 : images->images.size(); i-- > 0;) {
    const std::int64_t begin = images->places[i], end = begin + row_count(images->images[i]);
    if (begin < shared && shared < end) shared = begin / kCacheBlock * kCacheBlock;
  }
  return shared;
}

std::int64_t whole_images(const PromptImages& images, std::int64_t at, std::int64_t count) {
  for (std::size_t i = 0; i < images.images.size(); ++i) {
    const std::int64_t begin = images.places[i], end = begin + row_count(images.images[i]);
    if (begin < at + count && at + count < end) return begin > at ? begin - at : end - at;
  }
  return count;
}

void Generator::check_images(const PromptImages& images, std::int64_t length) const {
  if (images.images.size() != images.places.size())
    throw Error(fmt::format("Generator: {} images have {} places in the prompt; wanted one each", images.images.size(),
                            images.places.size()));
  std::int64_t end = 0;
  for (std::size_t i = 0; i < images.images.size(); ++i) {
    const ImageRows& image = images.images[i];
    const auto check = [&](const Tensor& rows) {
      if (rows.defined() && rows.dim() == 2 && rows.size(1) == model_.config.width && rows.size(0) > 0 &&
          rows.shape() == image.rows.shape())
        return;
      throw ShapeError(fmt::format("Generator: image {} has rows {}; the model wants [N, {}]", i,
                                   rows.defined() ? str(rows.shape()) : "undefined", model_.config.width));
    };
    check(image.rows);
    for (const Tensor& rows : image.deep) check(rows);
    if (image.deep.size() != images.images[0].deep.size() || std::ssize(image.deep) > model_.config.layers)
      throw Error(fmt::format("Generator: image {} has rows for {} blocks, the first one for {}; the model has {}", i,
                              image.deep.size(), images.images[0].deep.size(), model_.config.layers));
    if (image.columns < 1 || row_count(image) % image.columns != 0)
      throw Error(fmt::format("Generator: image {} has {} rows, which are no grid of {} columns", i, row_count(image),
                              image.columns));
    if (images.places[i] < end || images.places[i] + row_count(image) > length) {
      throw Error(fmt::format(
          "Generator: image {} has {} rows from token {} on; the prompt has {} tokens, of which {} come before it", i,
          row_count(image), images.places[i], length, end));
    }
    end = images.places[i] + row_count(image);
  }
}

/// What images make of tokens [at, at + count) of a prompt; nothing where it is a chunk like those of other prompts.
/// @param length of the prompt
std::optional<ImageChunk> Generator::image_chunk(const PromptImages* images, std::int64_t length, std::int64_t at,
                                                 std::int64_t count) const {
  if (images == nullptr) return std::nullopt;
  const Device device = options_.device;
  const auto no_rows = [&](std::int64_t rows) { return zeros({rows, model_.config.width}, {f32, device}); };
  const std::size_t levels = images->images.empty() ? 0 : images->images[0].deep.size();
  // Of the chunk: the first block's input, then what is added to blocks' results; and each position's image.
  std::vector<std::vector<Tensor>> rows(1 + levels);
  std::vector<std::int32_t> image_of(static_cast<std::size_t>(at + count), 0);
  std::int64_t written = at;
  for (std::size_t i = 0; i < images->images.size() && images->places[i] < at + count; ++i) {
    const ImageRows& image = images->images[i];
    const std::int64_t begin = images->places[i], end = begin + row_count(image);
    std::fill(image_of.begin() + begin, image_of.begin() + end, static_cast<std::int32_t>(i + 1));
    if (begin < at) continue;
    for (std::size_t level = 0; level <= levels; ++level) {
      rows[level].push_back(no_rows(begin - written));
      rows[level].push_back((level == 0 ? image.rows : image.deep[level - 1]).to(device, f32));
    }
    written = end;
  }
  const RopeConfig& rope = model_.config.rope;
  if (rows[0].empty() && rope.pairs_by_place.empty()) return std::nullopt;
  const auto joined = [&](std::vector<Tensor>& parts) {
    parts.push_back(no_rows(at + count - written));
    return cat(parts, 0).unsqueeze(0);
  };
  const std::vector<std::int32_t> own(image_of.begin() + at, image_of.end());
  ImageChunk chunk{.is_token = from_vector(own, {1, count, 1}, device) == 0.0, .rows = joined(rows[0]), .deep = {}};
  for (std::size_t level = 1; level <= levels; ++level) chunk.deep.push_back(joined(rows[level]));
  if (!rope.pairs_by_place.empty()) chunk.pair_positions = pair_positions(rope, *images, length, at, count).to(device);
  if (images->both_ways && written > at) chunk.images = from_vector(image_of, device);
  return chunk;
}

}  // namespace etna::models
