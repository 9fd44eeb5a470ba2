#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/models/decoder_config.h>

/// Which layers of a model a GPU has memory for. The first of the others stay on the CPU (LoadOptions::host_layers).
namespace etna::models {

/// What a model's weights take, as its file says. Bytes, except for the configuration.
struct ModelSizes {
  DecoderConfig config;
  std::vector<std::uint64_t> layers;  ///< of each block
  std::uint64_t others = 0;           ///< embeddings, the last norm, the head
  std::uint64_t total() const;
};

/// Reads the headers of a model's files, and no weights. @throws FormatError as load_model()
ModelSizes model_sizes(const FilePath& path);

struct LayerPlanOptions {
  Device device = {};
  std::optional<std::int64_t> gpu_layers = std::nullopt;  ///< the last blocks on the GPU; nullopt: as many as fit
  std::int64_t cache_tokens = 0;                          ///< positions of the cache; 0: the model's context
  DType cache = DType::f16;                               ///< u8 for Q8_0
  std::int64_t slots = 1;                                 ///< sequences at once
  std::int64_t chunk = 2048;                              ///< tokens of a prompt read at once
  std::int64_t logits = 0;                                ///< rows of logits at once; 0: one a sequence
  std::uint64_t available = 0;                            ///< bytes; 0: available_memory(device)
};

/// Bytes are forecasts of what the device needs while it generates.
struct LayerPlan {
  Device device;
  std::int64_t layers = 0, gpu_layers = 0;
  std::uint64_t weights = 0, cache = 0, working = 0;  ///< on the GPU
  std::uint64_t available = 0;
  std::uint64_t all = 0;  ///< what the whole model would need

  std::int64_t host_layers() const { return layers - gpu_layers; }
  std::uint64_t needed() const { return weights + cache + working; }
  bool fits() const { return needed() <= available; }
  /// "22 of 32 layers on vulkan:0 (5.1 of 8.0 GiB), 10 on the CPU"
  std::string str() const;
};

/// On the CPU, all layers are there. On a GPU, gpu_layers above the model's are all of them. With none of them, the
/// embeddings and the head do not go to the GPU either.
/// @throws Error for negative gpu_layers
LayerPlan plan_layers(const ModelSizes& sizes, const LayerPlanOptions& options);

}  // namespace etna::models
