#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <etna/dist/internal/transport.h>

namespace etna::distributed {

/// The messages of some ranks, which are numbered from 0. It uses the transport of all ranks, which outlives it.
class MemberTransport final : public Transport {
 public:
  MemberTransport(Transport& all, std::vector<int> members) : all_(all), members_(std::move(members)) {}

  int rank() const override {
    return static_cast<int>(std::find(members_.begin(), members_.end(), all_.rank()) - members_.begin());
  }
  int size() const override { return static_cast<int>(members_.size()); }
  std::string name() const override { return all_.name(); }
  int send(int to, int tag, const void* at, std::size_t bytes) override {
    return all_.send(members_[static_cast<std::size_t>(to)], tag, at, bytes);
  }
  int receive(int from, int tag, void* at, std::size_t bytes) override {
    return all_.receive(members_[static_cast<std::size_t>(from)], tag, at, bytes);
  }
  std::string progress() override { return all_.progress(); }
  bool done(int message) const override { return all_.done(message); }
  void clear() override { all_.clear(); }
  void finish() override {}

 private:
  Transport& all_;
  const std::vector<int> members_;
};

}  // namespace etna::distributed
