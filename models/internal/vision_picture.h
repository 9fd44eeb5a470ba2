#pragma once

#include <cstdint>
#include <vector>

#include <etna/models/encoder.h>

/// Pictures as a vision tower reads them. Internal.
namespace etna::models {

/// A picture, or a part of it.
struct PatchGrid {
  Tensor patches;  ///< [lines · columns, 3 · patch_size²] f32, on the CPU
  std::int64_t lines = 0;
};

struct PicturePatches {
  std::vector<PatchGrid> grids;
  std::int64_t tile_lines = 0, tile_columns = 0;  ///< of PictureFit::tiles; 0: there is only the whole
};

/// @param picture u8 [3, H, W] @throws ShapeError, DtypeError; Error for one that is too narrow
PicturePatches patches_of(const VisionConfig& config, const Tensor& picture);

}  // namespace etna::models
