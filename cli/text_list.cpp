#include "text_list.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/device/error.h>
#include <etna/tensor/internal/name_list.h>

#include "line_reader.h"
#include "output.h"

namespace etna::cli {

void add_text_list_options(CLI::App& app, TextListOptions& options) {
  app.add_option("-m,--model,model", options.model, "a GGUF file, or a folder of Hugging Face")->required();
  CLI::Option* text =
      app.add_option("-t,--text", options.texts, "a text; may be given several times")->allow_extra_args(false);
  app.add_option("-f,--file", options.file, "a file with a text a line; -: standard input")->excludes(text);
  app.add_flag("--no-truncate", options.refuses_long,
               "refuse texts that are too long for the model; else their ends are left out, with a warning");
  app.add_option("--device", options.device, "cpu, vulkan:N, gpu (a real one) or auto");
  app.add_flag("--strict", options.strict, "fail instead of silently running on the CPU");
  app.add_flag("-q,--quiet", options.quiet, "only warnings and errors on standard error");
}

bool lacks_text(const TextListOptions& options, const char* command) {
  if (!options.texts.empty() || !options.file.empty()) return false;
  print_error(fmt::format("{}: give a text with --text, or a file with a text a line with --file", command));
  return true;
}

std::vector<std::string> texts_of(const TextListOptions& options) {
  if (!options.texts.empty()) return options.texts;
  const std::string all = options.file == "-" ? standard_input() : data::read_text_file(options.file);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    std::string line = all.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    texts.push_back(std::move(line));
    at = end + 1;
  }
  if (texts.empty()) {
    throw FormatError(fmt::format("{}: there is no text in it", options.file == "-" ? "standard input" : options.file));
  }
  return texts;
}

void report_long(const TextListOptions& options, const std::vector<std::size_t>& cut, std::int64_t most) {
  if (cut.empty()) return;
  std::vector<std::string> numbers;
  for (const std::size_t i : cut) numbers.push_back(std::to_string(i + 1));
  const std::string which = fmt::format("{} {}", cut.size() == 1 ? "text" : "texts", name_list(numbers));
  if (options.refuses_long) {
    throw FormatError(
        fmt::format("{}: longer than the {} tokens that the model reads; shorten it, or leave out "
                    "--no-truncate",
                    which, most));
  }
  std::fprintf(stderr, "warning: %s: longer than the %lld tokens that the model reads; the end is left out\n",
               which.c_str(), static_cast<long long>(most));
}

}  // namespace etna::cli
