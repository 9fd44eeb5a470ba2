#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <etna/tensor/internal/recording.h>

namespace etna {

/// What the host reads while a step is recorded and a replay would not read again: the modes of modules, which leaves
/// require grad, and conditions of others. Decides whether a recording still does what its function would.
class Watched {
 public:
  /// ---- while the step is recorded.
  void note(const recording::Setting& setting, recording::Touch touch, recording::Described what);
  void note_requires_grad(const Tensor& leaf, recording::Touch touch);
  void guard(std::function<std::string()> check) { guards_.push_back(std::move(check)); }
  /// The recording ends: forgets what only the step knew.
  void end();

  /// ---- before and after replays.
  /// "Dropout is in eval mode now", or empty.
  std::string difference() const;
  /// Whether a module or an optimizer that the step read is gone.
  bool gone() const;
  /// Sets what the step sets. Called after a replay.
  void write() const;

 private:
  template <typename Owner>
  struct Value {
    std::weak_ptr<Owner> owner;
    recording::Described what;
    bool read_first = false;  ///< the step depends on the value at its beginning
    bool written = false;
    std::int64_t before = 0, after = 0;
  };
  template <typename Owner>
  struct Values {
    std::vector<Value<Owner>> list;
    std::map<std::weak_ptr<Owner>, std::size_t, std::owner_less<>> places;  ///< while recording
    Value<Owner>* note(const std::shared_ptr<Owner>& owner, recording::Touch touch, std::int64_t now);
    void end();
    std::string difference() const;
  };

  Values<std::int64_t> settings_;
  Values<TensorImpl> leaves_;
  std::vector<std::function<std::string()>> guards_;
  mutable std::uint64_t seen_ = 0;  ///< recording::changes() when nothing differed
};

}  // namespace etna
