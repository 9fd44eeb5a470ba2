#include <filesystem>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/models/encoder.h>
#include <etna/models/internal/file_config.h>
#include <etna/models/internal/model_source.h>
#include <etna/models/internal/vision_family.h>
#include <etna/models/internal/vision_names.h>
#include <etna/models/internal/vision_picture.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// The text that stands for a picture, and the special tokens in it behind which rows of each of its parts stand.
struct PlacedText {
  std::string text;
  std::vector<std::string> before_rows;
};

PlacedText text_of(const VisionFamily& family, const SeenPicture& picture) {
  PlacedText placed;
  const auto add = [&placed](std::string_view text) {
    placed.text += text;
    placed.before_rows.emplace_back(text.substr(text.rfind('<')));
  };
  if (!family.text.before.empty()) {
    // The words with which Gemma 3 was trained.
    const bool parts = picture.grids.size() > 1;
    if (parts) placed.text += "Here is the original image ";
    add(family.text.before);
    for (std::size_t part = 1; part < picture.grids.size(); ++part) {
      placed.text += family.text.after;
      placed.text += part == 1 ? " and here are some crops to help you see better " : " ";
      add(family.text.before);
    }
  } else {
    const std::string around(family.text.after);
    for (std::int64_t line = 1; line <= picture.tile_lines; ++line) {
      for (std::int64_t column = 1; column <= picture.tile_columns; ++column)
        add(fmt::format("{}<row_{}_col_{}>", around, line, column));
      placed.text += '\n';
    }
    if (picture.tile_lines > 0) placed.text += '\n';
    add(around + "<global-img>");
  }
  placed.text += family.text.after;
  return placed;
}

/// The rows that patches become.
std::int64_t rows_of(const VisionConfig& config, const PatchGrid& grid) {
  return grid.lines * grid.columns / (config.merge * config.merge);
}

/// The id of a special token. @return -1 where there is none
std::int32_t special_id(const data::Tokenizer& tokenizer, const std::string& spelling) {
  const std::vector<std::int32_t> ids = tokenizer.encode(spelling, data::SpecialTokens::recognize);
  return ids.size() == 1 ? ids[0] : -1;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// Parts in which the text of a picture stands in the place of each marker. @param texts of all pictures, in order
std::vector<data::TextPart> with_texts(std::span<const data::TextPart> parts, std::string_view marker,
                                       const std::vector<PlacedText>& texts) {
  std::vector<data::TextPart> all;
  auto next = texts.begin();
  for (const data::TextPart& part : parts) {
    std::size_t begin = 0;
    for (std::size_t at = part.text.find(marker); at != std::string::npos; at = part.text.find(marker, begin)) {
      if (at > begin) all.push_back({part.text.substr(begin, at - begin), part.special});
      all.push_back({next++->text, data::SpecialTokens::recognize});
      begin = at + marker.size();
    }
    if (begin < part.text.size() || part.text.empty()) all.push_back({part.text.substr(begin), part.special});
  }
  return all;
}

std::unique_ptr<VisionModel> load_vision_gguf(const FilePath& path, const LoadOptions& options) {
  const io::GgufFile file(path);
  const VisionConfig config = vision_config(file);
  StoredWeights weights(path.string(), with_patch_matrices(path.string(), tensors_of(file)),
                        gguf_vision_places(config, names_of(file)), {options.device, options.trainable});
  return std::make_unique<VisionModel>(config, weights, options.device);
}

VisionConfig folder_vision_config(const FilePath& path) {
  std::string preprocessor;
  for (const char* name : {"preprocessor_config.json", "processor_config.json"})
    if (preprocessor.empty() && is_file(path / name)) preprocessor = read_text(path / name);
  return vision_config(read_text(path / "config.json"), preprocessor, (path / "config.json").string());
}

std::unique_ptr<VisionModel> load_vision_folder(const FilePath& path, const LoadOptions& options) {
  const VisionConfig config = folder_vision_config(path);
  const io::ShardedSafetensors file(path);
  StoredWeights weights(path.string(), with_patch_matrices(path.string(), tensors_of(file)),
                        vision_places(config, names_of(file)), {options.device, options.trainable});
  return std::make_unique<VisionModel>(config, weights, options.device);
}

}  // namespace

