#include <etna/optim/schedule.h>
#include <etna/train/settings.h>

namespace etna::training {

void Recipe::add_to(SettingList& list) {
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  list.integer("batch", batch, 1, 1 << 16, "sequences a batch");
  list.integer("accumulation", accumulation, 1, 256, "batches whose gradients make one step");
  list.integer("epochs", epochs, 0, kMany, "passes over the training text; the learning rate's schedule spans them");
  list.integer("steps", steps, 0, kMany, "stop after so many steps (without epochs the schedule spans these)");
  list.choice("schedule", schedule, {"cosine", "linear", "constant"}, "course of the learning rate after the warm-up");
  list.real("lr", lr, 0, 1e6, "peak learning rate");
  list.real("lr_floor", lr_floor, 0, 1, "share of the peak that the schedule ends at");
  list.integer("warmup", warmup, 0, kMany, "steps in which the rate rises to its peak");
  list.real("weight_decay", weight_decay, 0, 100, "of matrices; biases and norms have none");
  list.real("beta1", beta1, 0, 0.999999, "AdamW's average of gradients");
  list.real("beta2", beta2, 0, 0.999999, "AdamW's average of squares");
  list.real("eps", eps, 0, 1, "AdamW's addend to the root");
  list.real("clip", clip, 0, 1e6, "largest norm of the gradients; 0: any");
  list.choice("precision", precision, {"f32", "f16", "bf16"},
              "what products compute in: f32, f16 (training scales its loss) or bf16");
  list.choice("recompute", recompute, {"none", "blocks"},
              "transformer: activations that training does not keep but computes again, for less memory");
  list.integer("seed", seed, 0, std::int64_t{1} << 53, "of the weights and the dropout");
  list.integer("eval_every", eval_every, 0, kMany, "steps between validations; 0: at the end of each epoch");
  list.integer("patience", patience, 0, kMany, "validations without a better loss before the run ends; 0: any number");
  list.integer("keep", keep, 1, 1000, "newest checkpoints to keep");
  list.real("checkpoint_seconds", checkpoint_seconds, 0, 1e9, "between checkpoints");
  list.together({"epochs", "steps"});
}

std::vector<std::string> Recipe::may_change() {
  return {"epochs", "steps", "eval_every", "patience", "keep", "checkpoint_seconds"};
}

std::int64_t Recipe::planned_steps(std::int64_t steps_per_epoch) const {
  return epochs > 0 ? epochs * steps_per_epoch : steps;
}

optim::Schedule Recipe::course(std::int64_t planned) const {
  const optim::Schedule after = schedule == "cosine"   ? optim::cosine(planned, lr_floor)
                                : schedule == "linear" ? optim::linear(planned, lr_floor)
                                                       : optim::constant();
  return warmup > 0 ? optim::linear_warmup(warmup) * after : after;
}

}  // namespace etna::training
