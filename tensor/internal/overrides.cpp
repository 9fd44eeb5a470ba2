#include <etna/tensor/internal/overrides.h>

#include <utility>

#include <etna/device/internal/pending.h>

namespace etna {
namespace {

thread_local Overrides thread_overrides;

}  // namespace

const Overrides& overrides() { return thread_overrides; }

// Calls held back were made under the value before, or under that of the scope.
template <typename T>
Override<T>::Override(T Overrides::*field, T value) : field_(field), before_(thread_overrides.*field) {
  finish_pending();
  thread_overrides.*field = std::move(value);
}

template <typename T>
Override<T>::~Override() {
  finish_pending();
  thread_overrides.*field_ = std::move(before_);
}

template class Override<bool>;
template class Override<std::int64_t>;
template class Override<std::optional<int>>;

}  // namespace etna
