#include <algorithm>
#include <memory>
#include <unordered_set>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/autograd/internal/node.h>
#include <etna/tensor/ops.h>

// Writes in place on the tape. A write is computed by an op that returns a new tensor. Its values are then copied, and
// the tensor becomes the result of that op. Where it is a view, its base becomes the result of a node that puts the new
// values to their region, and all views of the base get nodes that read their regions, once autograd looks at them.
namespace etna::autograd {
namespace {

/// Where a view lies in its base.
struct Region {
  Shape whole, part;
  Strides whole_strides, part_strides;
  std::int64_t offset = 0;

  /// A tensor of the base's shape and strides.
  Tensor like_base(const Tensor& g, bool zero) const {
    std::int64_t extent = numel(whole) > 0 ? 1 : 0;
    for (int d = 0; d < whole.rank() && extent > 0; ++d) extent += (whole[d] - 1) * whole_strides[d];
    const TensorOptions options{g.dtype(), g.device()};
    const Tensor memory = zero ? zeros({extent}, options) : empty({extent}, options);
    return detail::make_view(memory.storage(), g.device(), g.dtype(), whole, whole_strides, 0);
  }
  /// The region of a tensor of the base's strides.
  Tensor of(const Tensor& base, const Shape& shape) const {
    const bool none = numel(shape) == 0;
    return detail::make_view(base.storage(), base.device(), base.dtype(), shape,
                             none ? contiguous_strides(shape) : part_strides, base.offset() + (none ? 0 : offset));
  }
};
using RegionPtr = std::shared_ptr<const Region>;

RegionPtr region_of(const TensorImpl& base, const TensorImpl& view) {
  return std::make_shared<Region>(
      Region{base.shape, view.shape, base.strides, view.strides, view.offset - base.offset});
}

Tensor put_region(const RegionPtr& region, const Tensor& g);

/// The elements of the region. @param g of the base's shape
Tensor take_region(const RegionPtr& region, const Tensor& g) {
  const auto forward = [&](const TensorList& in) {
    Tensor whole = in[0];
    if (whole.strides() != region->whole_strides) whole = region->like_base(g, false).copy_(in[0]);
    return TensorList{region->of(whole, region->part)};
  };
  return custom(
      {g}, forward, [region](const TensorList& grad) { return TensorList{put_region(region, grad[0])}; },
      "take_region")[0];
}

/// Zeros of the base's shape with g in the region; elements that the view repeats are added up.
Tensor put_region(const RegionPtr& region, const Tensor& g) {
  const auto forward = [&](const TensorList& in) {
    Tensor part = in[0];
    for (int d = 0; d < part.dim(); ++d) {
      if (region->part_strides[d] == 0 && part.shape()[d] > 1) part = sum(part, d, true);
    }
    Tensor whole = region->like_base(g, true);
    region->of(whole, part.shape()).copy_(part);
    return TensorList{whole};
  };
  return custom(
      {g}, forward, [region](const TensorList& grad) { return TensorList{take_region(region, grad[0])}; },
      "put_region")[0];
}

/// A copy with zeros in the region.
Tensor clear_region(const RegionPtr& region, const Tensor& g) {
  const auto forward = [&](const TensorList& in) {
    Tensor whole = region->like_base(g, false).copy_(in[0]);
    region->of(whole, region->part).zero_();
    return TensorList{whole};
  };
  return custom(
      {g}, forward, [region](const TensorList& grad) { return TensorList{clear_region(region, grad[0])}; },
      "clear_region")[0];
}

struct Input {
  Tensor shape;
  Edge edge;
};

/// Makes x the result of a node.
void place_at(Tensor& x, const char* name, const std::vector<Input>& inputs,
              std::function<TensorList(const TensorList&)> backward) {
  auto node = std::make_shared<Node>();
  node->name = name;
  node->custom = std::move(backward);
  for (const Input& in : inputs) {
    node->in.push_back({detail::without_storage(in.shape), 0});
    node->edges.push_back(in.edge);
    node->needs.push_back(in.edge.wanted());
  }
  node->out.push_back({detail::without_storage(x), 0});
  Meta& meta = meta_of(x);
  const std::shared_ptr<Node> before = meta.node;
  attach(node, std::span(&x, 1));
  if (!meta.retains) return;
  if (before != nullptr)
    std::erase_if(before->retained, [&](const auto& r) { return r.second.lock() == x.impl_ptr(); });
  node->retained.emplace_back(0, x.impl_ptr());
}

/// What nodes recorded since then saved of a storage becomes a copy: the storage is written to next.
void keep_saved(const Tensor& result, std::uint64_t since, const StoragePtr& storage) {
  std::unordered_set<Node*> met;
  std::vector<Node*> list;
  const auto meet = [&](const Edge& edge) {
    if (edge.node != nullptr && edge.node->sequence >= since && met.insert(edge.node.get()).second)
      list.push_back(edge.node.get());
  };
  NoGrad off;
  meet(edge_to(result));
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (const Edge& edge : list[i]->edges) meet(edge);
    for (std::vector<SavedTensor>* kept : {&list[i]->in, &list[i]->out}) {
      for (SavedTensor& saved : *kept) {
        if (saved.packed != nullptr && saved.packed->storage.lock() == storage) {
          const Tensor y = saved.packed->unpack(saved.packed->value);
          const SavedTensorHooks* hooks = SavedTensorHooks::current();
          if (y.defined() && y.storage() == storage && hooks != nullptr) saved.packed->value = hooks->pack()(y.clone());
          saved.packed->storage.reset();
        }
        if (!saved.tensor.defined() || saved.tensor.impl()->storage != storage) continue;
        saved.tensor = saved.tensor.clone();
        saved.version = saved.tensor.storage()->version;
      }
    }
  }
}

bool repeats(const TensorImpl& x) {
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (x.shape[d] > 1 && x.strides[d] == 0) return true;
  }
  return false;
}

}  // namespace

