#pragma once

#include <functional>
#include <string>
#include <vector>

#include <etna/tensor/op.h>

namespace bench {

struct Row {
  std::string group, name;
  etna::DType dtype = etna::f32;
  double forward_ms = 0;
  double both_ms = 0;  ///< forward and backward; 0: not timed
};

struct Setting {
  etna::Device device;
  etna::DType dtype = etna::f32;
  bool captured = false;
  int calls = 20;    ///< between two waits
  std::string only;  ///< rows whose names contain it are timed, the others left at 0
};

/// Milliseconds of a call: the median of five runs of `calls` calls, each followed by one wait.
double milliseconds(const Setting& setting, const std::function<etna::TensorList()>& call);

/// Times forward() without the tape, and forward() with the gradients of `leaves`.
Row timed(const Setting& setting, std::string group, std::string name, const std::function<etna::Tensor()>& forward,
          const std::vector<etna::Tensor>& leaves);
/// Times forward() alone.
Row timed(const Setting& setting, std::string group, std::string name,
          const std::function<etna::TensorList()>& forward);

using Print = std::function<void(const Row&)>;
void convolutions(const Setting& setting, const Print& print);
void recurrent(const Setting& setting, const Print& print);
void sorting(const Setting& setting, const Print& print);
void attentions(const Setting& setting, const Print& print);
void prompts(const Setting& setting, const Print& print);
void mixtures(const Setting& setting, const Print& print);
void small_cnn(const Setting& setting, const Print& print);

}  // namespace bench
