#include <etna/device/internal/os/child.h>

namespace etna::os {

ChildEnd run_child(const std::vector<std::string>&, const ChildOptions&) {
  ChildEnd end;
  end.error = "programs are not started on Windows; WSL 2 can";
  return end;
}

std::vector<std::string> variable_names() { return {}; }
std::string signal_words(int) { return ""; }
void use_share_of_cores(int, int) {}
bool is_root() { return false; }

}  // namespace etna::os
