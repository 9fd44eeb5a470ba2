#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <etna/device/memory.h>
#include <etna/tensor/tensor.h>

namespace etna::distributed {

/// The parameters of a block of a model, of which each rank keeps one part. They are whole while the block runs,
/// forward or backward; between, they have no elements (shape [0]). Tensors that autograd saved refer to the same
/// storage, which gets its bytes back before backward needs them.
class ParameterBlock {
 public:
  /// Takes the values of the parameters, which lose theirs. @param parameters of one dtype, on one device
  /// @param offsets of each in the block @param part elements of a rank
  ParameterBlock(std::vector<Tensor> parameters, std::vector<std::int64_t> offsets, std::int64_t part);
  /// The parameters have no elements afterwards.
  ~ParameterBlock();
  ParameterBlock(const ParameterBlock&) = delete;
  ParameterBlock& operator=(const ParameterBlock&) = delete;

  /// This rank's elements, [part].
  const Tensor& values() const { return values_; }
  /// Begins to gather the parameters, and returns.
  void start();
  /// Gathers them, unless they are here.
  void gather();
  /// Frees what was gathered.
  void release();
  bool is_here() const { return here_; }
  /// values() changed: a graph that was recorded before cannot be differentiated any more.
  void count_change();

 private:
  struct Member {
    Tensor parameter;
    Shape shape;
    std::int64_t offset;
  };
  std::vector<Member> members_;
  Tensor values_;
  Tensor all_;         ///< gathered, or on its way
  StoragePtr shared_;  ///< of the parameters and of what autograd saved of them
  bool here_ = false;
};

}  // namespace etna::distributed
