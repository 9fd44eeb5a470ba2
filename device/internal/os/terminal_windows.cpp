#include <etna/device/internal/os/terminal.h>

#include <io.h>
#include <windows.h>

namespace etna::os {
namespace {

HANDLE console(std::FILE* stream) { return reinterpret_cast<HANDLE>(::_get_osfhandle(::_fileno(stream))); }

}  // namespace

/// _isatty() takes any device for a terminal, NUL too.
bool is_terminal(std::FILE* stream) {
  DWORD mode = 0;
  return ::GetConsoleMode(console(stream), &mode) != 0;
}

TerminalSize terminal_size(std::FILE* stream) {
  CONSOLE_SCREEN_BUFFER_INFO info{};
  if (!::GetConsoleScreenBufferInfo(console(stream), &info)) return {};
  return {static_cast<std::size_t>(info.srWindow.Right - info.srWindow.Left + 1),
          static_cast<std::size_t>(info.srWindow.Bottom - info.srWindow.Top + 1)};
}

}  // namespace etna::os
