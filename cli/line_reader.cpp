#include "line_reader.h"

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <iostream>

#ifdef ETNA_HAS_LIBEDIT
#include <histedit.h>
#include <unistd.h>
#endif

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/device/error.h>
#include <etna/device/internal/os/process.h>
#include <etna/device/internal/os/terminal.h>
#include <etna/device/memory.h>

#include "output.h"

namespace etna::cli {
namespace {

constexpr const char* kHowToEnd = "\n(Ctrl-D or /exit ends)\n";

}  // namespace

#ifdef ETNA_HAS_LIBEDIT

struct LineReader::Editor {
  EditLine* line = el_init("etna", stdin, stdout, stderr);
  History* history = history_init();
  HistEvent event{};

  Editor() {
    std::setlocale(LC_CTYPE, "");  // which characters bytes are
    el_set(
        line, EL_PROMPT, +[](EditLine*) -> char* {
          static char prompt[] = "> ";
          return prompt;
        });
    el_set(line, EL_EDITOR, "emacs");
    ::history(history, &event, H_SETSIZE, 1000);
    ::history(history, &event, H_SETUNIQUE, 1);
    el_set(line, EL_HIST, ::history, history);
    el_set(line, EL_GETCFN, &character);
  }
  ~Editor() {
    history_end(history);
    el_end(line);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  /// The next character, which may be of several bytes; libedit's own would miss a Ctrl-C in front of its read().
  /// @return 1; 0 at the end; -1 after Ctrl-C
  static int character(EditLine* editor, wchar_t* into) {
    const os::InterruptibleRead* typed = nullptr;
    el_get(editor, EL_CLIENTDATA, &typed);
    std::mbstate_t state{};
    for (;;) {
      char byte = 0;
      const auto got = typed->wait() ? ::read(STDIN_FILENO, &byte, 1) : -1;
      if (got <= 0) return static_cast<int>(got);
      const std::size_t length = std::mbrtowc(into, &byte, 1, &state);
      if (length == static_cast<std::size_t>(-2)) continue;  // the character goes on
      if (length == static_cast<std::size_t>(-1)) *into = L'\xfffd', state = {};
      return 1;
    }
  }

  /// @return false at the end, and after Ctrl-C
  bool read(std::string& text, const os::InterruptibleRead& typing) {
    int count = 0;
    el_set(line, EL_CLIENTDATA, &typing);
    el_set(line, EL_PREP_TERM, 1);  // before the prompt, so that all keys behind it are read as such
    const char* typed = el_gets(line, &count);
    if (typed == nullptr || count <= 0) return false;
    text = typed;
    if (text.ends_with('\n')) text.pop_back();
    if (!text.empty()) ::history(history, &event, H_ENTER, typed);
    return true;
  }
};

#else

struct LineReader::Editor {
  bool read(std::string& text, const os::InterruptibleRead& typing) {
    print_all("> ");
    return typing.wait() && std::getline(std::cin, text);
  }
};

#endif

LineReader::LineReader()
    : terminal_(os::is_terminal(stdin) && os::is_terminal(stdout)),
      editor_(terminal_ ? std::make_unique<Editor>() : nullptr) {}

LineReader::~LineReader() = default;

std::optional<std::string> LineReader::next() {
  std::string text;
  if (!terminal_) return std::getline(std::cin, text) ? std::optional(text) : std::nullopt;
  for (;;) {
    const os::InterruptibleRead read;
    if (editor_->read(text, read)) return text;
    std::cin.clear();
    std::clearerr(stdin);
    print_all(read.interrupted() ? kHowToEnd : "\n");
    if (!read.interrupted()) return std::nullopt;
  }
}

std::string standard_input() {
  constexpr std::size_t kMost = std::size_t{64} << 20;  // no context of a model holds as much
  std::string text;
  char chunk[1 << 16];
  while (const std::size_t count = std::fread(chunk, 1, sizeof chunk, stdin)) {
    text.append(chunk, count);
    if (text.size() > kMost)
      throw FormatError(
          fmt::format("standard input is larger than {}, more than is read at once", readable_bytes(kMost)));
  }
  if (const std::size_t at = std::min(text.find('\0'), data::find_invalid_utf8(text)); at != std::string::npos)
    throw FormatError(fmt::format("standard input is not UTF-8 text: see byte {}", at));
  return text;
}

}  // namespace etna::cli
