#include <etna/device/internal/os/terminal.h>

#include <sys/ioctl.h>
#include <unistd.h>

namespace etna::os {

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

TerminalSize terminal_size(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_col, size.ws_row};
}

}  // namespace etna::os
