#include <etna/device/internal/os/process.h>

#include <csignal>

#include <windows.h>

namespace etna::os {
namespace {

void (*handler_now)(int) = nullptr;

/// The system calls it in a thread of its own. Ctrl-Break and the end of the session are this system's SIGTERM.
BOOL WINAPI receive(DWORD event) {
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) return FALSE;
  handler_now(event == CTRL_C_EVENT ? SIGINT : SIGTERM);
  return TRUE;
}

}  // namespace

int process_id() { return static_cast<int>(::GetCurrentProcessId()); }

void sleep_precisely() {}

std::string host_name() {
  char name[256] = {};
  DWORD room = sizeof name;
  return ::GetComputerNameExA(ComputerNameDnsHostname, name, &room) ? name : "";
}

std::string processor_name() {
  char name[256] = {};
  DWORD room = sizeof name;
  const LSTATUS status = ::RegGetValueA(HKEY_LOCAL_MACHINE, R"(HARDWARE\DESCRIPTION\System\CentralProcessor\0)",
                                        "ProcessorNameString", RRF_RT_REG_SZ, nullptr, name, &room);
  std::string text = status == ERROR_SUCCESS ? name : "";
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

/// The C library keeps their numbers where the process came without them.
void open_standard_streams() {}

struct EndSignals::Before {
  void (*interrupt)(int);
  void (*terminate)(int);
};

/// raise() calls the C library's handlers, the console those of SetConsoleCtrlHandler().
EndSignals::EndSignals(void (*handler)(int))
    : before_(std::make_unique<Before>(Before{std::signal(SIGINT, handler), std::signal(SIGTERM, handler)})) {
  if (before_->interrupt == SIG_IGN) std::signal(SIGINT, SIG_IGN);
  if (before_->terminate == SIG_IGN) std::signal(SIGTERM, SIG_IGN);
  handler_now = handler;
  ::SetConsoleCtrlHandler(receive, TRUE);
}

EndSignals::~EndSignals() {
  ::SetConsoleCtrlHandler(receive, FALSE);
  std::signal(SIGINT, before_->interrupt);
  std::signal(SIGTERM, before_->terminate);
}

struct InterruptibleRead::Before {};

InterruptibleRead::InterruptibleRead() = default;
InterruptibleRead::~InterruptibleRead() = default;
bool InterruptibleRead::wait() const { return true; }
bool InterruptibleRead::interrupted() const { return false; }

}  // namespace etna::os