VisionModel::VisionModel(const VisionConfig& config, Weights& weights, Device device)
    : tower(config, weights), device_(device) {}

std::string_view VisionModel::marker() const { return family_of(tower.config).text.marker; }

std::string VisionModel::marked(std::string text, std::size_t pictures) const {
  if (count_of(text, marker()) > 0) return text;
  std::string markers;
  for (std::size_t i = 0; i < pictures; ++i) markers += marker();
  return markers + text;
}

std::vector<ImageRows> VisionModel::rows(const Tensor& picture) const {
  SeenPicture all = seen(picture);
  while (!read(all)) {}
  return std::move(all.rows);
}

SeenPicture VisionModel::seen(const Tensor& picture) const {
  const NoGrad no_grad;
  return patches_of(tower.config, picture);
}

std::int64_t VisionModel::row_count(const SeenPicture& picture) const {
  std::int64_t rows = 0;
  for (const PatchGrid& grid : picture.grids) rows += rows_of(tower.config, grid);
  return rows;
}

bool VisionModel::read(SeenPicture& picture, const std::function<void()>& between) const {
  if (picture.is_read()) return true;
  const NoGrad no_grad;
  const auto index = std::ssize(picture.rows);
  PatchGrid& grid = picture.grids[picture.rows.size()];
  const VisionTower::Output output = tower.forward(grid.patches.unsqueeze(0).to(device_), grid.lines, between);
  ImageRows image{output.rows.select(0, 0), {}, grid.columns / tower.config.merge};
  for (const Tensor& deep : output.deep) image.deep.push_back(deep.select(0, 0));
  if (picture.content > 0) image.content = picture.content + index;
  grid.patches = Tensor();
  picture.rows.push_back(std::move(image));
  return picture.is_read();
}

PicturePlaces VisionModel::places(const data::Tokenizer& tokenizer, std::span<const data::TextPart> parts,
                                  SeenPictures pictures, std::string_view marker, bool add_special) const {
  const VisionFamily& family = family_of(tower.config);
  std::size_t markers = 0;
  for (const data::TextPart& part : parts) markers += count_of(part.text, marker);
  if (markers != pictures.size()) {
    throw Error(fmt::format("the prompt has places for {} images ('{}'), and there are {}; give as many of both",
                            markers, marker, pictures.size()));
  }
  std::vector<PlacedText> texts;
  std::vector<std::int32_t> before_rows;
  std::vector<std::int64_t> counts;
  for (const auto& picture : pictures) {
    texts.push_back(text_of(family, *picture));
    for (const std::string& spelling : texts.back().before_rows) {
      before_rows.push_back(special_id(tokenizer, spelling));
      if (before_rows.back() < 0)
        throw Error(fmt::format("the tokenizer has no token '{}', which stands for an image here", spelling));
    }
    for (const PatchGrid& grid : picture->grids) counts.push_back(rows_of(tower.config, grid));
  }
  PicturePlaces prompt;
  const std::int32_t row_token = special_id(tokenizer, std::string(family.text.token));
  for (const std::int32_t id : tokenizer.encode_parts(with_texts(parts, marker, texts), add_special)) {
    prompt.tokens.push_back(id);
    const std::size_t image = prompt.places.size();
    if (image == before_rows.size() || id != before_rows[image]) continue;
    prompt.places.push_back(std::ssize(prompt.tokens));
    prompt.tokens.insert(prompt.tokens.end(), static_cast<std::size_t>(counts[image]), row_token < 0 ? id : row_token);
  }
  if (prompt.places.size() != counts.size())
    throw Error(fmt::format("the tokenizer found {} of {} places for images", prompt.places.size(), counts.size()));
  return prompt;
}

std::shared_ptr<const PromptImages> VisionModel::images(SeenPictures pictures,
                                                        const std::vector<std::int64_t>& places) const {
  if (pictures.empty()) return nullptr;
  auto images = std::make_shared<PromptImages>();
  images->both_ways = tower.config.both_ways;
  images->places = places;
  for (const auto& picture : pictures)
    images->images.insert(images->images.end(), picture->rows.begin(), picture->rows.end());
  return images;
}

