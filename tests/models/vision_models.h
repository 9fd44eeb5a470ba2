#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include <etna/data/vision.h>
#include <etna/device/error.h>

namespace etna::models {

/// What a call throws, as text; empty where it throws nothing.
template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// A small model that sees, in a folder as Hugging Face's transformers wrote it, and what it computes.
struct VisionFixture {
  static constexpr std::int32_t kImage = 60;  ///< the token in the places of images

  explicit VisionFixture(const std::string& name)
      : folder(std::filesystem::path(ETNA_SOURCE_DIR "/tests/models/vision") / name) {
    std::ifstream(folder / "expected.json") >> expected;
  }
  Tensor picture(const std::string& name) const {
    return data::read_image(folder / (name + ".png"), data::ImageMode::rgb);
  }

  /// Whether this build reads PNG, without which tests are skipped.
  bool reads_png() const {
    return message_of([&] { picture("exact"); }).find("no libpng") == std::string::npos;
  }

  std::filesystem::path folder;
  nlohmann::json expected;
};

}  // namespace etna::models
