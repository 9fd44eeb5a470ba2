#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/autograd/internal/node.h>
#include <etna/device/internal/pending.h>
#include <etna/device/profile/profiler.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/ops.h>

namespace etna::autograd {
namespace {

thread_local bool anomaly_mode = false;

/// Gradients accumulated for a node's outputs. A gradient that nothing else refers to is added to in place.
struct Pending {
  TensorList grads;
  std::vector<bool> owned;
};

void accumulate(Tensor& into, bool& owned, const Tensor& grad, bool create_graph) {
  if (!into.defined()) {
    into = grad;
    owned = false;
  } else if (owned && !create_graph && into.dtype() == promote(into.dtype(), grad.dtype())) {
    into.add_(grad);
  } else {
    into = into + grad;
    owned = true;
  }
}

bool is_shared(const Tensor& grad) { return fusion::owners(grad) > 1; }

void check_finite(const Node& node, const TensorList& grads) {
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    NoGrad off;
    if (sum(logical_not(isfinite(grads[i]))).item<std::int64_t>() > 0) {
      throw GradError(fmt::format("backward: the gradient that '{}' gives its input {} {} holds a NaN or an infinity{}",
                                  node.name, i, str(grads[i].shape()), node.origin ? str(*node.origin) : ""));
    }
  }
}

/// The saved values. @throws GradError if they were overwritten since
Tensor unpack(const Node& node, const SavedTensor& saved) {
  if (saved.packed != nullptr) {
    NoGrad off;
    const Tensor y = saved.packed->unpack(saved.packed->value), &wanted = saved.tensor;
    if (!y.defined() || y.shape() != wanted.shape() || y.dtype() != wanted.dtype() || y.device() != wanted.device()) {
      throw GradError(fmt::format("backward: unpack of a saved tensor of '{}' gave {}; {} of {} on {} was packed",
                                  node.name,
                                  y.defined() ? str(y.shape()) + " of " + std::string(name(y.dtype())) : "none",
                                  str(wanted.shape()), name(wanted.dtype()), wanted.device().str()));
    }
    // What was packed may be the tensor itself.
    if (y.storage() == saved.packed->storage.lock())
      check_version(y, saved.packed->version, node.name, node.origin ? str(*node.origin) : "");
    return detail::alias(y);
  }
  if (saved.tensor.defined() && saved.tensor.impl()->storage && saved.version != saved.tensor.storage()->version)
    check_version(saved.tensor, saved.version, node.name, node.origin ? str(*node.origin) : "");
  return saved.tensor;
}

/// An input as the vjp gets it: where it was on the tape, if the gradient is recorded.
Tensor unpack_input(const Node& node, std::size_t i, bool create_graph) {
  const Tensor x = unpack(node, node.in[i]);
  return create_graph && node.needs[i] && x.defined() && x.impl()->storage ? placed(x, node.edges[i]) : x;
}

/// Differentiates an op without vjp through its reference.
TensorList through_reference(const Node& node, const TensorList& in, std::span<const Tensor> grads,
                             const std::vector<bool>& needs, bool create_graph) {
  GradMode on(true);
  TensorList leaves = in;
  TensorList wanted;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!needs[i]) continue;
    // Each input becomes a separate variable. An input that occurs twice, or that another depends on, must not also
    // collect the other's gradient: that arrives along this node's edges.
    if (create_graph) {
      leaves[i] = separate(in[i], in[i]);
    } else {
      leaves[i] = detail::alias(in[i]).requires_grad_();
    }
    wanted.push_back(leaves[i]);
  }
  TensorList outputs = node.op->reference({*node.op, leaves, node.attrs});
  TensorList roots, seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (i < grads.size() && grads[i].defined() && outputs[i].requires_grad())
      roots.push_back(outputs[i]), seeds.push_back(grads[i]);
  }
  TensorList result(in.size());
  if (roots.empty()) return result;
  TensorList found = run_backward(roots, seeds, wanted, false, create_graph);
  for (std::size_t i = 0, k = 0; i < in.size(); ++i) {
    if (needs[i]) result[i] = found[k++];
  }
  return result;
}

