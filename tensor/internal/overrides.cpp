#include <etna/tensor/internal/overrides.h>

#include <etna/device/internal/pending.h>

namespace etna {
namespace {

constinit thread_local Overrides thread_overrides;

}  // namespace

const Overrides& overrides() { return thread_overrides; }

Overrides& detail::changeable_overrides() {
  finish_pending();
  return thread_overrides;
}

}  // namespace etna
