#include <etna/serve/internal/images.h>

#include <algorithm>
#include <charconv>
#include <span>

#include <fmt/format.h>

#include <etna/data/vision.h>
#include <etna/device/error.h>
#include <etna/serve/api_error.h>
#include <etna/serve/engine.h>

namespace etna::serve {
namespace {

/// An image in the prompt, as its mark says.
struct FoundMark {
  std::size_t begin = 0, end = 0, image = 0;
};

/// The next mark in a text. @return begin is npos where there is none
FoundMark find_mark(const std::string& text, std::size_t from, const ChatImages& images) {
  const std::string head = images.mark + '-';
  const std::size_t at = text.find(head, from);
  if (at == std::string::npos) return {at};
  FoundMark mark{at};
  const char* digits = text.data() + at + head.size();
  const auto [end, error] = std::from_chars(digits, text.data() + text.size(), mark.image);
  mark.end = static_cast<std::size_t>(end - text.data()) + 1;
  const bool whole = error == std::errc{} && mark.end <= text.size() && *end == ';';
  if (!whole || mark.image >= images.files.size()) throw bad_request("messages", "the chat template changes images");
  return mark;
}

/// Leaves the mark alone in each place. @return the numbers of the images that stood there
std::vector<std::size_t> take_numbers(std::vector<data::TextPart>& parts, const ChatImages& images) {
  std::vector<std::size_t> numbers;
  for (data::TextPart& part : parts) {
    for (FoundMark mark = find_mark(part.text, 0, images); mark.begin != std::string::npos;
         mark = find_mark(part.text, mark.begin + images.mark.size(), images)) {
      part.text.replace(mark.begin, mark.end - mark.begin, images.mark);
      numbers.push_back(mark.image);
    }
  }
  return numbers;
}

}  // namespace

models::SeenPicture* RequestImages::unread() const {
  const auto found = std::find_if(images_.begin(), images_.end(), [](const auto& image) { return !image->is_read(); });
  return found == images_.end() ? nullptr : found->get();
}

const std::shared_ptr<const models::PromptImages>& RequestImages::prompt(const ImageStore& store) {
  if (!prompt_) prompt_ = store.vision().images(images_, places_);
  return prompt_;
}

bool same_images(const std::shared_ptr<RequestImages>& a, const std::shared_ptr<RequestImages>& b) {
  return a == b || (a && b && *a == *b);
}

SeenImage ImageStore::known(const std::string& file) {
  const auto found = images_.find(file);
  if (found == images_.end()) return nullptr;
  used_.splice(used_.end(), used_, found->second.place);
  return found->second.image;
}

/// What an image takes at most: its file, its patches, and then its rows.
std::int64_t ImageStore::bytes_of(const std::string& file, const models::SeenPicture& image) const {
  const models::VisionConfig& config = vision_.tower.config;
  std::int64_t patches = 0;
  for (const models::PatchGrid& grid : image.grids) patches += grid.patches.numel();
  const std::int64_t rows = vision_.row_count(image) * (1 + std::ssize(config.deep_layers)) * config.decoder_width;
  return std::ssize(file) + std::max(patches, rows) * static_cast<std::int64_t>(sizeof(float));
}

/// Forgets images that no request has. @throws ApiError 429 where requests have too many
void ImageStore::make_room(std::int64_t bytes) {
  for (auto at = used_.begin(); at != used_.end() && bytes_ + bytes > limits_.bytes;) {
    const auto found = images_.find(**at);
    if (found->second.image.use_count() > 1) {
      ++at;
      continue;
    }
    bytes_ -= found->second.bytes;
    at = used_.erase(at);
    images_.erase(found);
  }
  // One image alone is fine, however large.
  if (bytes_ > 0 && bytes_ + bytes > limits_.bytes)
    throw too_many("the images of other requests fill the memory that this server has for them; try again later", 5);
}

SeenImage ImageStore::find(const std::string& file, const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    if (SeenImage image = known(file)) return image;
  }
  const std::lock_guard one_at_a_time(decoding_);
  {
    const std::lock_guard lock(mutex_);
    if (SeenImage image = known(file)) return image;
  }
  SeenImage image;
  try {
    const std::span<const char> bytes(file);
    image = std::make_shared<models::SeenPicture>(vision_.seen(data::decode_upright_image(
        std::as_bytes(bytes), data::ImageMode::rgb, static_cast<std::uint64_t>(limits_.pixels))));
  } catch (const OutOfMemory&) {
    throw unavailable("there is too little memory for an image of this size", "out_of_memory");
  } catch (const FormatError& error) {
    throw bad_request(path, fmt::format("{} {}", path, error.what()));
  } catch (const Error& error) {
    throw bad_request(path, fmt::format("{} cannot be read: {}", path, error.what()));
  }
  const std::lock_guard lock(mutex_);
  const std::int64_t bytes = bytes_of(file, *image);
  make_room(bytes);
  image->content = contents_;
  contents_ += std::ssize(image->grids);
  const auto added = images_.emplace(file, Entry{image, bytes, {}}).first;
  added->second.place = used_.insert(used_.end(), &added->first);
  bytes_ += bytes;
  return image;
}

void ImageStore::read(models::SeenPicture& image, const std::function<void()>& between) const {
  vision_.read(image, between);
  models::ImageRows& made = image.rows.back();
  made.rows = made.rows.to(kCPU);
  for (Tensor& deep : made.deep) deep = deep.to(kCPU);
}

std::vector<SeenImage> find_images(const ServedModel& model, const ChatImages& images) {
  std::vector<SeenImage> found;
  if (images.files.empty()) return found;
  if (model.images == nullptr)
    throw bad_request(images.paths[0], fmt::format("the model '{}' sees no images here; send text", model.name),
                      "unsupported_value");
  const std::int64_t most = model.images->limits().images;
  if (std::ssize(images.files) > most)
    throw bad_request("messages", fmt::format("the messages have {} images; this server reads at most {} of a request",
                                              images.files.size(), most));
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < images.files.size(); ++i) {
    found.push_back(model.images->find(images.files[i], images.paths[i]));
    rows += model.images->vision().row_count(*found.back());
    if (rows > model.context)
      throw bad_request(images.paths[i],
                        fmt::format("the images take {} tokens; '{}' has a context of {} tokens here; send fewer or "
                                    "smaller ones",
                                    rows, model.name, model.context),
                        "context_length_exceeded");
  }
  return found;
}

ImagePrompt image_prompt(const ServedModel& model, const data::Tokenizer& tokenizer, std::vector<data::TextPart> parts,
                         const ChatImages& marks, const std::vector<SeenImage>& images) {
  if (images.empty()) return {tokenizer.encode_parts(parts)};
  std::vector<SeenImage> placed;
  for (const std::size_t number : take_numbers(parts, marks)) placed.push_back(images[number]);
  if (placed.size() < images.size())
    throw bad_request("messages", "this model's chat template leaves out images of the messages");
  try {
    models::PicturePlaces prompt = model.images->vision().places(tokenizer, parts, placed, marks.mark);
    return {std::move(prompt.tokens), std::make_shared<RequestImages>(std::move(placed), std::move(prompt.places))};
  } catch (const Error& error) {
    throw bad_request("messages", fmt::format("the images have no place in the prompt: {}", error.what()));
  }
}

}  // namespace etna::serve