void apply_hooks(const Hooks& list, Tensor& grad) {
  if (list == nullptr) return;
  const auto hooks = list->hooks;  // a hook may remove itself
  for (const auto& [id, hook] : hooks) {
    Tensor replaced = hook(grad);
    if (!replaced.defined()) continue;
    if (replaced.shape() != grad.shape() || replaced.dtype() != grad.dtype() || replaced.device() != grad.device()) {
      throw GradError(fmt::format("backward: a hook replaced a gradient {} of {} on {} by one {} of {} on {}",
                                  str(grad.shape()), name(grad.dtype()), grad.device().str(), str(replaced.shape()),
                                  name(replaced.dtype()), replaced.device().str()));
    }
    grad = replaced;
  }
}

/// Where gradients are caught instead of accumulated, and which nodes lead there.
class Targets {
 public:
  Targets(std::span<const Tensor> roots, std::span<const Tensor> targets) : any_(!targets.empty()) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const Edge edge = edge_to(targets[i]);
      if (edge.node)
        nodes_[{edge.node.get(), edge.output}].push_back(i);
      else if (targets[i].defined())
        leaves_[targets[i].impl()].push_back(i);
    }
    if (any_) follow(roots);
  }

  /// True if a gradient along this edge reaches a target, or if there are no targets: then every leaf is one.
  bool reached_by(const Edge& edge) const {
    if (!any_) return edge.wanted();
    if (edge.leaf.defined()) return leaves_.contains(edge.leaf.impl());
    return edge.node != nullptr && (leading_.contains(edge.node.get()) || at(edge.node.get(), edge.output) != nullptr);
  }
  /// The inputs of a node whose gradients reach a target.
  std::vector<bool> needs(const Node& node) const {
    std::vector<bool> needs = node.needs;
    for (std::size_t i = 0; any_ && i < needs.size(); ++i) needs[i] = needs[i] && reached_by(node.edges[i]);
    return needs;
  }
  /// Which targets an output, or a leaf, is; null: none.
  const std::vector<std::size_t>* at(Node* node, int output) const {
    const auto found = nodes_.find({node, output});
    return found == nodes_.end() ? nullptr : &found->second;
  }
  const std::vector<std::size_t>* at(const Tensor& leaf) const {
    const auto found = leaves_.find(leaf.impl());
    return found == leaves_.end() ? nullptr : &found->second;
  }

 private:
  /// An edge leads to a node recorded earlier, so in the order of recording a node's edges are decided before it.
  void follow(std::span<const Tensor> roots) {
    std::unordered_set<Node*> met;
    std::vector<Node*> order;
    const auto meet = [&](const Edge& edge) {
      if (edge.node && met.insert(edge.node.get()).second) order.push_back(edge.node.get());
    };
    for (const Tensor& root : roots) meet(edge_to(root));
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const Edge& edge : order[i]->edges) meet(edge);
    }
    std::sort(order.begin(), order.end(), [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
    for (Node* node : order) {
      if (std::any_of(node->edges.begin(), node->edges.end(), [this](const Edge& e) { return reached_by(e); }))
        leading_.insert(node);
    }
  }

  bool any_;
  std::unordered_map<TensorImpl*, std::vector<std::size_t>> leaves_;
  std::map<std::pair<Node*, int>, std::vector<std::size_t>> nodes_;
  std::unordered_set<Node*> leading_;
};

/// Stores the gradients of outputs that retain theirs.
void retain(const Node& node, const TensorList& grads, bool create_graph) {
  for (const auto& [output, kept] : node.retained) {
    const std::shared_ptr<TensorImpl> impl = kept.lock();
    const Tensor& grad = grads[static_cast<std::size_t>(output)];
    if (impl == nullptr || !grad.defined()) continue;
    Tensor& sum = meta_of(Tensor(impl)).grad;
    sum = sum.defined() ? sum + grad : create_graph ? grad : grad.clone();
  }
}

