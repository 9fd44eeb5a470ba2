#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/autograd/internal/node.h>
#include <etna/tensor/internal/capture_hooks.h>

namespace etna {
namespace autograd {
namespace {

std::atomic<std::uint64_t> next_sequence{1};

class Recorder final : public GradRecorder {
 public:
  bool wants(std::span<const Tensor> inputs) const override {
    if (!grad_enabled()) return false;
    for (const Tensor& x : inputs) {
      if (x.defined() && x.requires_grad()) return true;
    }
    return false;
  }

  void record(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, std::span<Tensor> outputs) override {
    bool differentiable = op.vjp != nullptr || op.reference != nullptr;
    bool floating = false;
    for (const Tensor& y : outputs) floating = floating || is_floating(y.dtype());
    if (!differentiable || !floating) return;
    auto node = std::make_shared<Node>();
    node->name = op.name;
    node->op = &op;
    node->attrs = attrs;
    // An op without vjp is differentiated through its reference, which needs the inputs.
    auto saved = static_cast<unsigned>(op.vjp != nullptr ? op.saved : Saved::inputs);
    std::uint32_t in = (saved & 1u) == 0 ? 0 : op.vjp != nullptr ? op.saved_inputs : ~0u;
    int wanted = 0;
    for (const Tensor& x : inputs) {
      node->edges.push_back(edge_to(x));
      node->needs.push_back(node->edges.back().wanted());
      wanted += node->needs.back() ? 1 : 0;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool if_another = op.saved == Saved::factors || (op.saved == Saved::quotient && i == 0);
      const bool needed = has(in, i) && (!if_another || wanted > (node->needs[i] ? 1 : 0));
      node->in.push_back(needed ? saved_values(inputs[i], !kept_as_it_is(inputs[i])) : saved_shape(inputs[i]));
    }
    // A saved output is stored without its link to this node; otherwise the two would own each other.
    std::uint32_t out = (saved & 2u) == 0 ? 0 : op.saved_outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      node->out.push_back(has(out, i) ? saved_values(outputs[i], true) : saved_shape(outputs[i]));
    attach(node, outputs);
  }

  bool wants_write(const char* op, const Tensor& x, const Tensor& source) const override {
    return autograd::wants_write(op, x, source);
  }
  void record_write(const char* op, Tensor& x, const std::function<Tensor(const Tensor&)>& result) override {
    autograd::record_write(op, x, result);
  }

 private:
  /// A leaf that requires grad is not written into, and no graph leads from it. Integers are on no tape.
  static bool kept_as_it_is(const Tensor& x) {
    return !x.defined() || !is_floating(x.dtype()) || (x.requires_grad() && x.is_leaf());
  }
  /// With more inputs than bits (cat), the last bit stands for all further ones.
  static bool has(std::uint32_t mask, std::size_t i) { return (mask >> std::min<std::size_t>(i, 31) & 1u) != 0; }
  static SavedTensor saved_shape(const Tensor& x) { return {detail::without_storage(x), 0}; }
  static SavedTensor saved_values(const Tensor& x, bool off_tape) {
    const SavedTensorHooks* hooks = SavedTensorHooks::current();
    if (!x.defined()) return {x, 0};
    const std::uint32_t version = x.storage()->version;
    if (hooks == nullptr) return {off_tape ? detail::alias(x) : x, version};
    NoGrad off;
    auto packed = std::make_shared<PackedTensor>(
        PackedTensor{hooks->pack()(detail::alias(x)), hooks->unpack(), x.storage(), version});
    return {detail::without_storage(x), 0, std::move(packed)};
  }
};

}  // namespace

std::uint64_t upcoming_sequence() { return next_sequence; }

void attach(const std::shared_ptr<Node>& node, std::span<Tensor> outputs) {
  node->sequence = next_sequence++;
  node->hooks.resize(outputs.size());
  if (detects_anomalies()) node->origin = origin_here();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!is_floating(outputs[i].dtype())) continue;
    outputs[i].impl()->requires_grad = true;
    Meta& meta = meta_of(outputs[i]);
    meta.node = node;
    meta.output = static_cast<int>(i);
  }
}

Meta* find_meta(const Tensor& tensor) {
  refresh(tensor);
  return static_cast<Meta*>(tensor.impl()->autograd.get());
}

Meta& meta_of(const Tensor& tensor) {
  refresh(tensor);
  auto& slot = tensor.impl()->autograd;
  if (!slot) slot = std::make_unique<Meta>();
  return static_cast<Meta&>(*slot);
}

