#include <etna/nn/parallel/internal/block_schedule.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <etna/autograd/autograd.h>
#include <etna/tensor/op.h>

namespace etna::distributed {

BlockSchedule::~BlockSchedule() {
  for (Block& block : blocks_) block.before.remove(), block.after.remove();
}

void BlockSchedule::add(nn::Module& module, std::vector<std::shared_ptr<ParameterBlock>> parts) {
  const std::size_t index = blocks_.size();
  blocks_.push_back({std::move(parts), {}, {}});
  blocks_.back().before = module.register_forward_pre_hook([this, index](const nn::Module&, const TensorList&) {
    gather(index);
    return TensorList{};
  });
  blocks_.back().after = module.register_forward_hook(
      [this, index](const nn::Module&, const TensorList&, const TensorList& outputs) { return leave(index, outputs); });
}

void BlockSchedule::gather(std::size_t index) {
  for (const auto& part : blocks_[index].parts) part->gather();
  if (!prefetch_) return;
  const std::size_t next = backward_ ? index - 1 : index + 1;  // wraps around at the first
  if (next >= blocks_.size()) return;
  for (const auto& part : blocks_[next].parts) part->start();
}

void BlockSchedule::release(std::size_t index) {
  for (const auto& part : blocks_[index].parts) part->release();
}

/// After a forward.
TensorList BlockSchedule::leave(std::size_t index, const TensorList& outputs) {
  const bool recorded = grad_enabled() && std::any_of(outputs.begin(), outputs.end(),
                                                      [](const Tensor& x) { return x.defined() && x.requires_grad(); });
  // Backward begins with the last block; and one that is recomputed is in the middle of its backward.
  const bool stays = recorded && (backward_ || index + 1 == blocks_.size());
  if (!stays) release(index);
  if (!recorded) return {};
  TensorList given;
  for (const Tensor& x : outputs)
    if (x.defined()) given.push_back(x);
  const TensorList wrapped = autograd::custom(
      given,
      [](const TensorList& x) {
        TensorList same;
        for (const Tensor& one : x) same.push_back(detail::alias(one));
        return same;
      },
      [this, index](const TensorList& grad) {
        backward_ = true;
        gather(index);
        return grad;
      },
      "gather_block");
  TensorList result;
  std::size_t k = 0;
  for (const Tensor& x : outputs) result.push_back(x.defined() ? wrapped[k++] : x);
  return result;
}

void BlockSchedule::backward_ended() {
  backward_ = false;
  for (std::size_t i = 0; i < blocks_.size(); ++i) release(i);
}

std::vector<nn::Module*> listed_blocks(nn::Module& model) {
  std::vector<nn::Module*> found;
  std::vector<std::string> prefixes;
  for (const nn::NamedModule& one : model.named_modules()) {
    const std::string last = one.name.substr(one.name.rfind('.') + 1);
    if (last.empty() || last.find_first_not_of("0123456789") != std::string::npos) continue;
    const bool inside = std::any_of(prefixes.begin(), prefixes.end(),
                                    [&](const std::string& prefix) { return one.name.starts_with(prefix); });
    if (inside || one.module->parameters().empty()) continue;
    prefixes.push_back(one.name + ".");
    found.push_back(one.module);
  }
  return found;
}

std::vector<int> blocks_of(nn::Module& model, const std::vector<nn::Module*>& blocks,
                           const std::vector<Tensor>& parameters) {
  constexpr int kOutside = -1;
  std::unordered_map<const TensorImpl*, int> owner;
  const auto claim = [&](const Tensor& p, int block) {
    const auto [at, fresh] = owner.emplace(p.impl(), block);
    if (!fresh && at->second != block) at->second = kOutside;
  };
  std::unordered_set<const nn::Module*> inside;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (nn::Module* module : blocks[b]->modules()) {
      inside.insert(module);
      for (const Tensor& p : module->parameters(false)) claim(p, static_cast<int>(b));
    }
  }
  for (nn::Module* module : model.modules()) {
    if (inside.contains(module)) continue;
    for (const Tensor& p : module->parameters(false)) claim(p, kOutside);
  }
  std::vector<int> result;
  for (const Tensor& p : parameters) {
    const auto found = owner.find(p.impl());
    result.push_back(found == owner.end() ? kOutside : found->second);
  }
  return result;
}

}  // namespace etna::distributed