struct Later {
  bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
    return a->sequence < b->sequence;
  }
};

}  // namespace

void check_version(const Tensor& saved, std::uint32_t version, const std::string& op, const std::string& where) {
  if (!saved.defined() || saved.storage()->version == version) return;
  const char* writer = saved.storage()->last_writer();
  throw GradError(
      fmt::format("backward: a tensor {} that '{}' saved was modified in place afterwards{}; clone() it before{}",
                  str(saved.shape()), op, writer != nullptr ? fmt::format(", last by '{}'", writer) : "", where));
}

Node::~Node() {
  // A long tape is a long chain of owners. Releasing it here link by link keeps the stack flat. Every node reachable
  // through a saved input is also reachable through an edge, so clearing the inputs releases no node outside the chain.
  std::vector<std::shared_ptr<Node>> chain;
  auto take_apart = [&chain](Node& node) {
    for (Edge& edge : node.edges) {
      if (edge.node) chain.push_back(std::move(edge.node));
    }
    node.edges.clear();
    node.in.clear();
  };
  take_apart(*this);
  while (!chain.empty()) {
    std::shared_ptr<Node> node = std::move(chain.back());
    chain.pop_back();
    if (node.use_count() == 1) take_apart(*node);
  }
}

TensorList run_node(const std::shared_ptr<Node>& shared, std::span<const Tensor> grads, const std::vector<bool>& needs,
                    bool create_graph, Tensor* gathered) {
  Node& node = *shared;
  if (node.freed) {
    throw GradError(
        fmt::format("backward: the graph through '{}' was freed by an earlier backward; pass retain_graph = true there",
                    node.name));
  }
  GradMode mode(create_graph);
  if (node.custom) {
    TensorList given(grads.begin(), grads.end());
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!given[i].defined()) given[i] = zeros_like(node.out[i].tensor);
    }
    TensorList result = node.custom(given);
    if (result.size() != node.needs.size()) {
      throw GradError(fmt::format("backward: '{}' returned {} gradients for {} inputs", node.name, result.size(),
                                  node.needs.size()));
    }
    return result;
  }
  TensorList in, out;
  for (std::size_t i = 0; i < node.in.size(); ++i) in.push_back(unpack_input(node, i, create_graph));
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    Tensor y = unpack(node, node.out[i]);
    out.push_back(create_graph && y.defined() && y.impl()->storage ? linked(y, shared, static_cast<int>(i)) : y);
  }
  if (node.op->vjp == nullptr) return through_reference(node, in, grads, needs, create_graph);
  const VjpCall call{*node.op, in, out, grads, node.attrs, needs};
  if (gathered != nullptr && node.op->vjp_into != nullptr && node.op->vjp_into(call, *gathered))
    return TensorList(in.size());
  return node.op->vjp(call);
}

