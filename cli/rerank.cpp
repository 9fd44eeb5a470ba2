#include <algorithm>
#include <cstdio>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/text_file.h>
#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/models/encoder.h>
#include <etna/train/progress.h>
#include <etna/train/settings.h>

#include "arguments.h"
#include "commands.h"
#include "output.h"
#include "text_list.h"

namespace etna::cli {
namespace {

using training::printable;

struct RerankOptions : TextListOptions {
  std::string query, instruction;
  std::int64_t top = 0;
  bool json = false;
};

int rerank(const RerankOptions& options) try {
  if (lacks_text(options, "rerank")) return 2;
  const std::vector<std::string> texts = texts_of(options);
  const Device device = device_of(options);
  if (!options.quiet) std::fprintf(stderr, "%s\n", device_line(options.device, device).c_str());
  models::Reranker reranker(model_path(options.model), {.device = device});
  if (!options.instruction.empty()) {
    if (!reranker.takes_instruction())
      throw FormatError(fmt::format("{}: the model takes no --instruction, but the query and a text alone",
                                    printable(options.model)));
    reranker.instruction = options.instruction;
  }
  const models::Reranker::Result result = reranker.scores(options.query, texts);
  report_long(options, result.cut, reranker.most_tokens());
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return result.scores[a] > result.scores[b]; });
  if (options.top > 0 && std::cmp_less(options.top, order.size())) order.resize(static_cast<std::size_t>(options.top));
  nlohmann::ordered_json ranked = nlohmann::ordered_json::array();
  std::string lines;
  for (const std::size_t i : order) {
    const bool utf8 = data::find_invalid_utf8(texts[i]) >= texts[i].size();
    ranked.push_back({{"index", i}, {"score", result.scores[i]}, {"text", utf8 ? texts[i] : printable(texts[i])}});
    lines += fmt::format("{:9.4f}  {:>4}  {}\n", result.scores[i], i + 1, printable(texts[i]));
  }
  print_all(options.json
                ? nlohmann::ordered_json{{"query", printable(options.query)}, {"results", ranked}}.dump(2) + "\n"
                : lines);
  return 0;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace

Command add_rerank(CLI::App& app) {
  const auto options = std::make_shared<RerankOptions>();
  CLI::App* command = app.add_subcommand("rerank", "Sort texts by how well they answer a query");
  add_text_list_options(*command, *options);
  command->add_option("--query", options->query, "what is asked")->required();
  command->add_option("--instruction", options->instruction,
                      "what makes a text a good one, for Qwen3-Reranker (default: that it answers a web search)");
  command->add_option("--top", options->top, "print the best so many only; 0: all")
      ->check(number_in(training::integers(0)));
  command->add_flag("--json", options->json, "print JSON");
  return {command, [options] { return cli::rerank(*options); }};
}

}  // namespace etna::cli