Edge edge_to(const Tensor& x) {
  if (!x.defined() || !x.requires_grad()) return {};
  Meta* meta = find_meta(x);
  if (meta != nullptr && meta->node) return {meta->node, meta->output, {}};
  return {nullptr, 0, x};
}

Tensor separate(const Tensor& x, const Tensor& values) {
  return custom(
      {x}, [&values](const TensorList&) { return TensorList{values}; }, [](const TensorList& g) { return g; },
      "identity")[0];
}

Tensor placed(const Tensor& values, const Edge& edge) {
  if (edge.node != nullptr) return linked(values, edge.node, edge.output);
  return values.impl() == edge.leaf.impl() ? values : separate(edge.leaf, values);
}

Tensor linked(const Tensor& output, const std::shared_ptr<Node>& node, int index) {
  Tensor y = detail::alias(output);
  y.impl()->requires_grad = true;
  Meta& meta = meta_of(y);
  meta.node = node;
  meta.output = index;
  return y;
}

namespace {

TensorList detached(const TensorList& inputs) {
  TensorList plain;
  for (const Tensor& x : inputs) plain.push_back(x.defined() ? detail::alias(x) : x);
  return plain;
}

/// Records `outputs` as made from `inputs` by a function that autograd does not know.
std::shared_ptr<Node> record_custom(const TensorList& inputs, TensorList& outputs,
                                    std::function<TensorList(const TensorList&)> backward, std::string name) {
  auto node = std::make_shared<Node>();
  node->name = std::move(name);
  node->custom = std::move(backward);
  for (const Tensor& x : inputs) {
    node->in.push_back({x.defined() ? detail::without_storage(x) : x, 0});
    node->edges.push_back(edge_to(x));
    node->needs.push_back(node->edges.back().wanted());
  }
  for (Tensor& y : outputs) {
    y = detail::alias(y);
    node->out.push_back({detail::without_storage(y), 0});
    const bool view = std::any_of(inputs.begin(), inputs.end(),
                                  [&](const Tensor& x) { return x.defined() && x.impl()->storage == y.storage(); });
    if (view) y.impl()->view = TensorImpl::View::of_graph_off_tape;
  }
  attach(node, outputs);
  return node;
}

}  // namespace

TensorList custom(const TensorList& inputs, const std::function<TensorList(const TensorList&)>& forward,
                  std::function<TensorList(const TensorList&)> backward, std::string name) {
  TensorList outputs;
  {
    NoGrad off;
    outputs = forward(detached(inputs));
  }
  if (grad_recorder().wants(inputs)) record_custom(inputs, outputs, std::move(backward), std::move(name));
  return outputs;
}

TensorList custom(const TensorList& inputs, const std::function<TensorList(Context&, const TensorList&)>& forward,
                  std::function<TensorList(const Context&, const TensorList&)> backward, std::string name) {
  auto context = std::make_shared<Context>();
  context->name_ = name;
  for (const Tensor& x : inputs) context->needs_.push_back(edge_to(x).wanted());
  const TensorList plain = detached(inputs);
  TensorList outputs;
  {
    NoGrad off;
    outputs = forward(*context, plain);
  }
  if (!grad_recorder().wants(inputs)) return outputs;
  for (Context::Saved& saved : context->saved_) {
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (saved.tensor.impl_ptr() == plain[i].impl_ptr()) saved.input = static_cast<int>(i);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (saved.tensor.impl_ptr() == outputs[i].impl_ptr()) saved.output = static_cast<int>(i);
    }
    // Without its link: the node owns the context, and an output its node.
    if (saved.output >= 0 && saved.tensor.defined()) saved.tensor = detail::alias(saved.tensor);
  }
  context->node_ = record_custom(
      inputs, outputs,
      [context, backward = std::move(backward)](const TensorList& grad) { return backward(*context, grad); },
      std::move(name));
  return outputs;
}

void Context::save_for_backward(const TensorList& tensors) {
  for (const Tensor& x : tensors) saved_.push_back({x, x.defined() ? x.storage()->version : 0});
}

TensorList Context::saved_tensors() const {
  TensorList list;
  for (const Saved& saved : saved_) {
    check_version(saved.tensor, saved.version, name_);
    const std::shared_ptr<Node> node = node_.lock();
    const bool link = node != nullptr && grad_enabled() && saved.tensor.defined();
    const Edge* edge = link && saved.input >= 0 ? &node->edges[static_cast<std::size_t>(saved.input)] : nullptr;
    if (edge != nullptr && edge->wanted()) {
      list.push_back(placed(saved.tensor, *edge));
    } else {
      list.push_back(link && saved.output >= 0 ? linked(saved.tensor, node, saved.output) : saved.tensor);
    }
  }
  return list;
}

}  // namespace autograd