TensorList run_backward(std::span<const Tensor> roots, std::span<const Tensor> root_grads,
                        std::span<const Tensor> targets, bool retain_graph, bool create_graph) {
  profile::Scope phase("backward", profile::Category::phase);
  Autocast as_recorded(f32);
  std::unordered_map<Node*, Pending> pending;
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Later> queue;
  const Targets wanted(roots, targets);
  TensorList caught(targets.size());
  struct LeafGrad {
    Tensor leaf, grad;
    bool owned = false;
    bool finished = false;  ///< it is in the leaf
  };
  std::vector<LeafGrad> leaves;
  std::unordered_map<TensorImpl*, std::size_t> leaf_index;

  auto send = [&](const Edge& edge, const Tensor& grad) {
    if (edge.leaf.defined()) {
      auto [at, added] = leaf_index.try_emplace(edge.leaf.impl(), leaves.size());
      if (added) leaves.push_back({edge.leaf, {}});
      LeafGrad& slot = leaves[at->second];
      accumulate(slot.grad, slot.owned, grad, create_graph);
      return;
    }
    auto [at, added] = pending.try_emplace(edge.node.get());
    Pending& p = at->second;
    if (added) {
      p.grads.resize(edge.node->hooks.size());
      p.owned.resize(edge.node->hooks.size(), false);
      queue.push(edge.node);
    }
    auto k = static_cast<std::size_t>(edge.output);
    bool owned = p.owned[k];
    accumulate(p.grads[k], owned, grad, create_graph);
    p.owned[k] = owned;
  };

  // The gradient accumulated so far by the leaf that is the node's only input to need one; null if anything else refers
  // to that gradient.
  auto gathered_by = [&](const Node& node, const std::vector<bool>& needs) -> Tensor* {
    bool alone = !node.edges.empty() && node.edges[0].leaf.defined() && needs[0] &&
                 std::count(needs.begin(), needs.end(), true) == 1;
    if (!alone || create_graph || anomaly_mode) return nullptr;
    auto found = leaf_index.find(node.edges[0].leaf.impl());
    if (found == leaf_index.end()) return nullptr;
    Tensor& grad = leaves[found->second].grad;
    return is_shared(grad) ? nullptr : &grad;
  };

  std::optional<FinalGradients> final_gradients;
  if (targets.empty()) final_gradients.emplace(roots);
  /// Puts a leaf's gradient where it belongs. Nothing adds to it afterwards.
  const auto finish = [&](std::size_t index) {
    if (leaves[index].finished) return;
    leaves[index].finished = true;
    LeafGrad leaf = std::exchange(leaves[index], {leaves[index].leaf, {}, false, true});
    Meta& meta = meta_of(leaf.leaf);
    // Gemms give the gradients of 16-bit weights in f32; the accumulated sum is rounded once, here.
    if (DType t = leaf.leaf.dtype(); leaf.grad.dtype() != t) leaf.grad = leaf.grad.to(t), leaf.owned = true;
    apply_hooks(meta.hooks, leaf.grad);
    if (const auto* found = wanted.at(leaf.leaf)) {
      for (std::size_t t : *found) caught[t] = leaf.grad;
    }
    if (!targets.empty()) return;
    capture_hooks::note_gradient(leaf.leaf, capture_hooks::Touch::read);
    if (!meta.grad.defined()) {
      // A gradient passed on unchanged may be shared with another leaf. A leaf must own its .grad(), so that it can be
      // scaled in place.
      bool shared = !leaf.owned && is_shared(leaf.grad);
      meta.grad = create_graph || !shared ? leaf.grad : leaf.grad.clone();
      if (!create_graph) {
        meta.grad = meta.grad.contiguous();
        meta.grad.impl()->view = TensorImpl::View::recorded;  // nobody else's, whatever view it was
        meta.grad.storage()->set_use(MemoryUse::gradients);
      }
    } else if (create_graph) {
      meta.grad = meta.grad + leaf.grad;
    } else {
      meta.grad.add_(leaf.grad);
    }
    FinalGradients::call(leaf.leaf);
  };

  GradMode mode(create_graph);
  bool any = false;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    Edge edge = edge_to(roots[i]);
    if (!edge.wanted()) continue;
    any = true;
    if (wanted.reached_by(edge)) send(edge, root_grads[i]);
  }
  if (!any)
    throw GradError(
        "backward: nothing was recorded for this tensor; does any input require grad, and was grad mode on?");

  // Leaves that wait for a node get nothing from it any more. They are finished after the next node, or some nodes
  // later if work is held back by then: what gives their gradients may be one kernel with what the next nodes compute.
  constexpr std::int64_t kLatest = 8;
  std::deque<std::pair<std::size_t, std::int64_t>> final_leaves;  ///< and after which node
  std::int64_t nodes = 0;
  const auto passed = [&](const Node& node) {
    if (!final_gradients) return;
    ++nodes;
    for (; !final_leaves.empty(); final_leaves.pop_front()) {
      const auto& [leaf, since] = final_leaves.front();
      if (has_pending() && nodes < since + kLatest) break;
      finish(leaf);
    }
    for (const Tensor& leaf : final_gradients->after(node)) {
      if (const auto at = leaf_index.find(leaf.impl()); at != leaf_index.end())
        final_leaves.emplace_back(at->second, nodes);
    }
  };
  while (!queue.empty()) {
    std::shared_ptr<Node> node = queue.top();
    queue.pop();
    profile::Scope scope(node->name, profile::Category::autograd);
    Pending arrived = std::move(pending.at(node.get()));
    pending.erase(node.get());
    for (std::size_t i = 0; i < arrived.grads.size(); ++i) {
      if (!arrived.grads[i].defined()) continue;
      apply_hooks(node->hooks[i], arrived.grads[i]);
      if (const auto* found = wanted.at(node.get(), static_cast<int>(i))) {
        for (std::size_t t : *found) caught[t] = arrived.grads[i];
      }
    }
    if (targets.empty()) retain(*node, arrived.grads, create_graph);
    const std::vector<bool> needs = wanted.needs(*node);
    if (std::count(needs.begin(), needs.end(), true) == 0) {
      passed(*node);
      continue;
    }
    TensorList grads = run_node(node, arrived.grads, needs, create_graph, gathered_by(*node, needs));
    if (anomaly_mode) check_finite(*node, grads);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!needs[i] || !grads[i].defined()) continue;
      if (grads[i].shape() != node->in[i].tensor.shape()) {
        throw GradError(fmt::format("backward: '{}' gave its input {} a gradient {}, the input is {}", node->name, i,
                                    str(grads[i].shape()), str(node->in[i].tensor.shape())));
      }
      send(node->edges[i], std::exchange(grads[i], {}));
    }
    if (!retain_graph && !create_graph) {
      node->in.clear();
      node->out.clear();
      node->custom = nullptr;
      node->freed = true;
    }
    passed(*node);
  }

  for (std::size_t i = 0; i < leaves.size(); ++i) finish(i);
  if (targets.empty()) final_gradients->end();
  return caught;
}