bool wants_write(const char* op, const Tensor& x, const Tensor& source) {
  if (!grad_enabled() || !is_floating(x.dtype())) return false;
  const bool follows = source.requires_grad(), own = x.requires_grad();
  using View = TensorImpl::View;
  const View view = x.impl()->view;
  if (view == View::of_graph_off_tape || (view == View::off_tape && follows)) {
    throw GradError(fmt::format(
        "{}: the tensor {} is a view that was made under NoGrad, or by a custom op, so gradients would not follow the "
        "write; make the view again with grad mode on, write under NoGrad, or clone() it",
        op, str(x.shape())));
  }
  const Tensor root = x.impl()->base != nullptr ? Tensor(x.impl()->base) : x;
  if (root.requires_grad() && root.is_leaf()) {
    throw GradError(
        fmt::format("{}: the tensor {} is {} requires grad and grad mode is on; write under NoGrad, or into a clone()",
                    op, str(x.shape()), root.impl() == x.impl() ? "a leaf that" : "a view of a leaf that"));
  }
  if (root.impl() != x.impl() && (own || follows) && repeats(*root.impl())) {
    throw ShapeError(
        fmt::format("{}: {} is a view of a tensor {} that repeats its elements; clone() it and write there", op,
                    str(x.shape()), str(root.shape())));
  }
  return own || follows;
}

void record_write(const char* op, Tensor& x, const std::function<Tensor(const Tensor&)>& result) {
  const std::uint64_t since = upcoming_sequence();
  const Tensor y = result(x);
  if (y.impl() == x.impl()) return;
  keep_saved(y, since, x.storage());
  const Input written{y, edge_to(y)};
  {
    NoGrad off;
    x.copy_(y);
  }
  x.storage()->set_last_writer(op);
  const bool flows = written.edge.wanted();
  if (x.impl()->base == nullptr) {
    const Input before{x, edge_to(x)};
    place_at(x, op, {flows ? written : before},
             [flows](const TensorList& g) { return TensorList{flows ? g[0] : zeros_like(g[0])}; });
    ++x.impl()->writes;
    return;
  }
  Tensor base(x.impl()->base);
  const Input before{base, edge_to(base)};
  const RegionPtr region = region_of(*base.impl(), *x.impl());
  place_at(base, op, {before, written}, [region, flows, kept = before.edge.wanted()](const TensorList& g) {
    return TensorList{kept ? clear_region(region, g[0]) : Tensor(), flows ? take_region(region, g[0]) : Tensor()};
  });
  ++base.impl()->writes;
}

void follow_base(const Tensor& view) {
  Tensor x = view;
  x.impl()->writes = x.impl()->base->writes;
  const Tensor base(x.impl()->base);
  const RegionPtr region = region_of(*base.impl(), *x.impl());
  place_at(x, "view", {{base, edge_to(base)}},
           [region](const TensorList& g) { return TensorList{put_region(region, g[0])}; });
}

}  // namespace etna::autograd
