#pragma once

#include <memory>
#include <string>

#include <etna/models/generator.h>
#include <etna/models/model_file.h>

#include "call.h"

/// Language models that JavaScript loaded.
namespace etna::web {

struct LoadedModel {
  models::Model model;
  std::string path;  ///< of its file in the memory of WebAssembly
  Device device;
  models::KvCacheOptions cache;
  bool tuned = false;  ///< its weights are no longer those of the file
  /// Made with the first text; keeps its captured step and its cache from text to text.
  std::unique_ptr<models::Generator> generator;
};

/// @throws Error where it was freed
LoadedModel& model_with(const Json& id);
/// Null where it was freed.
LoadedModel* find_model(const Json& id);
/// Replaces the weights; a text that is being written ends.
void set_decoder(LoadedModel& model, std::unique_ptr<models::Decoder> decoder);

}  // namespace etna::web
