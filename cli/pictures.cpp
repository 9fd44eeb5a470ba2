#include <filesystem>

#include <fmt/format.h>

#include <etna/data/vision.h>
#include <etna/device/error.h>
#include <etna/dist/dist.h>

#include "generation.h"
#include "model_kind.h"

namespace etna::cli {

void add_image_options(CLI::App& app, TextOptions& options) {
  // allow_extra_args(false): what follows the value may be the model.
  app.add_option("--image", options.images,
                 "a PNG or JPEG file that the model sees, in the place of the model's mark for images, or before the "
                 "text; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  add_mmproj_option(app, options);
}

void add_mmproj_option(CLI::App& app, ModelOptions& options) {
  app.add_option("--mmproj", options.mmproj,
                 "the vision tower of a model in a GGUF file: llama.cpp's mmproj file of it");
}

std::filesystem::path vision_path(const ModelOptions& options) {
  const bool apart = !options.mmproj.empty();
  const std::filesystem::path path = apart ? std::filesystem::path(options.mmproj) : model_path(options.model);
  require_plain_files(path);
  if (models::has_vision(path)) return path;
  throw FormatError(
      fmt::format("{}: has no vision tower that runs here, so it sees no images{}", path.string(),
                  apart ? "" : "; that of a model in a GGUF file is in a file of its own, which --mmproj names"));
}

std::unique_ptr<models::VisionModel> open_vision(const ModelOptions& options, const LoadedModel& model) {
  const std::filesystem::path path = vision_path(options);
  auto vision = models::load_vision(path, {.device = model.device});
  const std::int64_t made = vision->tower.config.decoder_width, width = model.model.decoder->config.width;
  if (made == width) return vision;
  throw FormatError(fmt::format("{}: its rows for images have {} numbers, those of {} have {}; it is of another model",
                                path.string(), made, options.model, width));
}

Pictures::Pictures(const TextOptions& options) : options_(options) {
  for (const std::string& file : options.images) {
    require_plain_files(file);
    pictures_.push_back(data::read_upright_image(file, data::ImageMode::rgb));
  }
}

void Pictures::open(const LoadedModel& model) {
  if (empty()) return;
  if (distributed::is_distributed()) throw Error("a model that is divided over processes reads no images");
  vision_ = open_vision(options_, model);
  // Before the tower works on what would not fit.
  std::int64_t rows = 0, content = 1;
  for (const Tensor& picture : pictures_) {
    seen_.push_back(std::make_shared<models::SeenPicture>(vision_->seen(picture)));
    seen_.back()->content = content;
    content += std::ssize(seen_.back()->grids);
    rows += vision_->row_count(*seen_.back());
  }
  if (rows > model.room())
    throw Error(fmt::format("the images take {} tokens, {} fit at once; give smaller ones, or a larger --context", rows,
                            model.room()));
}

Pictures::~Pictures() = default;

std::string Pictures::marked(const std::string& text) const {
  return vision_ ? vision_->marked(text, pictures_.size()) : text;
}

bool Pictures::is_marked(const std::string& text) const {
  return vision_ && text.find(vision_->marker()) != std::string::npos;
}

models::PicturePrompt Pictures::prompt(const data::Tokenizer& tokenizer, std::span<const data::TextPart> parts,
                                       bool add_special) const {
  if (!vision_) return {tokenizer.encode_parts(parts, add_special), nullptr};
  models::PicturePlaces placed = vision_->places(tokenizer, parts, seen_, vision_->marker(), add_special);
  for (const auto& picture : seen_)
    while (!vision_->read(*picture)) {}
  return {std::move(placed.tokens), vision_->images(seen_, placed.places)};
}

}  // namespace etna::cli
