// Optimizers over tensors that JavaScript made.
#include <etna/optim/optim.h>

#include "call.h"

namespace etna::web {
namespace {

Kept<optim::Optimizer>& optimizers() {
  static Kept<optim::Optimizer> all("optimizer");
  return all;
}

Json make_optimizer(const Json& args) {
  std::vector<Tensor> parameters;
  for (const Json& id : args.at("parameters")) parameters.push_back(tensor_with(id.get<int>()));
  const double lr = number_of(args.at("lr")), decay = number_of(args.at("weight_decay"));
  std::unique_ptr<optim::Optimizer> optimizer;
  if (args.at("kind") == "sgd") {
    optim::SGDOptions options;
    options.lr = lr, options.momentum = number_of(args.at("momentum")), options.weight_decay = decay;
    optimizer = std::make_unique<optim::SGD>(parameters, options);
  } else {
    optim::AdamWOptions options;
    options.lr = lr, options.weight_decay = decay;
    optimizer = std::make_unique<optim::AdamW>(parameters, options);
  }
  optimizers().put(args.at("id"), std::move(optimizer));
  return Json::object();
}

Json step(const Json& args) {
  optimizers().at(args).step();
  return Json::object();
}
Json zero_grad(const Json& args) {
  optimizers().at(args).zero_grad();
  return Json::object();
}
Json free_optimizer(const Json& args) {
  optimizers().free(args.at("id"));
  return Json::object();
}

}  // namespace

void add_training_methods(Methods& methods) {
  methods["optimizer"] = make_optimizer;
  methods["optimizer_step"] = step;
  methods["zero_grad"] = zero_grad;
  methods["free_optimizer"] = free_optimizer;
}

}  // namespace etna::web