PicturePrompt VisionModel::prompt(const data::Tokenizer& tokenizer, std::span<const data::TextPart> parts,
                                  std::span<const Tensor> pictures, bool add_special) const {
  std::vector<std::shared_ptr<SeenPicture>> all;
  for (const Tensor& picture : pictures) all.push_back(std::make_shared<SeenPicture>(seen(picture)));
  PicturePlaces placed = places(tokenizer, parts, all, marker(), add_special);
  for (const auto& picture : all)
    while (!read(*picture)) {}
  return {std::move(placed.tokens), images(all, placed.places)};
}

PicturePrompt VisionModel::prompt(const data::Tokenizer& tokenizer, const std::string& text,
                                  std::span<const Tensor> pictures, bool add_special) const {
  const data::TextPart part{marked(text, pictures.size()), data::SpecialTokens::as_text};
  return prompt(tokenizer, std::span(&part, 1), pictures, add_special);
}

namespace {

/// What a tower keeps at once of a picture's largest part: patches, the stream and its norm, queries, keys and values
/// with their copy, what they attend to, the feed-forward layer's two, and rows with those that projectors read.
std::uint64_t picture_bytes(const VisionConfig& c, std::int64_t rows) {
  const std::int64_t square = c.merge * c.merge, pixels = c.patch_size * c.patch_size;
  const std::int64_t patches = c.fit == PictureFit::area
                                   ? std::min(c.most_pixels / pixels, std::max<std::int64_t>(rows, 1) * square)
                                   : c.patches_per_side() * c.patches_per_side();
  const std::int64_t levels = 1 + std::ssize(c.deep_layers);
  const std::int64_t columns = 3 * pixels + 9 * c.blocks.width + 2 * c.blocks.feed_forward + 2 * c.blocks.width;
  return static_cast<std::uint64_t>(patches * columns + patches / square * levels * c.decoder_width) * sizeof(float);
}

}  // namespace

std::uint64_t vision_bytes(const FilePath& path, std::int64_t rows) {
  std::error_code ignored;
  std::uint64_t weights = 0;
  if (std::filesystem::is_directory(path, ignored)) {
    const VisionConfig config = folder_vision_config(path);
    const io::ShardedSafetensors file(path);
    for (const std::string& name : file.names())
      if (is_of_vision(name)) weights += file.bytes(name).size();
    return weights + picture_bytes(config, rows);
  }
  require_plain_file(path);
  const io::GgufFile file(path);
  for (const io::GgufTensor& tensor : file.tensors()) weights += tensor.bytes;
  return weights + picture_bytes(vision_config(file), rows);
}

bool has_vision(const FilePath& path) try {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored))
    return is_file(path) && begins_as_gguf(path) && io::GgufFile(path).string("general.architecture", "") == "clip";
  if (!is_file(path / "config.json")) return false;
  const std::string name = (path / "config.json").string();
  const nlohmann::json config = data::parse_json_object(read_text(path / "config.json"), name, "config");
  const std::string type = data::JsonPart(config, "config", name).text("model_type", "");
  return find_vision_hugging_face(type) != nullptr && data::json_field(config, "vision_config") != nullptr;
} catch (const FormatError&) {
  return false;  // whoever reads it says what is wrong
}

std::unique_ptr<VisionModel> load_vision(const FilePath& path, const LoadOptions& options) {
  if (path.string().empty()) throw FormatError("a vision tower cannot be read: its path is empty");
  std::unique_ptr<VisionModel> model;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    if (!is_file(path / "config.json"))
      throw FormatError(fmt::format("{}: the folder has no config.json, as models of Hugging Face do", path.string()));
    model = load_vision_folder(path, options);
  } else {
    require_plain_file(path);
    if (!is_file(path))
      throw FormatError(fmt::format("{}: there is no such file, or it cannot be read", path.string()));
    if (!begins_as_gguf(path))
      throw FormatError(fmt::format("{}: has no vision tower: it is neither a folder of Hugging Face nor a GGUF file",
                                    path.string()));
    model = load_vision_gguf(path, options);
  }
  if (!options.trainable) model->tower.requires_grad_(false);
  return model;
}

}  // namespace etna::models
