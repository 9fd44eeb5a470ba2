#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/data/transforms.h>
#include <etna/models/internal/file_config.h>
#include <etna/models/internal/vision_family.h>
#include <etna/tensor/io/gguf.h>

namespace etna::models {
namespace {

using VisionJson = nlohmann::json;
using data::transforms::ResampleFilter;
constexpr const char* kVisionUse = "a vision tower";
/// Of a side, in pixels, but for tiles.
constexpr std::int64_t kMostTiles = 32, kMostOfPatch = 1 << 10, kMostOfImage = 1 << 14;

/// The whole root of a number of squares of an image; 0 where it has none.
std::int64_t side_of(std::int64_t area) {
  if (area < 1 || area > kMostOfImage * kMostOfImage) return 0;
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(area))));
  return side * side == area ? side : 0;
}

class VisionReader {
 public:
  VisionReader(const VisionJson& json, const std::string& name)
      : json_(json, "config", name, kVisionUse),
        family_(find_vision_hugging_face(json_.text("model_type", ""))),
        tower_(part_of(json, "vision_config"), "vision_config", name, kVisionUse),
        text_(part_of(json, "text_config"), "text_config", name, kVisionUse) {}

  VisionConfig read() const {
    if (family_ == nullptr) {
      json_.refuse(fmt::format("is of a model of the type '{}', whose vision does not run here; that of these does: {}",
                               json_.text("model_type", ""), vision_names()));
    }
    VisionConfig c;
    family_->apply(c);
    c.family = family_->hugging_face;
    EncoderConfig& blocks = c.blocks;
    blocks.width = size("hidden_size", blocks.width);
    blocks.layers = size("num_hidden_layers", blocks.layers);
    blocks.heads = size("num_attention_heads", blocks.heads);
    blocks.feed_forward = size("intermediate_size", blocks.feed_forward);
    blocks.norm_eps = tower_.number("layer_norm_eps", blocks.norm_eps);
    if (const std::string activation = tower_.text("hidden_act", ""); !activation.empty())
      blocks.activation = read_activation(activation);
    c.patch_size = size("patch_size", c.patch_size);
    c.image_size = size("image_size", c.image_size);
    c.decoder_width = text_.integer("hidden_size", 0);
    if (const std::int64_t channels = tower_.integer("num_channels", tower_.integer("in_channels", 3)); channels != 3)
      tower_.refuse(fmt::format("is for pictures of {} channels; those of 3 run here", channels));
    read_merge(c);
    return c;
  }

 private:
  static const VisionJson& part_of(const VisionJson& json, const char* name) {
    static const VisionJson none = VisionJson::object();
    const VisionJson* part = data::json_field(json, name);
    return part != nullptr ? *part : none;
  }
  std::int64_t size(const char* own, std::int64_t otherwise) const {
    for (const auto& [siglip, theirs] : family_->keys)
      if (siglip == own) return tower_.integer(theirs.data(), otherwise);
    return tower_.integer(own, otherwise);
  }

  void read_merge(VisionConfig& c) const {
    if (c.patch_size < 1 || c.patch_size > kMostOfPatch) return;  // which check() refuses
    if (c.merges == PatchMerge::shuffle) c.merge = json_.integer("scale_factor", c.merge);
    if (c.merges == PatchMerge::average) {
      const std::int64_t side = side_of(json_.integer("mm_tokens_per_image", 256));
      if (side < 1) json_.refuse("has 'mm_tokens_per_image' that are no square");
      c.merge = std::max<std::int64_t>(1, c.patches_per_side() / side);
    }
    if (c.merges != PatchMerge::layers) return;
    c.merge = tower_.integer("spatial_merge_size", c.merge);
    const std::int64_t side = side_of(tower_.integer("num_position_embeddings", 2304));
    if (side < 1) tower_.refuse("has 'num_position_embeddings' that are no square");
    c.image_size = side * c.patch_size;
    c.decoder_width = tower_.integer("out_hidden_size", c.decoder_width);
    const VisionJson* deep = tower_.find("deepstack_visual_indexes");
    if (deep == nullptr) return;
    c.deep_layers.clear();
    for (const VisionJson& index : deep->is_array() ? *deep : VisionJson::array()) {
      if (!index.is_number_integer()) tower_.refuse("has 'deepstack_visual_indexes' that are no list of numbers");
      c.deep_layers.push_back(index.get<std::int64_t>());
    }
  }

  const data::JsonPart json_;
  const VisionFamily* family_;
  const data::JsonPart tower_, text_;
};

