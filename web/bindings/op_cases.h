#pragma once

#include <functional>
#include <string>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::web {

/// How an operand of a case is drawn.
struct Operand {
  Shape shape;
  double low = -2, high = 2;
  bool differentiable = true;
  std::int64_t classes = 0;  ///< if not 0: whole numbers below it, i64
};

/// An op to be checked and timed. The numbers of a check are drawn once in f64.
struct OpCase {
  std::string name;
  std::vector<Operand> operands;
  std::function<Tensor(const std::vector<Tensor>&)> run;
  double flops = 0, bytes = 0;  ///< of the forward pass: arithmetic, and the least that has to be moved
};

const std::vector<OpCase>& op_cases();

}  // namespace etna::web
