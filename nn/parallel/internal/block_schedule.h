#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <etna/nn/module.h>
#include <etna/nn/parallel/internal/parameter_block.h>

namespace etna::distributed {

/// Gathers the parameters of blocks around their calls, and frees them behind. A block whose forward ran is followed by
/// the next one of the list, and backward goes the other way: that one is gathered ahead.
class BlockSchedule {
 public:
  explicit BlockSchedule(bool prefetch) : prefetch_(prefetch) {}
  ~BlockSchedule();
  BlockSchedule(const BlockSchedule&) = delete;
  BlockSchedule& operator=(const BlockSchedule&) = delete;

  /// @param parts of the module: one for each dtype
  void add(nn::Module& module, std::vector<std::shared_ptr<ParameterBlock>> parts);
  /// A gradient has arrived: backward runs.
  void backward_begins() { backward_ = true; }
  /// Frees what is still there.
  void backward_ended();

 private:
  struct Block {
    std::vector<std::shared_ptr<ParameterBlock>> parts;
    HookHandle before, after;
  };
  void gather(std::size_t index);
  void release(std::size_t index);
  TensorList leave(std::size_t index, const TensorList& outputs);

  const bool prefetch_;
  bool backward_ = false;
  std::vector<Block> blocks_;
};

/// The modules that the names of a model's lists give: "blocks.0", "blocks.1" ..., the outermost ones.
std::vector<nn::Module*> listed_blocks(nn::Module& model);
/// For each parameter, the index of the block that alone has it; -1: none, or several.
std::vector<int> blocks_of(nn::Module& model, const std::vector<nn::Module*>& blocks,
                           const std::vector<Tensor>& parameters);

}  // namespace etna::distributed
