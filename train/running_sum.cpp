#include <etna/train/evaluator.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

namespace etna::training {

RunningSum::RunningSum(Device device) : total(zeros({}, {f32, device})), excess_(zeros({}, {f32, device})) {}

void RunningSum::add(const Tensor& value) {
  const NoGrad off;
  const Tensor missing = value.detach().to(f32) - excess_;
  const Tensor sum = total + missing;
  // An infinite sum stays infinite: it has no excess.
  excess_.copy_(nan_to_num(sum - total - missing, 0, 0, 0));
  total.copy_(sum);
}

void RunningSum::reset() {
  total.zero_();
  excess_.zero_();
}

double RunningSum::value() const { return total.item<double>() - excess_.item<double>(); }

}  // namespace etna::training
