#include <etna/tensor/ops/normalization/normalization.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_batch_norm() {
  auto train = [](const TensorList& in) { return batch_norm(in[0], {}, {}, in[1], in[2], true); };
  auto channels_last = [](const TensorList& in) {
    return batch_norm(in[0].permute({0, 2, 1}), {}, {}, in[1], {}, true);
  };
  auto eval = [](const TensorList& in) { return batch_norm(in[0], in[3], in[4], in[1], in[2]); };
  auto update = [](const TensorList& in) {
    RunningStatistics running{in[1].clone(), in[2].clone(), in[3].clone(), {}};
    const Tensor y = batch_norm_tracked(in[0], running, {}, {}, true);
    return TensorList{y, running.mean, running.var, running.num_batches_tracked};
  };
  auto groups = [](const TensorList& in) { return group_norm(in[0], 2, in[1], in[2]); };
  auto instances = [](const TensorList& in) { return instance_norm(in[0], {}, {}, in[1]); };
  auto responses = [](const TensorList& in) { return local_response_norm(in[0], 3, 0.5, 0.75, 2); };
  return {
      Sample("batch_norm", "runs")
          .in({3, 2, 4})
          .in({2})
          .in({2})
          .covers({"batch_norm_backward"})
          .looser(2)
          .looser_halves(4)
          .calls(train),
      Sample("batch_norm", "odd runs, many").in({5, 3, 211}).in({3}).none().looser_halves(4).calls(train),
      Sample("batch_norm", "channels last").in({3, 5, 2}).in({2}).looser_halves(4).calls(channels_last),
      Sample("batch_norm", "given statistics")
          .in({3, 2, 2})
          .in({2})
          .in({2})
          .in({2})
          .constant()
          .in({2}, 0.5, 2)
          .constant()
          .looser_halves(4)
          .calls(eval),
      Sample("batch_norm", "no examples").in({0, 2, 4}).in({2}).in({2}).calls(train),
      Sample("batch_norm_update", "the average so far")
          .in({4, 3})
          .in({3})
          .constant()
          .in({3}, 0.5, 2)
          .constant()
          .index({}, 1, 5)
          .looser_halves(4)
          .gradients(Gradients::none)
          .calls(update),
      Sample("batch_norm_update", "no channels")
          .in({4, 0})
          .in({0})
          .constant()
          .in({0})
          .constant()
          .index({}, 1, 5)
          .gradients(Gradients::none)
          .calls(update),
      Sample("group_norm", "two groups")
          .in({2, 4, 3})
          .in({4})
          .in({4})
          .looser(2)
          .looser_halves(4)
          .composed()
          .calls(groups),
      Sample("group_norm", "no examples").in({0, 4, 3}).in({4}).in({4}).composed().calls(groups),
      Sample("instance_norm", "no examples").in({0, 2, 5}).in({2}).composed().calls(instances),
      Sample("local_response_norm", "no examples").in({0, 2, 5}).composed().calls(responses),
      Sample("instance_norm", "weighted").in({2, 2, 5}).in({2}).looser_halves(6).composed().calls(instances),
      Sample("local_response_norm", "three channels").in({2, 5, 3}).composed().looser_halves(4).calls(responses),
  };
}

}  // namespace etna::conformance