GradRecorder& grad_recorder() {
  static auto* recorder = new autograd::Recorder;
  return *recorder;
}

bool Tensor::requires_grad() const {
  if (!defined()) return false;
  autograd::refresh(*this);
  return impl_->requires_grad;
}

bool Tensor::is_leaf() const {
  shape();
  autograd::Meta* meta = autograd::find_meta(*this);
  return meta == nullptr || !meta->node;
}

Tensor& Tensor::requires_grad_(bool on) {
  if (on && !is_floating(dtype())) {
    throw DtypeError(
        fmt::format("requires_grad_: the tensor holds {}; only floating tensors have gradients", name(dtype())));
  }
  if (!is_leaf()) throw GradError("requires_grad_: the tensor is the result of a recorded op; detach() it first");
  capture_hooks::note_requires_grad(*this, capture_hooks::Touch::write);
  if (std::exchange(impl_->requires_grad, on) != on) capture_hooks::changed();
  if (on) impl_->base = nullptr, impl_->view = TensorImpl::View::recorded;  // a variable of its own
  return *this;
}

Tensor Tensor::grad() const {
  shape();
  capture_hooks::note_gradient(*this, capture_hooks::Touch::read);
  autograd::Meta* meta = autograd::find_meta(*this);
  return meta != nullptr ? meta->grad : Tensor();
}

void Tensor::set_grad(const Tensor& grad) {
  if (grad.defined() && (grad.shape() != shape() || grad.device() != device())) {
    throw ShapeError(fmt::format("set_grad: a gradient {} on {} does not fit a tensor {} on {}",
                                 etna::str(grad.shape()), grad.device().str(), etna::str(shape()), device().str()));
  }
  capture_hooks::note_gradient(*this, capture_hooks::Touch::write);
  autograd::meta_of(*this).grad = grad;
}

Tensor Tensor::detach() const { return detail::alias(*this); }

Tensor& Tensor::detach_() {
  if (!requires_grad()) return *this;
  if (impl_->base != nullptr) {
    throw GradError(fmt::format("detach_: the tensor {} is a view, on the tape with what it is a view of; use detach()",
                                etna::str(shape())));
  }
  autograd::Meta& meta = autograd::meta_of(*this);
  if (meta.node != nullptr && meta.retains)
    std::erase_if(meta.node->retained, [this](const auto& r) { return r.second.lock() == impl_; });
  meta.node = nullptr, meta.output = 0, meta.retains = false;
  impl_->requires_grad = false;
  return *this;
}

HookHandle Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  if (!requires_grad()) throw GradError("register_hook: the tensor does not require grad, so no gradient will come");
  autograd::Meta& meta = autograd::meta_of(*this);
  autograd::Hooks& hooks = meta.node ? meta.node->hooks[static_cast<std::size_t>(meta.output)] : meta.hooks;
  if (hooks == nullptr) hooks = std::make_shared<autograd::HookList>();
  const std::uint64_t id = hooks->next++;
  hooks->hooks.emplace_back(id, std::move(hook));
  return HookHandle([id, list = std::weak_ptr(hooks)] {
    if (const autograd::Hooks there = list.lock())
      std::erase_if(there->hooks, [id](const auto& h) { return h.first == id; });
  });
}

void Tensor::retain_grad() const {
  if (!requires_grad()) throw GradError("retain_grad: the tensor does not require grad, so no gradient will come");
  autograd::Meta& meta = autograd::meta_of(*this);
  if (!meta.node || meta.retains) return;
  meta.retains = true;
  meta.node->retained.emplace_back(meta.output, impl_);
}

bool Tensor::retains_grad() const {
  shape();
  const autograd::Meta* meta = autograd::find_meta(*this);
  return meta != nullptr && meta->retains;
}

void Tensor::backward(const Tensor& grad, bool retain_graph, bool create_graph) const {
  Tensor seed = grad;
  if (!seed.defined()) {
    if (numel() != 1) {
      throw GradError(
          fmt::format("backward: the tensor has {} elements {}; reduce it to one, or pass a gradient of its shape",
                      numel(), etna::str(shape())));
    }
    seed = ones_like(*this);
  }
  if (seed.shape() != shape()) {
    throw ShapeError(
        fmt::format("backward: a gradient {} does not fit a tensor {}", etna::str(seed.shape()), etna::str(shape())));
  }
  autograd::run_backward(std::span(this, 1), std::span(&seed, 1), {}, retain_graph, create_graph);
}

}  // namespace etna
