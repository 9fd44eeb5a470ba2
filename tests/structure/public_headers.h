#pragma once

#include <string>

#include <structure/source_tree.h>

namespace etna::structure {

/// Headers that are installed: for users' programs, by way of etna.h or one by one. cmake/EtnaTarget.cmake leaves out
/// the same others.
inline bool is_public(const std::string& path) {
  if (path == "etna.h" || path == "tensor/ops/kernel.h") return true;
  for (const char* internal : {"device/cpu/",
                               "device/os/",
                               "device/vulkan/",
                               "device/registry/",
                               "device/cache_file.h",
                               "device/cache_folder.h",
                               "device/log.h",
                               "device/moltenvk.h",
                               "tensor/quant/block_bytes.h",
                               "tensor/quant/families.h",
                               "tensor/quant/fit.h",
                               "tensor/quant/k_quants.h",
                               "tensor/quant/super_block_fit.h",
                               "tensor/io/quoted_name.h",
                               "tensor/graph/",
                               "tensor/ops/",
                               "data/codecs/",
                               "data/tokenizers/bounded_process.h",
                               "data/tokenizers/json_",
                               "data/tokenizers/message_marks.h",
                               "tensor/layout.h",
                               "tensor/recording.h",
                               "autograd/node.h",
                               "models/draft.h",
                               "models/generator_slots.h",
                               "models/head_order.h",
                               "models/packed_adapter.h",
                               "models/peft_config.h",
                               "train/append_file.h",
                               "train/json_depth.h",
                               "train/markup.h",
                               "train/plot_axis.h",
                               "train/read_bytes.h",
                               "train/svg_style.h",
                               "train/utf8.h"}) {
    if (path.starts_with(internal)) return false;
  }
  for (const char* folder :
       {"device/", "tensor/", "autograd/", "nn/", "optim/", "data/", "models/", "train/", "serve/"}) {
    if (path.starts_with(folder)) return path.ends_with(".h");
  }
  return false;
}

/// The header that a program includes if it has Eigen itself; no other may include it.
inline bool needs_eigen(const std::string& path) { return path == "tensor/eigen.h"; }

}  // namespace etna::structure
