#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/device/memory.h>
#include <etna/device/output_file.h>
#include <etna/models/encoder.h>
#include <etna/models/model_file.h>
#include <etna/tensor/quant/block_format.h>
#include <etna/train/progress.h>

#include "commands.h"
#include "model_kind.h"
#include "output.h"
#include "weight_file.h"

namespace etna::cli {
namespace {

struct InspectOptions {
  std::string file, json;
  bool check = false, names = true, force = false;
};

using training::printable;
using training::with_commas;

constexpr const char* kInspect = "etna inspect";
constexpr std::size_t kWidestName = 48, kWidestKey = 44;

struct Share {
  std::int64_t tensors = 0, elements = 0;
  std::uint64_t bytes = 0;
};

std::string shape_text(const Shape& shape) { return shape.empty() ? "one number" : str(shape); }

/// Whether this build can run the model.
struct Verdict {
  bool runs = false;
  std::string text;
};

/// What load_model() says about a file, without its name in front.
std::string obstacle_of(const std::string& file, bool& has_tokenizer) try {
  namespace fs = std::filesystem;
  if (std::string why = why_no_model(file); !why.empty()) return why;
  const fs::path given = fs::path(file).extension() == ".json" ? fs::path(file).parent_path() : fs::path(file);
  const fs::path path = given.empty() ? "." : given;
  has_tokenizer = models::is_encoder(path) ? models::load_encoder(path).tokenizer != nullptr
                                           : models::load_model(path).tokenizer != nullptr;
  return "";
} catch (const Error& error) {
  const std::string text = error.what();
  return text.starts_with(file + ": ") ? text.substr(file.size() + 2) : text;
}

/// "this build reads all of its tensors, but does not run the model: ..."
Verdict verdict_of(const InspectOptions& options, const WeightFile& file) {
  std::map<std::string, std::int64_t> unknown;
  for (const WeightTensor& t : file.tensors) unknown[t.format] += t.layout == nullptr ? 1 : 0;
  std::string list;
  std::int64_t count = 0;
  for (const auto& [format, tensors] : unknown) {
    if (tensors == 0) continue;
    count += tensors;
    list += (list.empty() ? "" : ", ") + format;
  }
  bool has_tokenizer = false;
  const std::string obstacle = obstacle_of(options.file, has_tokenizer), reads = "this build reads all of its tensors";
  if (count > 0) {
    return {obstacle.empty(),
            fmt::format("this build cannot decode {} of its tensors: {}; the model {}", with_commas(count), list,
                        obstacle.empty() ? "runs without them" : "does not run: " + printable(obstacle))};
  }
  if (!obstacle.empty()) return {false, fmt::format("{}, but does not run the model: {}", reads, printable(obstacle))};
  return {true, reads + (has_tokenizer ? ", and runs the model" : ", and runs the model, which has no tokenizer")};
}

std::map<std::string, Share> shares_of(const WeightFile& file) {
  std::map<std::string, Share> shares;
  for (const WeightTensor& t : file.tensors) {
    Share& share = shares[t.format];
    ++share.tensors;
    share.elements += t.elements;
    share.bytes += t.bytes;
  }
  return shares;
}

Share sum_of(const std::map<std::string, Share>& shares) {
  Share all;
  for (const auto& [format, share] : shares) {
    all.tensors += share.tensors;
    all.elements += share.elements;
    all.bytes += share.bytes;
  }
  return all;
}

std::string inspect_text_of(const InspectOptions& options, const WeightFile& file, const Verdict& verdict) {
  const auto shares = shares_of(file);
  const Share all = sum_of(shares);
  std::string text = fmt::format("{}: {}, {} tensors, {} weights, {}\n", printable(options.file), file.kind,
                                 with_commas(all.tensors), with_commas(all.elements), readable_bytes(all.bytes));
  for (const auto& [format, share] : shares) {
    text += fmt::format("  {:<8} {:>6} tensors {:>16} weights {:>12}\n", printable(format), with_commas(share.tensors),
                        with_commas(share.elements), readable_bytes(share.bytes));
  }
  text += verdict.text + "\n";
  std::size_t key_width = 0, name_width = 0, shape_width = 0;
  for (const auto& [key, value] : file.metadata) key_width = std::max(key_width, training::columns(printable(key)));
  for (const WeightTensor& t : file.tensors) {
    name_width = std::max(name_width, training::columns(printable(t.name)));
    shape_width = std::max(shape_width, shape_text(t.shape).size());
  }
  if (!file.metadata.empty()) text += "\nmetadata\n";
  for (const auto& [key, value] : file.metadata) {
    text += fmt::format("  {}  {}\n", training::padded(key, std::min(key_width, kWidestKey)),
                        training::shortened(value, 160));
  }
  if (!options.names || file.tensors.empty()) return text;
  text += "\ntensors\n";
  for (const WeightTensor& t : file.tensors) {
    text += fmt::format("  {}  {:<{}}  {:<8} {:>12}\n", training::padded(t.name, std::min(name_width, kWidestName)),
                        shape_text(t.shape), shape_width, printable(t.format), readable_bytes(t.bytes));
  }
  return text;
}

nlohmann::json json_of(const WeightFile& file, const Verdict& verdict) {
  // File names and tensor names are any bytes; what is not UTF-8 becomes an escape.
  nlohmann::json tensors = nlohmann::json::array(), metadata = nlohmann::json::object();
  for (const WeightTensor& t : file.tensors) {
    std::vector<std::int64_t> shape(t.shape.begin(), t.shape.end());
    tensors.push_back({{"name", printable(t.name)},
                       {"shape", shape},
                       {"format", printable(t.format)},
                       {"bytes", t.bytes},
                       {"readable", t.layout != nullptr}});
  }
  for (const auto& [key, value] : file.metadata) metadata[printable(key)] = printable(value);
  return {{kCommandKey, kInspect},   {"kind", file.kind},    {"runs", verdict.runs},
          {"verdict", verdict.text}, {"metadata", metadata}, {"tensors", tensors}};
}

/// A line for each finding. @return how many tensors have one
std::int64_t check(const WeightFile& file, std::string& text) {
  std::int64_t suspicious = 0;
  for (const WeightTensor& t : file.tensors) {
    if (t.layout == nullptr) continue;
    const std::vector<quant::Finding> findings = quant::find_suspicious(*t.layout, t.data(), t.elements);
    suspicious += findings.empty() ? 0 : 1;
    for (const quant::Finding& finding : findings) text += fmt::format("  {}: {}\n", printable(t.name), finding.text);
  }
  return suspicious;
}

int inspect(const InspectOptions& options) try {
  io::require_output({"--json", options.json, json_marks(kInspect)}, options.force, {options.file});
  const WeightFile file = open_weights(options.file);
  const Verdict verdict = verdict_of(options, file);
  std::string text = inspect_text_of(options, file, verdict), found;
  std::int64_t suspicious = 0;
  if (options.check) {
    suspicious = check(file, found);
    text += suspicious == 0 ? "\nweights: nothing suspicious\n"
                            : fmt::format("\nweights: {} tensors are suspicious\n{}", with_commas(suspicious), found);
  }
  if (!options.json.empty()) io::write_file(options.json, json_of(file, verdict).dump(2) + "\n");
  print_all(text);
  return suspicious == 0 ? 0 : kSuspicious;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace

Command add_inspect(CLI::App& app) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* inspect =
      app.add_subcommand("inspect", "Show what a file of weights holds, and whether this build runs it");
  inspect
      ->add_option("-m,--model,file", options->file,
                   "GGUF, safetensors (a file, an index, or a folder of Hugging Face), or a llama2.c checkpoint")
      ->required();
  inspect->add_flag("--check", options->check, "also read all weights and report suspicious ones (exit code 8)");
  inspect->add_flag("!--no-tensors", options->names, "leave the list of tensors out");
  add_output(*inspect, "--json", options->json, "also write kind, metadata and tensors to this file", options->force);
  return {inspect, [options] { return cli::inspect(*options); }};
}

}  // namespace etna::cli
