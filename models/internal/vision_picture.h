#pragma once

#include <etna/models/encoder.h>

/// Pictures as a vision tower reads them. Internal.
namespace etna::models {

/// @param picture u8 [3, H, W] @throws ShapeError, DtypeError; Error for one that is too narrow
SeenPicture patches_of(const VisionConfig& config, const Tensor& picture);

}  // namespace etna::models
