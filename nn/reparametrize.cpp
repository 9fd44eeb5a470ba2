#include <etna/nn/parameters.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/nn/dropout.h>
#include <etna/nn/init.h>
#include <etna/nn/internal/module_hooks.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

/// A parameter of a module that a hook computes. Lives as long as its hook, in the module that it changes.
class Reparametrization {
 public:
  /// Takes the parameter off the module's list; its member stays and is assigned before each call.
  Reparametrization(Module& module, std::string name, const char* what) : module_(module), name_(std::move(name)) {
    auto& list = module.parameters_;
    const auto at = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.name == name_; });
    if (at == list.end()) throw Error(fmt::format("{}: {} has no parameter '{}'", what, module.type_name(), name_));
    member_ = at->member;
    place_ = at->place;
    first_ = *member_;
    list.erase(at);
  }
  virtual ~Reparametrization() = default;
  Reparametrization(const Reparametrization&) = delete;
  Reparametrization& operator=(const Reparametrization&) = delete;

  /// Registers a part; `member` belongs to the derived class.
  void parameter(const char* suffix, Tensor& member) {
    module_.register_parameter(name_ + suffix, member);
    parts_.push_back(name_ + suffix);
  }
  void buffer(const char* suffix, Tensor& member) {
    module_.register_buffer(name_ + suffix, member);
    parts_.push_back(name_ + suffix);
  }
  virtual Tensor compute(bool training) = 0;
  void assign(bool training) { *member_ = compute(training); }

  /// The value becomes the parameter again.
  void undo() {
    GradMode off(false);
    Tensor value = compute(false).detach().clone();
    for (auto* list : {&module_.parameters_, &module_.buffers_}) {
      list->erase(std::remove_if(list->begin(), list->end(),
                                 [&](const auto& entry) {
                                   return std::find(parts_.begin(), parts_.end(), entry.name) != parts_.end();
                                 }),
                  list->end());
    }
    *member_ = value;
    module_.register_parameter(name_, *member_, place_);
  }

  template <typename Kind, typename... Args>
  static void start(Module& module, const std::string& name, Args... args) {
    auto made = std::make_shared<Kind>(module, name, args...);
    made->assign(false);
    made->handle = module.register_forward_pre_hook([made](const Module& called, const TensorList&) {
      made->assign(called.training());
      return TensorList{};
    });
    module.hooks_->reparametrized[name] = made;
  }
  template <typename Kind>
  static void stop(Module& module, const std::string& name, const char* what) {
    std::shared_ptr<Kind> kind;
    if (module.hooks_) {
      const auto found = module.hooks_->reparametrized.find(name);
      if (found != module.hooks_->reparametrized.end()) kind = std::dynamic_pointer_cast<Kind>(found->second);
    }
    if (!kind) throw Error(fmt::format("{}: '{}' of {} is not computed so", what, name, module.type_name()));
    kind->undo();
    kind->handle.remove();
    module.hooks_->reparametrized.erase(name);
  }

  HookHandle handle;

 protected:
  Tensor first_;  ///< the parameter's value when this began

 private:
  Module& module_;
  std::string name_;
  Tensor* member_ = nullptr;
  Module::Place place_ = {};
  std::vector<std::string> parts_;
};

namespace {

/// |v| over all dimensions but `dim`, kept; [1, ..., 1] if there is none.
Tensor norm_except(const Tensor& v, std::optional<std::int64_t> dim) {
  Dims others;
  for (int d = 0; d < v.dim(); ++d) {
    if (!dim || d != *dim) others.push_back(d);
  }
  return others.empty() ? abs(v) : sqrt(sum(square(v), others, true));
}

class WeightNorm : public Reparametrization {
 public:
  WeightNorm(Module& module, const std::string& name, std::optional<std::int64_t> dim)
      : Reparametrization(module, name, "weight_norm") {
    if (dim) dim_ = wrap_dim(*dim, first_.dim(), "weight_norm");
    GradMode off(false);
    v_ = first_.detach().clone();
    g_ = norm_except(v_, dim_).detach();
    if (!dim_) g_ = g_.reshape({}).contiguous();
    parameter("_g", g_), parameter("_v", v_);
  }
  Tensor compute(bool) override { return v_ * (g_ / norm_except(v_, dim_)); }

 private:
  std::optional<std::int64_t> dim_;
  Tensor g_, v_;
};

class SpectralNorm : public Reparametrization {
 public:
  SpectralNorm(Module& module, const std::string& name, int iterations, double eps, std::int64_t dim)
      : Reparametrization(module, name, "spectral_norm"), iterations_(iterations), eps_(eps) {
    if (iterations < 1) throw Error(fmt::format("spectral_norm: {} power iterations; wanted 1 or more", iterations));
    dim_ = wrap_dim(dim, first_.dim(), "spectral_norm");
    GradMode off(false);
    weight_ = first_.detach().clone();
    const Tensor matrix = rows(weight_);
    u_ = unit(randn({matrix.size(0)}, {f32}).to(weight_.device(), weight_.dtype()));
    v_ = unit(randn({matrix.size(1)}, {f32}).to(weight_.device(), weight_.dtype()));
    parameter("_orig", weight_), buffer("_u", u_), buffer("_v", v_);
  }
  Tensor compute(bool training) override {
    const Tensor matrix = rows(weight_);
    Tensor u = u_.detach(), v = v_.detach();
    if (training) {
      GradMode off(false);
      const Tensor fixed = matrix.detach();
      for (int i = 0; i < iterations_; ++i) {
        v = unit(matmul(fixed.t(), u));
        u = unit(matmul(fixed, v));
      }
      u_.copy_(u), v_.copy_(v);
    } else {
      u = u.clone(), v = v.clone();
    }
    return weight_ / matmul(u, matmul(matrix, v));
  }

 private:
  Tensor rows(const Tensor& w) const { return w.transpose(0, dim_).contiguous().flatten(1); }
  Tensor unit(const Tensor& x) const { return x / clamp_min(sqrt(sum(square(x))), eps_); }

  int iterations_;
  double eps_;
  std::int64_t dim_ = 0;
  Tensor weight_, u_, v_;
};

class WeightDrop : public Reparametrization {
 public:
  WeightDrop(Module& module, const std::string& name, double p)
      : Reparametrization(module, name, "weight_drop"), p_(p) {
    GradMode off(false);
    raw_ = first_.detach().clone();
    parameter("_raw", raw_);
  }
  Tensor compute(bool training) override { return dropout(raw_, p_, training); }

 private:
  double p_;
  Tensor raw_;
};

}  // namespace

void weight_norm(Module& module, const std::string& name, std::optional<std::int64_t> dim) {
  Reparametrization::start<WeightNorm>(module, name, dim);
}
void remove_weight_norm(Module& module, const std::string& name) {
  Reparametrization::stop<WeightNorm>(module, name, "remove_weight_norm");
}
void spectral_norm(Module& module, const std::string& name, int n_power_iterations, double eps, std::int64_t dim) {
  Reparametrization::start<SpectralNorm>(module, name, n_power_iterations, eps, dim);
}
void remove_spectral_norm(Module& module, const std::string& name) {
  Reparametrization::stop<SpectralNorm>(module, name, "remove_spectral_norm");
}
void weight_drop(Module& module, const std::string& name, double p) {
  Reparametrization::start<WeightDrop>(module, name, checked_probability("weight_drop", p));
}
void remove_weight_drop(Module& module, const std::string& name) {
  Reparametrization::stop<WeightDrop>(module, name, "remove_weight_drop");
}

}  // namespace etna::nn
