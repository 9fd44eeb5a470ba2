#include <etna/optim/lbfgs.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/device/memory_control.h>
#include <etna/dist/sharding.h>
#include <etna/optim/internal/line_search.h>
#include <etna/tensor/internal/name_list.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::optim {
namespace {

DType wide(const std::vector<Tensor>& parameters) {
  return std::ranges::any_of(parameters, [](const Tensor& p) { return p.dtype() == f64; }) ? f64 : f32;
}
double product(const Tensor& a, const Tensor& b) { return sum(a * b).item<double>(); }
double largest(const Tensor& x) { return x.numel() == 0 ? 0 : max(abs(x)).item<double>(); }

}  // namespace

LBFGS::LBFGS(std::vector<Tensor> parameters, LBFGSOptions options)
    : parameters_(std::move(parameters)), options_(options) {
  for (const Tensor& p : parameters_) {
    if (!p.defined() || !p.is_leaf()) throw Error("LBFGS: a parameter is no leaf; pass what parameters() gives");
  }
  std::erase_if(parameters_, [](const Tensor& p) { return !p.requires_grad(); });
  if (parameters_.empty()) throw Error("LBFGS: no parameters were given, or none of them requires grad");
  if (options.max_eval == 0) options_.max_eval = options.max_iter * 5 / 4;
  if (!(options.lr >= 0) || std::isinf(options.lr) || options.max_iter < 1 || options_.max_eval < 1 ||
      options.history_size < 1) {
    throw Error(fmt::format("LBFGS: lr {}, max_iter {}, max_eval {}, history_size {}; wanted are at least 0, 1, 1, 1",
                            options.lr, options.max_iter, options_.max_eval, options.history_size));
  }
}

void LBFGS::zero_grad() {
  for (Tensor& p : parameters_) p.set_grad({});
}

Tensor LBFGS::flat_grad() const {
  std::vector<Tensor> all;
  const DType t = wide(parameters_);
  for (const Tensor& p : parameters_) {
    const Tensor grad = p.grad();
    if (!grad.defined() && distributed::has_divided_gradient(p))
      throw Error("LBFGS: it needs whole gradients, which the ranks divide among them (ZeRO); use stage 0");
    all.push_back(grad.defined() ? grad.detach().to(t).reshape({p.numel()}) : zeros({p.numel()}, {t, p.device()}));
  }
  return cat(all);
}

/// Adds t times the direction to the parameters.
void LBFGS::move(double t, const Tensor& direction) {
  GradMode off(false);
  std::int64_t begin = 0;
  for (Tensor& p : parameters_) {
    const Tensor step = direction.slice(0, begin, begin + p.numel()).reshape(p.shape());
    p.copy_(p.to(step.dtype()) + step * t);
    begin += p.numel();
  }
}

std::vector<Tensor> LBFGS::saved_parameters() const {
  GradMode off(false);
  std::vector<Tensor> all;
  for (const Tensor& p : parameters_) all.push_back(p.detach().clone());
  return all;
}

LBFGS::Point LBFGS::evaluate(const Closure& closure) {
  Tensor loss;
  {
    GradMode on(true);
    loss = closure();
  }
  ++func_evals_;
  return {loss.item<double>(), flat_grad()};
}

/// The direction of the next iteration; takes the last one into the history. The two loops are Algorithm 7.4 of Nocedal
/// & Wright.
Tensor LBFGS::direction(const Tensor& grad) {
  const Tensor y = grad - previous_grad_, s = d_ * t_;
  if (const double ys = product(y, s); ys > 1e-10) {
    if (old_dirs_.size() == static_cast<std::size_t>(options_.history_size)) {
      old_dirs_.erase(old_dirs_.begin());
      old_stps_.erase(old_stps_.begin());
      ro_.erase(ro_.begin());
    }
    for (const Tensor* kept : {&y, &s}) kept->storage()->set_use(MemoryUse::optimizer);
    old_dirs_.push_back(y);
    old_stps_.push_back(s);
    ro_.push_back(1 / ys);
    h_diag_ = ys / product(y, y);
  }
  std::vector<double> alpha(old_dirs_.size());
  Tensor q = -grad;
  for (std::size_t i = old_dirs_.size(); i-- > 0;) {
    alpha[i] = product(old_stps_[i], q) * ro_[i];
    q = q - old_dirs_[i] * alpha[i];
  }
  Tensor r = q * h_diag_;
  for (std::size_t i = 0; i < old_dirs_.size(); ++i) {
    const double beta = product(old_dirs_[i], r) * ro_[i];
    r = r + old_stps_[i] * (alpha[i] - beta);
  }
  return r;
}

std::tuple<LBFGS::Point, double, std::int64_t> LBFGS::search(const Closure& closure, const Point& from, double t,
                                                             double slope) {
  const std::vector<Tensor> start = saved_parameters();
  const auto restore = [&] {
    GradMode off(false);
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].copy_(start[i]);
  };
  const auto at = [&](double distance) -> LinePoint {
    move(distance, d_);
    const Point found = evaluate(closure);
    restore();
    return {distance, found.loss, product(found.grad, d_), found.grad};
  };
  const LineSearchResult found =
      strong_wolfe(at, {0, from.loss, slope, from.grad}, t, largest(d_), options_.tolerance_change);
  return {Point{found.point.loss, found.point.grad}, found.point.t, found.evaluations};
}

