#include <etna/autograd/internal/final_gradients.h>

#include <algorithm>
#include <atomic>
#include <unordered_set>
#include <utility>

#include <etna/autograd/internal/node.h>
#include <etna/device/error.h>

namespace etna::autograd {
namespace {

/// Hooks of all leaves: without any, backward() counts nothing.
std::atomic<std::int64_t> final_hooks{0};
thread_local std::vector<std::function<void()>>* end_calls = nullptr;

bool has_final_hooks(const Tensor& leaf) {
  const Meta* meta = find_meta(leaf);
  return meta != nullptr && meta->final_hooks != nullptr && !meta->final_hooks->hooks.empty();
}

}  // namespace

FinalGradients::FinalGradients(std::span<const Tensor> roots) : outer_(end_calls) {
  if (outer_ == nullptr) end_calls = &at_end_;  // one inside another, of a checkpoint, ends nothing
  if (final_hooks == 0) return;
  std::unordered_set<Node*> met;
  std::vector<Node*> nodes;
  const auto meet = [&](const Edge& edge) {
    if (edge.node && met.insert(edge.node.get()).second) nodes.push_back(edge.node.get());
  };
  for (const Tensor& root : roots) meet(edge_to(root));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const Edge& edge : nodes[i]->edges) {
      meet(edge);
      if (edge.leaf.defined() && has_final_hooks(edge.leaf)) ++edges_[edge.leaf.impl()];
    }
  }
}

FinalGradients::~FinalGradients() { end_calls = outer_; }

std::vector<Tensor> FinalGradients::after(const Node& node) {
  std::vector<Tensor> final;
  if (edges_.empty()) return final;
  for (const Edge& edge : node.edges) {
    if (!edge.leaf.defined()) continue;
    const auto found = edges_.find(edge.leaf.impl());
    if (found != edges_.end() && --found->second == 0) final.push_back(edge.leaf);
  }
  return final;
}

void FinalGradients::call(const Tensor& leaf) {
  if (!has_final_hooks(leaf)) return;
  const auto hooks = find_meta(leaf)->final_hooks->hooks;  // a hook may remove itself
  for (const auto& [id, hook] : hooks) hook(leaf);
}

void FinalGradients::end() {
  for (std::size_t i = 0; i < at_end_.size(); ++i) std::exchange(at_end_[i], nullptr)();
  at_end_.clear();
}

HookHandle register_final_gradient_hook(const Tensor& leaf, std::function<void(const Tensor&)> hook) {
  if (!leaf.requires_grad() || !leaf.is_leaf())
    throw GradError("register_final_gradient_hook: only leaves that require grad keep their gradient");
  std::shared_ptr<FinalHookList>& list = meta_of(leaf).final_hooks;
  if (list == nullptr) list = std::make_shared<FinalHookList>();
  const std::uint64_t id = list->next++;
  list->hooks.emplace_back(id, std::move(hook));
  ++final_hooks;
  return HookHandle([id, weak = std::weak_ptr(list)] {
    --final_hooks;
    if (const auto there = weak.lock()) std::erase_if(there->hooks, [id](const auto& h) { return h.first == id; });
  });
}

void at_end_of_backward(std::function<void()> f) {
  if (end_calls == nullptr) throw GradError("at_end_of_backward: no backward() runs");
  end_calls->push_back(std::move(f));
}

}  // namespace etna::autograd
