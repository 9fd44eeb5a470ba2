#include <etna/serve/internal/image_fields.h>

#include <optional>
#include <string_view>

#include <fmt/format.h>

#include <etna/data/internal/base64.h>
#include <etna/serve/api_error.h>
#include <etna/serve/service.h>

namespace etna::serve {
namespace {

void require_known_type(std::string_view type, const std::string& path) {
  if (type == "image/png" || type == "image/jpeg" || type == "image/jpg") return;
  throw bad_request(path,
                    fmt::format("{} is of the type '{:.40}'; this server reads image/png and image/jpeg", path, type),
                    "unsupported_value");
}

std::string add_image(std::string_view base64, const std::string& path, ChatImages& images) {
  std::optional<std::string> file = data::from_base64(base64);
  if (!file || file->empty())
    throw bad_request(path,
                      fmt::format("{} has no image in Base64: wanted its characters alone, without spaces", path));
  if (images.mark.empty()) images.mark = new_id("image-");
  images.files.push_back(std::move(*file));
  images.paths.push_back(path);
  return images.text(images.files.size() - 1);
}

std::string add_data_url(std::string_view url, const std::string& path, ChatImages& images) {
  constexpr std::string_view kData = "data:", kBase64Mark = ";base64";
  if (!url.starts_with(kData))
    throw bad_request(path,
                      fmt::format("{} is '{:.40}'; this server fetches no images: send the image itself, as "
                                  "data:image/png;base64,...",
                                  path, url),
                      "unsupported_value");
  const std::size_t comma = url.find(',');
  const std::string_view head = url.substr(kData.size(), comma == std::string_view::npos ? 0 : comma - kData.size());
  if (!head.ends_with(kBase64Mark))
    throw bad_request(path, fmt::format("{} is no image in Base64; wanted data:image/png;base64,...", path));
  require_known_type(head.substr(0, head.find(';')), path);
  return add_image(url.substr(comma + 1), path, images);
}

}  // namespace

std::string read_image_url(Fields& part, ChatImages& images) {
  part.any("image_url");
  Fields image(*part.object_if("image_url"), part.path_of("image_url"));
  image.word_if("detail", {"auto", "low", "high"});
  const std::string text =
      add_data_url(string_of(image.any("url"), image.path_of("url")), image.path_of("url"), images);
  image.finish();
  return text;
}

std::string read_input_image(Fields& part, ChatImages& images) {
  part.refuse("file_id", "is not supported: this server stores no files; send the image in image_url");
  part.word_if("detail", {"auto", "low", "high"});
  return add_data_url(part.string("image_url"), part.path_of("image_url"), images);
}

std::string read_image_source(Fields& block, ChatImages& images) {
  block.any("source");
  Fields source(*block.object_if("source"), block.path_of("source"));
  const std::string type = source.string("type");
  if (type != "base64")
    throw bad_request(source.path_of("type"),
                      fmt::format("{} is '{:.32}'; this server fetches and stores no images: send the image itself, as "
                                  "'base64'",
                                  source.path_of("type"), type),
                      "unsupported_value");
  require_known_type(source.string("media_type"), source.path_of("media_type"));
  const std::string text = add_image(source.string("data"), source.path_of("data"), images);
  source.finish();
  return text;
}

}  // namespace etna::serve
