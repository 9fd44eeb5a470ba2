#include "line_reader.h"

#include <clocale>
#include <iostream>

#ifdef ETNA_HAS_LIBEDIT
#include <histedit.h>
#endif

#include <etna/device/os/process.h>
#include <etna/device/os/terminal.h>

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
  }
  ~Editor() {
    history_end(history);
    el_end(line);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  /// @return false at the end
  bool read(std::string& text) {
    int count = 0;
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
  bool read(std::string& text) {
    print_all("> ");
    return static_cast<bool>(std::getline(std::cin, text));
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
    if (editor_->read(text)) return text;
    std::cin.clear();
    std::clearerr(stdin);
    print_all(read.interrupted() ? kHowToEnd : "\n");
    if (!read.interrupted()) return std::nullopt;
  }
}

}  // namespace etna::cli
