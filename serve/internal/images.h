#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/models/encoder.h>
#include <etna/serve/chat_request.h>

/// The images of requests. Internal.
namespace etna::serve {

struct ServedModel;

using SeenImage = std::shared_ptr<models::SeenPicture>;

struct ImageLimits {
  std::int64_t images = 16;                     ///< of a request
  std::int64_t pixels = std::int64_t{1} << 26;  ///< of an image
  std::int64_t bytes = std::int64_t{1} << 30;   ///< of all images in memory, with their files
};

/// The images of a model's last requests: one that is sent again, as in each turn of a chat, is the same object, so
/// that it goes through the tower once. Rows are in the host's memory.
class ImageStore {
 public:
  /// @param vision must outlive this object
  ImageStore(const models::VisionModel& vision, const ImageLimits& limits) : vision_(vision), limits_(limits) {}

  const models::VisionModel& vision() const { return vision_; }
  const ImageLimits& limits() const { return limits_; }
  /// The image in a PNG or JPEG file. Safe to use from all threads; images are decoded one at a time.
  /// @param path of the field that has it, for errors
  /// @throws ApiError 400 for what is no image or too large, 429 where too many are in memory
  SeenImage find(const std::string& file, const std::string& path);
  /// Computes the next rows of an image, by the engine's thread alone. @param between as VisionModel::read()
  void read(models::SeenPicture& image, const std::function<void()>& between) const;

 private:
  struct Entry {
    SeenImage image;
    std::int64_t bytes = 0;
    std::list<const std::string*>::iterator place;
  };
  SeenImage known(const std::string& file);
  void make_room(std::int64_t bytes);
  std::int64_t bytes_of(const std::string& file, const models::SeenPicture& image) const;

  const models::VisionModel& vision_;
  const ImageLimits limits_;
  std::mutex decoding_;
  std::mutex mutex_;                     ///< guards everything below
  std::map<std::string, Entry> images_;  ///< by file
  std::list<const std::string*> used_;   ///< the least recently used first
  std::int64_t bytes_ = 0, contents_ = 1;
};

/// The images in the prompt of a request's sequences.
class RequestImages {
 public:
  /// @param places as models::PicturePlaces
  RequestImages(std::vector<SeenImage> images, std::vector<std::int64_t> places)
      : images_(std::move(images)), places_(std::move(places)) {}

  // The engine's thread alone asks these.
  /// The first one that is not read yet, or null.
  models::SeenPicture* unread() const;
  /// Where all are read.
  const std::shared_ptr<const models::PromptImages>& prompt(const ImageStore& store);
  bool operator==(const RequestImages& other) const { return images_ == other.images_ && places_ == other.places_; }

 private:
  const std::vector<SeenImage> images_;
  const std::vector<std::int64_t> places_;
  std::shared_ptr<const models::PromptImages> prompt_;
};
bool same_images(const std::shared_ptr<RequestImages>& a, const std::shared_ptr<RequestImages>& b);

/// The images of a conversation.
/// @throws ApiError 400 for a model that sees none and for too many, and as ImageStore::find()
std::vector<SeenImage> find_images(const ServedModel& model, const ChatImages& images);

struct ImagePrompt {
  std::vector<std::int32_t> tokens;
  std::shared_ptr<RequestImages> images = {};  ///< null where there are none
};

/// The tokens of a chat's prompt. @param images of all marks in the parts @throws ApiError 400
ImagePrompt image_prompt(const ServedModel& model, const data::Tokenizer& tokenizer, std::vector<data::TextPart> parts,
                         const ChatImages& marks, const std::vector<SeenImage>& images);

}  // namespace etna::serve
