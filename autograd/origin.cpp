#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#if __has_include(<execinfo.h>) && __has_include(<cxxabi.h>) && __has_include(<dlfcn.h>)
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#define ETNA_HAS_BACKTRACE
#endif

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/autograd/autograd.h>
#include <etna/autograd/internal/node.h>

namespace etna::autograd {
namespace {

struct Recorded {
  std::vector<std::string> scopes;  ///< open now
  std::uint64_t ops = 0;            ///< so far
};
thread_local Recorded by_thread;

#ifdef ETNA_HAS_BACKTRACE
std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : symbol;
}

/// "train_step(Net&) (program+0x12f4)", empty for a frame inside the library or the C library.
std::string described(void* frame) {
  Dl_info here{}, info{};
  if (dladdr(frame, &info) == 0 || info.dli_fname == nullptr) return "";
  dladdr(reinterpret_cast<void*>(&described), &here);
  const std::string function = info.dli_sname != nullptr ? demangled(info.dli_sname) : "";
  const bool inside = function.find("etna::") != std::string::npos && function.find("testing::") == std::string::npos;
  std::string_view file = info.dli_fname;
  file = file.substr(file.rfind('/') + 1);
  if (inside || file.starts_with("libc.") || file.starts_with("libstdc++")) return "";
  // A program that links the library statically is the same file; a shared library is not.
  if (info.dli_fbase == here.dli_fbase && file.starts_with("libetna")) return "";
  const auto offset = reinterpret_cast<std::uintptr_t>(frame) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  return fmt::format("{}{}({}+{:#x})", function, function.empty() ? "" : " ", file, offset);
}
#endif

}  // namespace

NameScope::NameScope(std::string name) { by_thread.scopes.push_back(std::move(name)); }
NameScope::~NameScope() { by_thread.scopes.pop_back(); }

Origin origin_here() {
  Origin origin{fmt::format("{}", fmt::join(by_thread.scopes, "/")), {}, ++by_thread.ops};
#ifdef ETNA_HAS_BACKTRACE
  origin.frames.resize(48);
  origin.frames.resize(
      static_cast<std::size_t>(backtrace(origin.frames.data(), static_cast<int>(origin.frames.size()))));
#endif
  return origin;
}

std::string str(const Origin& origin) {
  std::string text = fmt::format("; it was op {} recorded by this thread", origin.number);
  if (!origin.scopes.empty()) text += fmt::format(", in '{}'", origin.scopes);
#ifdef ETNA_HAS_BACKTRACE
  std::vector<std::string> callers;
  for (void* frame : origin.frames) {
    std::string caller = described(frame);
    if (!caller.empty() && callers.size() < 4) callers.push_back(std::move(caller));
  }
  if (!callers.empty()) text += fmt::format(", called by {}", fmt::join(callers, " ← "));
#endif
  return text;
}

}  // namespace etna::autograd
