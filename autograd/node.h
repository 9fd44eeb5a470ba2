#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <etna/tensor/op.h>

/// The tape: one node a recorded op, linked from each output to the nodes its inputs came from.
namespace etna::autograd {

struct Node;

using Hook = std::function<Tensor(const Tensor&)>;

/// Hangs on every tensor that requires grad: leaves collect `grad`, results point to the node that made them.
struct Meta final : AutogradMeta {
  std::shared_ptr<Node> node;  ///< null for a leaf
  int output = 0;              ///< which of the node's outputs this tensor is
  Tensor grad;                 ///< leaves only
  std::vector<Hook> hooks;     ///< leaves only; those of results are the node's, which outlives their handles
};

Meta& meta_of(const Tensor& tensor);
/// Null where the tensor carries none yet.
Meta* find_meta(const Tensor& tensor);

/// Where a gradient flows on to: a node's output, or a leaf.
struct Edge {
  std::shared_ptr<Node> node;
  int output = 0;
  Tensor leaf;  ///< defined instead of `node` for a leaf that requires grad
  bool wanted() const { return node != nullptr || leaf.defined(); }
};

/// A saved tensor and the version its storage had.
struct SavedTensor {
  Tensor tensor;
  std::uint32_t version = 0;
};

struct Node {
  std::uint64_t sequence = 0;  ///< order of recording; backward runs from high to low
  std::string name;
  const OpDef* op = nullptr;  ///< null for a custom function
  Attrs attrs;
  std::vector<SavedTensor> in, out;
  std::function<TensorList(const TensorList&)> custom;
  std::vector<Edge> edges;
  std::vector<bool> needs;
  std::vector<std::vector<Hook>> hooks;  ///< of each output
  bool freed = false;

  ~Node();
};

/// Gradients of a node's inputs.
/// @param gathered null, or what others gave input 0 so far, which may be written: an op may add its own to that
/// instead
TensorList run_node(const std::shared_ptr<Node>& node, std::span<const Tensor> grads, bool create_graph,
                    Tensor* gathered = nullptr);

/// The edge that leads to where a tensor's gradient belongs.
Edge edge_to(const Tensor& tensor);

/// Walks the tape from `roots` down. Where `targets` is empty gradients gather in the leaves' .grad(); else in the
/// result.
TensorList run_backward(std::span<const Tensor> roots, std::span<const Tensor> root_grads,
                        std::span<const Tensor> targets, bool retain_graph, bool create_graph);

}  // namespace etna::autograd
