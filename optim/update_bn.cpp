#include <etna/optim/averaged_model.h>

#include <algorithm>

namespace etna::optim::batches {

Measured::~Measured() {
  for (auto& [norm, momentum] : norms_) norm->set_momentum(momentum);
}

void Measured::add(KeepsRunningStatistics* norm) {
  // Modules may share a norm.
  if (norm == nullptr || std::any_of(norms_.begin(), norms_.end(), [&](const auto& n) { return n.first == norm; }))
    return;
  norms_.emplace_back(norm, norm->momentum());
  norm->reset_running_stats();
  norm->set_momentum({});
}

}  // namespace etna::optim::batches
