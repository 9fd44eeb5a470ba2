#include <cstdlib>

#include "wikitext.h"

namespace wikitext {

using namespace etna;

std::unique_ptr<training::Receipt> begin_receipt(const std::string& file, const std::vector<std::string>& command,
                                                 bool force, const std::vector<FilePath>& read) {
  return training::begin_receipt(file, {.name = "wikitext", .version = ETNA_VERSION, .command = command}, read, force);
}

void add_text_files(training::Receipt& receipt, const DataOptions& options) {
  const char* variable = std::getenv("ETNA_DATA");
  const std::string data = options.data.empty() && variable != nullptr ? variable : options.data;
  const std::string& named = options.text.empty() ? data : options.text;
  if (!named.empty()) receipt.file("text", named);
}

}  // namespace wikitext
