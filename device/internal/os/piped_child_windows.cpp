#include <etna/device/internal/os/piped_child.h>

namespace etna::os {

struct PipedChild::State {
  ChildEnd end;
};

PipedChild::PipedChild(std::vector<std::string> command, ChildOptions options) : state_(std::make_unique<State>()) {
  state_->end = run_child(command, options);
}
PipedChild::~PipedChild() = default;
bool PipedChild::write(const std::string&) { return false; }
void PipedChild::close_input() {}
std::string PipedChild::read() { return {}; }
ChildEnd PipedChild::wait() { return state_->end; }

}  // namespace etna::os
