#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <etna/tensor/op.h>

/// The tape: one node per recorded op. A node's edges lead to the nodes that produced its inputs.
namespace etna::autograd {

struct Node;

using Hook = std::function<Tensor(const Tensor&)>;

/// Hooks in order. Their handles refer to the list, which may be gone before them; null: none.
struct HookList {
  std::uint64_t next = 0;
  std::vector<std::pair<std::uint64_t, Hook>> hooks;
};
using Hooks = std::shared_ptr<HookList>;

/// Hooks of leaves that are called when their gradient is final (final_gradients.h).
struct FinalHookList {
  std::uint64_t next = 0;
  std::vector<std::pair<std::uint64_t, std::function<void(const Tensor&)>>> hooks;
};

/// Attached to every tensor that requires grad: leaves accumulate `grad`, results point to the node that made them.
struct Meta final : AutogradMeta {
  std::shared_ptr<Node> node;  ///< null for a leaf
  int output = 0;              ///< which of the node's outputs this tensor is
  Tensor grad;                 ///< leaves only
  /// leaves only; a result's hooks belong to its node, which outlives the result's handles
  Hooks hooks;
  std::shared_ptr<FinalHookList> final_hooks;  ///< leaves only
  bool retains = false;                        ///< results only: backward() stores their gradient too
};

Meta& meta_of(const Tensor& tensor);
/// Null if the tensor has none yet.
Meta* find_meta(const Tensor& tensor);

/// Gives a view its place on the tape again, after writes into what it is a view of.
void follow_base(const Tensor& view);
/// Before autograd looks at a tensor.
inline void refresh(const Tensor& x) {
  const TensorImpl& impl = *x.impl();
  if (impl.base != nullptr && impl.writes != impl.base->writes) follow_base(x);
}
/// Implement GradRecorder (autograd/in_place.cpp).
bool wants_write(const char* op, const Tensor& x, const Tensor& source);
void record_write(const char* op, Tensor& x, const std::function<Tensor(const Tensor&)>& result);

/// Where a gradient goes next: a node's output, or a leaf.
struct Edge {
  std::shared_ptr<Node> node;
  int output = 0;
  Tensor leaf;  ///< defined instead of `node` for a leaf that requires grad
  bool wanted() const { return node != nullptr || leaf.defined(); }
};

/// What SavedTensorHooks made of a tensor.
struct PackedTensor {
  std::any value;
  std::function<Tensor(const std::any&)> unpack;
  std::weak_ptr<Storage> storage;  ///< of the tensor that was packed
  std::uint32_t version = 0;       ///< its version then
};

/// A saved tensor, and its storage's version at that time. A packed one has no storage here. Only a leaf is the
/// caller's tensor; a saved result is off the tape, as its place there may change: it had the place that the edge says.
struct SavedTensor {
  Tensor tensor;
  std::uint32_t version = 0;
  std::shared_ptr<PackedTensor> packed = nullptr;
};
/// @throws GradError naming `op` where the tensor was written to since
void check_version(const Tensor& saved, std::uint32_t version, const std::string& op, const std::string& where = {});

/// Where in the program an op was recorded, for the errors of DetectAnomaly.
struct Origin {
  std::string scopes;         ///< names of the NameScopes around it, "encoder/layer 3"
  std::vector<void*> frames;  ///< return addresses, innermost first; empty where the platform has no such function
  std::uint64_t number = 0;   ///< how many ops this thread had recorded
};
/// Where the caller is now.
Origin origin_here();
/// Names the scopes, and the innermost functions outside the library as far as symbols tell.
std::string str(const Origin& origin);

struct Node {
  std::uint64_t sequence = 0;  ///< order of recording; backward runs from the highest down
  std::string name;
  const OpDef* op = nullptr;  ///< null for a custom function
  Attrs attrs;
  std::vector<SavedTensor> in, out;
  std::function<TensorList(const TensorList&)> custom;
  std::vector<Edge> edges;
  std::vector<bool> needs;
  std::vector<Hooks> hooks;  ///< one list per output
  /// Outputs whose gradient backward() stores (Tensor::retain_grad).
  std::vector<std::pair<int, std::weak_ptr<TensorImpl>>> retained;
  std::optional<Origin> origin;  ///< recorded under DetectAnomaly
  bool freed = false;

  ~Node();
};

/// The sequence of the node recorded next.
std::uint64_t upcoming_sequence();
/// Makes `outputs` results of the node.
void attach(const std::shared_ptr<Node>& node, std::span<Tensor> outputs);

/// A saved output as it was when it was recorded: linked to its node, which a second derivative needs.
Tensor linked(const Tensor& output, const std::shared_ptr<Node>& node, int index);

/// `values` where `edge` says on the tape.
Tensor placed(const Tensor& values, const Edge& edge);

/// `values` as a variable of its own whose gradient flows to x. x itself is a good value.
Tensor separate(const Tensor& x, const Tensor& values);
/// True while a DetectAnomaly lives in this thread.
bool detects_anomalies();

/// While a backward() runs that accumulates in leaves: says which leaves with hooks of final_gradients.h get nothing
/// any more.
class FinalGradients {
 public:
  /// Counts the edges to such leaves, if there are any leaves with hooks.
  explicit FinalGradients(std::span<const Tensor> roots);
  ~FinalGradients();
  FinalGradients(const FinalGradients&) = delete;
  FinalGradients& operator=(const FinalGradients&) = delete;

  /// The node has run. @return leaves that are final now
  std::vector<Tensor> after(const Node& node);
  /// Calls the leaf's hooks.
  static void call(const Tensor& leaf);
  /// Calls what at_end_of_backward() was given.
  void end();

 private:
  std::unordered_map<TensorImpl*, std::int64_t> edges_;
  std::vector<std::function<void()>> at_end_, *outer_;
};

/// Gradients of a node's inputs, of those at least that `needs` names.
/// @param gathered null, or the gradient accumulated for input 0 so far. The op may add to it in place.
TensorList run_node(const std::shared_ptr<Node>& node, std::span<const Tensor> grads, const std::vector<bool>& needs,
                    bool create_graph, Tensor* gathered = nullptr);

/// The edge along which a tensor's gradient flows.
Edge edge_to(const Tensor& tensor);

/// Walks the tape down from `roots`. If `targets` is empty, gradients accumulate in the leaves' .grad(), otherwise in
/// the result.
TensorList run_backward(std::span<const Tensor> roots, std::span<const Tensor> root_grads,
                        std::span<const Tensor> targets, bool retain_graph, bool create_graph);

}  // namespace etna::autograd