TensorList grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs, std::span<const Tensor> grad_outputs,
                bool retain_graph, bool create_graph, bool allow_unused) {
  TensorList seeds(grad_outputs.begin(), grad_outputs.end());
  if (seeds.empty()) {
    for (const Tensor& y : outputs) {
      if (y.numel() != 1) throw GradError(fmt::format("grad: an output has {} elements; pass grad_outputs", y.numel()));
      seeds.push_back(ones_like(y));
    }
  }
  if (seeds.size() != outputs.size())
    throw GradError(fmt::format("grad: {} outputs but {} grad_outputs", outputs.size(), seeds.size()));
  TensorList found = run_backward(outputs, seeds, inputs, retain_graph, create_graph);
  // The caller may write into them: none is a view of another, of a seed, or of a single number.
  for (Tensor& g : found) {
    if (!g.defined() || create_graph) continue;
    g = is_shared(g) ? g.clone() : g.contiguous();
    g.impl()->view = TensorImpl::View::recorded;
  }
  for (std::size_t i = 0; i < found.size() && !allow_unused; ++i) {
    if (!found[i].defined()) {
      throw GradError(
          fmt::format("grad: no output depends on input {} {}; pass allow_unused = true if that is expected", i,
                      inputs[i].defined() ? str(inputs[i].shape()) : "undefined"));
    }
  }
  return found;
}

bool detects_anomalies() { return anomaly_mode; }

DetectAnomaly::DetectAnomaly() : before_(anomaly_mode) { anomaly_mode = true; }
DetectAnomaly::~DetectAnomaly() { anomaly_mode = before_; }

}  // namespace etna::autograd