/// Three numbers, or none.
void read_channels(const data::JsonPart& part, const char* key, std::vector<double>& numbers) {
  const VisionJson* list = part.find(key);
  if (list == nullptr) return;
  numbers.clear();
  for (const VisionJson& number : list->is_array() ? *list : VisionJson::array())
    numbers.push_back(number.is_number() ? number.get<double>() : NAN);
  const bool fine =
      numbers.size() == 3 && std::all_of(numbers.begin(), numbers.end(), [](double n) { return std::isfinite(n); });
  if (!fine) part.refuse(fmt::format("has '{}' that is no list of three numbers", key));
}

/// What preprocessor_config.json says; parts of processor_config.json are the same.
void read_preprocessor(std::string_view text, const std::string& name, VisionConfig& c) {
  const VisionJson json = data::parse_json_object(text, name, "preprocessor config");
  const VisionJson* inner = data::json_field(json, "image_processor");
  const data::JsonPart part(inner != nullptr ? *inner : json, "preprocessor config", name, kVisionUse);
  if (part.flag("do_normalize", true)) {
    read_channels(part, "image_mean", c.mean);
    read_channels(part, "image_std", c.deviation);
  } else {
    c.mean = {0, 0, 0};
    c.deviation = {1, 1, 1};
  }
  const std::int64_t filter = part.integer("resample", -1);
  if (filter == 0 || filter > 3)
    part.refuse(fmt::format("scales pictures by filter {}, which does not run here", filter));
  if (filter > 0)
    c.filter = filter == 1 ? ResampleFilter::lanczos : filter == 2 ? ResampleFilter::bilinear : ResampleFilter::bicubic;
  const VisionJson* size = part.find("size");
  const VisionJson none = VisionJson::object();
  const data::JsonPart of_size(size != nullptr && size->is_object() ? *size : none, "size", name, kVisionUse);
  if (c.fit == PictureFit::square && part.flag("do_pan_and_scan", false)) {
    c.pan_parts = part.integer("pan_and_scan_max_num_crops", 4);
    c.pan_pixels = part.integer("pan_and_scan_min_crop_size", c.pan_pixels);
    c.pan_ratio = part.number("pan_and_scan_min_ratio_to_activate", c.pan_ratio);
  }
  if (c.fit == PictureFit::tiles) {
    c.splits = part.flag("do_image_splitting", c.splits);
    c.longest_edge = of_size.integer("longest_edge", c.longest_edge);
  }
  if (c.fit == PictureFit::area) {
    c.least_pixels = of_size.integer("shortest_edge", part.integer("min_pixels", c.least_pixels));
    c.most_pixels = of_size.integer("longest_edge", part.integer("max_pixels", c.most_pixels));
  }
}

/// Sizes that follow from others.
void fill_vision(VisionConfig& c) {
  c.blocks.vocabulary = c.blocks.context = 1;
  c.blocks.head_size = c.blocks.heads > 0 ? c.blocks.width / c.blocks.heads : 0;
  c.blocks.embedding_width = c.blocks.width;
  if (c.fit == PictureFit::tiles && c.longest_edge == 0) c.longest_edge = 4 * std::min(c.image_size, kMostOfImage);
}

VisionConfig read_gguf_vision(const io::GgufFile& file) {
  if (const std::string kind = file.string("general.architecture", ""); kind != "clip")
    throw FormatError(fmt::format("is of the architecture '{}'; files of vision towers say 'clip'", kind));
  const std::string type = file.string("clip.vision.projector_type", file.string("clip.projector_type", ""));
  const VisionFamily* family = find_vision_gguf(type);
  if (family == nullptr)
    throw FormatError(
        fmt::format("projectors of the type '{}' do not run here; these do: gemma3, idefics3, "
                    "qwen3vl_merger",
                    type));
  const auto key = [](const char* last) { return std::string("clip.vision.") + last; };
  VisionConfig c;
  family->apply(c);
  c.family = family->hugging_face;
  c.blocks.width = file.integer(key("embedding_length"));
  c.blocks.layers = file.integer(key("block_count"));
  c.blocks.heads = file.integer(key("attention.head_count"));
  c.blocks.feed_forward = file.integer(key("feed_forward_length"));
  c.blocks.norm_eps = file.number(key("attention.layer_norm_epsilon"), c.blocks.norm_eps);
  if (file.boolean("clip.use_silu", false)) c.blocks.activation = Activation::silu;
  c.patch_size = file.integer(key("patch_size"));
  c.image_size = file.integer(key("image_size"));
  c.decoder_width = file.integer(key("projection_dim"));
  if (c.merges == PatchMerge::average) c.merge = 4;
  c.merge = file.integer(key("projector.scale_factor"), file.integer(key("spatial_merge_size"), c.merge));
  if (c.fit == PictureFit::tiles) c.longest_edge = file.integer(key("preproc_image_size"), c.longest_edge);
  for (const auto& [name, numbers] : {std::pair{"image_mean", &c.mean}, std::pair{"image_std", &c.deviation}}) {
    if (file.find(key(name)) == nullptr) continue;
    const std::vector<float> list = file.numbers(key(name));
    numbers->assign(list.begin(), list.end());
  }
  if (c.merges == PatchMerge::layers && c.patch_size >= 1 && c.patch_size <= kMostOfPatch) {
    const io::GgufTensor* positions = file.find_tensor("v.position_embd.weight");
    if (positions != nullptr && positions->shape.rank() == 2)
      c.image_size = side_of(positions->shape[0]) * c.patch_size;
    c.deep_layers.clear();
    for (std::int64_t i = 0; i < std::min<std::int64_t>(c.blocks.layers, 1 << 14); ++i)
      if (file.find_tensor(fmt::format("v.deepstack.{}.fc1.weight", i)) != nullptr) c.deep_layers.push_back(i);
  }
  return c;
}

}  // namespace

