#include <etna/nn/losses.h>

namespace etna::nn {

Tensor CrossEntropyLoss::forward(const Tensor& logits, const Tensor& target) const {
  return cross_entropy(logits, target, weight, ignore_index, label_smoothing, reduction);
}

Tensor NLLLoss::forward(const Tensor& log_probs, const Tensor& target) const {
  if (!weight.defined()) return nll_loss(log_probs, target, ignore_index, reduction);
  return nll_loss(log_probs, target, weight, ignore_index, reduction);
}

Tensor MSELoss::forward(const Tensor& x, const Tensor& target) const { return mse_loss(x, target, reduction); }

CrossEntropyLoss::CrossEntropyLoss(std::int64_t ignore_index, double label_smoothing, Reduction reduction)
    : ignore_index(ignore_index), label_smoothing(label_smoothing), reduction(reduction) {
  register_buffer("weight", &CrossEntropyLoss::weight);
}

CrossEntropyLoss::CrossEntropyLoss(Tensor weight, std::int64_t ignore_index, double label_smoothing,
                                   Reduction reduction)
    : CrossEntropyLoss(ignore_index, label_smoothing, reduction) {
  this->weight = std::move(weight);
}

std::unique_ptr<Module> CrossEntropyLoss::another() const {
  return std::make_unique<CrossEntropyLoss>(ignore_index, label_smoothing, reduction);
}

NLLLoss::NLLLoss(std::int64_t ignore_index, Reduction reduction) : ignore_index(ignore_index), reduction(reduction) {
  register_buffer("weight", &NLLLoss::weight);
}

NLLLoss::NLLLoss(Tensor weight, std::int64_t ignore_index, Reduction reduction) : NLLLoss(ignore_index, reduction) {
  this->weight = std::move(weight);
}

std::unique_ptr<Module> NLLLoss::another() const { return std::make_unique<NLLLoss>(ignore_index, reduction); }

MSELoss::MSELoss(Reduction reduction) : reduction(reduction) {}

std::unique_ptr<Module> MSELoss::another() const { return std::make_unique<MSELoss>(reduction); }

BCELoss::BCELoss(Tensor weight, Reduction reduction) : weight(std::move(weight)), reduction(reduction) {
  register_buffer("weight", &BCELoss::weight);
}

std::unique_ptr<Module> BCELoss::another() const { return std::make_unique<BCELoss>(weight, reduction); }

BCEWithLogitsLoss::BCEWithLogitsLoss(Tensor weight, Tensor pos_weight, Reduction reduction)
    : weight(std::move(weight)), pos_weight(std::move(pos_weight)), reduction(reduction) {
  register_buffer("weight", &BCEWithLogitsLoss::weight);
  register_buffer("pos_weight", &BCEWithLogitsLoss::pos_weight);
}

std::unique_ptr<Module> BCEWithLogitsLoss::another() const {
  return std::make_unique<BCEWithLogitsLoss>(weight, pos_weight, reduction);
}

SigmoidFocalLoss::SigmoidFocalLoss(double alpha, double gamma, Reduction reduction)
    : alpha(alpha), gamma(gamma), reduction(reduction) {}

std::unique_ptr<Module> SigmoidFocalLoss::another() const {
  return std::make_unique<SigmoidFocalLoss>(alpha, gamma, reduction);
}

DiceLoss::DiceLoss(double smooth, Reduction reduction) : smooth(smooth), reduction(reduction) {}

std::unique_ptr<Module> DiceLoss::another() const { return std::make_unique<DiceLoss>(smooth, reduction); }

KLDivLoss::KLDivLoss(KLReduction reduction, bool log_target) : reduction(reduction), log_target(log_target) {}

std::unique_ptr<Module> KLDivLoss::another() const { return std::make_unique<KLDivLoss>(reduction, log_target); }

L1Loss::L1Loss(Reduction reduction) : reduction(reduction) {}

std::unique_ptr<Module> L1Loss::another() const { return std::make_unique<L1Loss>(reduction); }

SmoothL1Loss::SmoothL1Loss(Reduction reduction, double beta) : reduction(reduction), beta(beta) {}

std::unique_ptr<Module> SmoothL1Loss::another() const { return std::make_unique<SmoothL1Loss>(reduction, beta); }

HuberLoss::HuberLoss(Reduction reduction, double delta) : reduction(reduction), delta(delta) {}

std::unique_ptr<Module> HuberLoss::another() const { return std::make_unique<HuberLoss>(reduction, delta); }

GaussianNLLLoss::GaussianNLLLoss(bool full, double eps, Reduction reduction)
    : full(full), eps(eps), reduction(reduction) {}

std::unique_ptr<Module> GaussianNLLLoss::another() const {
  return std::make_unique<GaussianNLLLoss>(full, eps, reduction);
}

PoissonNLLLoss::PoissonNLLLoss(bool log_input, bool full, double eps, Reduction reduction)
    : log_input(log_input), full(full), eps(eps), reduction(reduction) {}

std::unique_ptr<Module> PoissonNLLLoss::another() const {
  return std::make_unique<PoissonNLLLoss>(log_input, full, eps, reduction);
}

CTCLoss::CTCLoss(std::int64_t blank, Reduction reduction, bool zero_infinity)
    : blank(blank), reduction(reduction), zero_infinity(zero_infinity) {}

std::unique_ptr<Module> CTCLoss::another() const { return std::make_unique<CTCLoss>(blank, reduction, zero_infinity); }

}  // namespace etna::nn
