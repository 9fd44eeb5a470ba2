#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <etna/tensor/internal/capture_hooks.h>

namespace etna {

/// What the host reads while a step is captured and a replay would not read again: the modes of modules, which leaves
/// require grad, and conditions of others. Decides whether a capture still does what its function would.
class Watched {
 public:
  /// ---- while the step is captured.
  void note(const capture_hooks::Setting& setting, capture_hooks::Touch touch, capture_hooks::Described what);
  void note_requires_grad(const Tensor& leaf, capture_hooks::Touch touch);
  void guard(std::function<std::string()> check) { guards_.push_back(std::move(check)); }
  /// The capture ends: forgets what only the step knew.
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
    capture_hooks::Described what;
    bool read_first = false;  ///< the step depends on the value at its beginning
    bool written = false;
    std::int64_t before = 0, after = 0;
  };
  template <typename Owner>
  struct Values {
    std::vector<Value<Owner>> list;
    std::map<std::weak_ptr<Owner>, std::size_t, std::owner_less<>> places;  ///< while capturing
    Value<Owner>* note(const std::shared_ptr<Owner>& owner, capture_hooks::Touch touch, std::int64_t now);
    void end();
    std::string difference() const;
  };

  Values<std::int64_t> settings_;
  Values<TensorImpl> leaves_;
  std::vector<std::function<std::string()>> guards_;
  mutable std::uint64_t seen_ = 0;  ///< capture_hooks::changes() when nothing differed
};

}  // namespace etna