void VisionConfig::check() const {
  const auto refuse = [](const std::string& what) { throw FormatError("a vision tower cannot be made: " + what); };
  blocks.check();
  struct Size {
    const char* name;
    std::int64_t value, most;
  };
  for (const Size& size : {Size{"image_size", image_size, kMostOfImage},
                           {"patch_size", patch_size, kMostOfPatch},
                           {"merge", merge, 1 << 6},
                           {"decoder_width", decoder_width, 1 << 20}}) {
    if (size.value < 1 || size.value > size.most)
      refuse(fmt::format("{} is {}; it must be from 1 to {}", size.name, size.value, size.most));
  }
  if (blocks.head_size * blocks.heads != blocks.width)
    refuse(fmt::format("width is {}, which {} heads do not divide", blocks.width, blocks.heads));
  if (rotary && blocks.head_size % 4 != 0)
    refuse(fmt::format("heads have {} elements; those that turn by line and column need multiples of 4",
                       blocks.head_size));
  if (image_size % patch_size != 0 || (fit != PictureFit::area && patches_per_side() % merge != 0))
    refuse(fmt::format("pictures of {} pixels are not divided by patches of {} in squares of {}", image_size,
                       patch_size, merge));
  for (std::size_t i = 0; i < deep_layers.size(); ++i)
    if (deep_layers[i] < 0 || deep_layers[i] >= blocks.layers || (i > 0 && deep_layers[i] <= deep_layers[i - 1]))
      refuse(fmt::format("deep_layers has {}; wanted ascending numbers below {}", deep_layers[i], blocks.layers));
  if (mean.size() != 3 || deviation.size() != 3 ||
      std::any_of(deviation.begin(), deviation.end(), [](double d) { return !(d > 0); }))
    refuse("means and deviations of channels must be three each, and these above 0");
  if (pan_parts != 0 && (pan_parts < 2 || pan_parts > kMostTiles || pan_pixels < 1 || !(pan_ratio >= 1)))
    refuse(
        fmt::format("pictures are cut into {} parts of {} pixels from a ratio of {} on; wanted 2 to {}, 1 or more, "
                    "and 1 or more",
                    pan_parts, pan_pixels, pan_ratio, kMostTiles));
  if (fit == PictureFit::tiles && (longest_edge < 1 || longest_edge > kMostTiles * image_size))
    refuse(
        fmt::format("longest_edge is {}; it must be from 1 to {} tiles of {}", longest_edge, kMostTiles, image_size));
  if (fit == PictureFit::area && (least_pixels < 1 || most_pixels < least_pixels || most_pixels > 1 << 28))
    refuse(fmt::format("pictures have {} to {} pixels; wanted 1 or more, ascending, up to {}", least_pixels,
                       most_pixels, 1 << 28));
}

VisionConfig vision_config(std::string_view text, std::string_view preprocessor, const std::string& name) {
  try {
    VisionConfig config = VisionReader(data::parse_json_object(text, name, "config"), name).read();
    if (!preprocessor.empty()) read_preprocessor(preprocessor, name, config);
    fill_vision(config);
    config.check();
    return config;
  } catch (const FormatError& error) {
    const std::string what = error.what();
    throw FormatError(what.starts_with(name) ? what : fmt::format("{}: {}", name, what));
  }
}

VisionConfig vision_config(const io::GgufFile& file) {
  try {
    VisionConfig config = read_gguf_vision(file);
    fill_vision(config);
    config.check();
    return config;
  } catch (const FormatError& error) {
    const std::string what = error.what(), path = file.path().string();
    if (what.find(path) != std::string::npos) throw;
    throw FormatError(fmt::format("{}: {}", path, what));
  }
}

}  // namespace etna::models