Tensor LBFGS::step(const Closure& closure) {
  GradMode off(false);
  Tensor first;
  const Closure remembering = [&] {
    const Tensor loss = closure();
    if (!first.defined()) first = loss.detach().clone();
    return loss;
  };
  Point now = evaluate(remembering);
  if (largest(now.grad) <= options_.tolerance_grad) return end_step(), first;
  std::int64_t evaluations = 1;
  for (std::int64_t i = 1; i <= options_.max_iter; ++i) {
    const bool beginning = ++n_iter_ == 1;
    d_ = beginning ? -now.grad : direction(now.grad);
    previous_grad_ = now.grad, previous_loss_ = now.loss;
    t_ = beginning ? std::min(1.0, 1 / sum(abs(now.grad)).item<double>()) * options_.lr : options_.lr;
    const double slope = product(now.grad, d_);
    if (slope > -options_.tolerance_change) break;
    bool flat = false;
    if (options_.line_search == LineSearch::strong_wolfe) {
      const auto [point, t, count] = search(remembering, now, t_, slope);
      now = point, t_ = t, evaluations += count;
      move(t_, d_);
      flat = largest(now.grad) <= options_.tolerance_grad;
    } else {
      move(t_, d_);
      if (i < options_.max_iter) {
        now = evaluate(remembering);
        flat = largest(now.grad) <= options_.tolerance_grad;
      }
      ++evaluations;
    }
    if (evaluations >= options_.max_eval || flat) break;
    if (largest(d_) * std::abs(t_) <= options_.tolerance_change) break;
    if (std::abs(now.loss - previous_loss_) < options_.tolerance_change) break;
  }
  end_step();
  return first;
}

std::map<std::string, Tensor> LBFGS::state_dict() const {
  const auto number = [](double x) { return scalar(x, {f64}); };
  std::map<std::string, Tensor> state = {{"n_iter", number(static_cast<double>(n_iter_))},
                                         {"func_evals", number(static_cast<double>(func_evals_))},
                                         {"t", number(t_)},
                                         {"h_diag", number(h_diag_)},
                                         {"prev_loss", number(previous_loss_)}};
  if (!d_.defined()) return state;
  state["d"] = d_, state["prev_flat_grad"] = previous_grad_;
  if (!old_dirs_.empty()) state["old_dirs"] = stack(old_dirs_), state["old_stps"] = stack(old_stps_);
  return state;
}

void LBFGS::load_state_dict(const std::map<std::string, Tensor>& state) {
  std::int64_t elements = 0;
  for (const Tensor& p : parameters_) elements += p.numel();
  const bool pairs = state.contains("old_dirs"), begun = state.contains("d");
  std::vector<std::pair<std::string, Shape>> wanted;
  for (const char* name : {"n_iter", "func_evals", "t", "h_diag", "prev_loss"}) wanted.push_back({name, {}});
  if (begun) wanted.push_back({"d", {elements}}), wanted.push_back({"prev_flat_grad", {elements}});
  if (pairs) {
    const Shape shape = {state.at("old_dirs").dim() == 2 ? state.at("old_dirs").size(0) : 0, elements};
    wanted.push_back({"old_dirs", shape}), wanted.push_back({"old_stps", shape});
  }
  std::vector<std::string> wrong;
  for (const auto& [name, shape] : wanted) {
    const auto found = state.find(name);
    if (found == state.end())
      wrong.push_back(name + " (missing)");
    else if (found->second.shape() != shape)
      wrong.push_back(fmt::format("{} {} (wanted {})", name, str(found->second.shape()), str(shape)));
  }
  if (!wrong.empty() || state.size() != wanted.size()) {
    throw Error(fmt::format("load_state_dict: LBFGS over {} elements; wrong: {}", elements,
                            wrong.empty() ? "entries it does not know" : name_list(wrong)));
  }
  GradMode off(false);
  const Device device = parameters_.front().device();
  const auto vector = [&](const char* name) { return state.at(name).to(device, wide(parameters_)).clone(); };
  n_iter_ = state.at("n_iter").item<std::int64_t>(), func_evals_ = state.at("func_evals").item<std::int64_t>();
  t_ = state.at("t").item<double>(), h_diag_ = state.at("h_diag").item<double>();
  previous_loss_ = state.at("prev_loss").item<double>();
  d_ = begun ? vector("d") : Tensor(), previous_grad_ = begun ? vector("prev_flat_grad") : Tensor();
  old_dirs_.clear(), old_stps_.clear(), ro_.clear();
  if (!pairs) return;
  const Tensor dirs = vector("old_dirs"), steps = vector("old_stps");
  for (std::int64_t i = 0; i < dirs.size(0); ++i) {
    old_dirs_.push_back(dirs.select(0, i));
    old_stps_.push_back(steps.select(0, i));
    ro_.push_back(1 / product(old_dirs_.back(), old_stps_.back()));
  }
}

}  // namespace etna::optim
