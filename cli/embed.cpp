#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/device/output_file.h>
#include <etna/models/encoder.h>
#include <etna/tensor/io/npy.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/train/progress.h>
#include <etna/train/settings.h>

#include "arguments.h"
#include "commands.h"
#include "output.h"
#include "text_list.h"

namespace etna::cli {
namespace {

using training::printable;

constexpr const char* kEmbed = "etna embed";

struct EmbedOptions : TextListOptions {
  std::string out, pooling, prompt, prefix;
  std::int64_t most_tokens = 0;
  bool normalize = false;
  CLI::Option *given_prefix = nullptr, *given_normalize = nullptr;  ///< to ask whether the user gave them
};

std::string extension_of(const std::string& file) { return std::filesystem::path(file).extension().string(); }

std::vector<float> row_of(const Tensor& vectors, std::int64_t i) { return vectors.select(0, i).to_vector<float>(); }

/// One object, with a line for each vector.
std::string embeddings_as_json(const EmbedOptions& options, const Tensor& vectors) {
  std::string rows;
  for (std::int64_t i = 0; i < vectors.size(0); ++i)
    rows += fmt::format("{}\n    {}", i == 0 ? "" : ",", nlohmann::json(row_of(vectors, i)).dump());
  return fmt::format("{{\n  \"{}\": \"{}\",\n  \"model\": {},\n  \"dimensions\": {},\n  \"embeddings\": [{}\n  ]\n}}",
                     kCommandKey, kEmbed, nlohmann::json(printable(options.model)).dump(), vectors.size(1), rows);
}

void write_vectors(const EmbedOptions& options, const Tensor& vectors) {
  const std::string kind = extension_of(options.out);
  if (kind == ".npy") {
    save_npy(options.out, vectors);
  } else if (kind == ".safetensors") {
    save_safetensors(options.out, NamedTensors{{"embeddings", vectors}});
  } else {
    io::write_file(options.out, embeddings_as_json(options, vectors) + "\n");
  }
}

int embed(const EmbedOptions& options) try {
  if (lacks_text(options, "embed")) return 2;
  const std::string kind = extension_of(options.out);
  if (!options.out.empty() && kind != ".npy" && kind != ".json" && kind != ".safetensors") {
    print_error(fmt::format("--out is '{}'; its ending should be .npy, .json or .safetensors", printable(options.out)));
    return 2;
  }
  const std::vector<std::string> marks = kind == ".json" ? json_marks(kEmbed) : std::vector<std::string>();
  io::require_output({"--out", options.out, marks}, options.force, {options.model, options.file});
  const std::vector<std::string> texts = texts_of(options);
  const Device device = device_of(options);
  if (!options.quiet) std::fprintf(stderr, "%s\n", device_line(options.device, device).c_str());
  models::TextEmbedder embedder(model_path(options.model), {.device = device});
  if (!options.pooling.empty()) embedder.settings.pooling = models::pooling_named(options.pooling);
  if (options.given_normalize->count() > 0) embedder.settings.normalize = options.normalize;
  if (!options.prompt.empty()) embedder.settings.choose_prompt(options.prompt);
  if (options.given_prefix->count() > 0) embedder.settings.prefix = options.prefix;
  if (options.most_tokens > 0) embedder.settings.most_tokens = options.most_tokens;
  const models::TextEmbedder::Result result = embedder.embed(texts);
  report_long(options, result.cut, embedder.most_tokens());
  if (options.out.empty()) {
    std::string lines;
    for (std::int64_t i = 0; i < result.vectors.size(0); ++i)
      lines += fmt::format("[{}]\n", fmt::join(row_of(result.vectors, i), ", "));
    print_all(lines);
    return 0;
  }
  write_vectors(options, result.vectors);
  print_all(fmt::format("{}: {} embeddings of {} numbers, {} pooling{}\n", printable(options.out),
                        training::with_commas(result.vectors.size(0)), embedder.width(),
                        models::name(embedder.settings.pooling), embedder.settings.normalize ? ", of length 1" : ""));
  return 0;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace

Command add_embed(CLI::App& app) {
  const auto options = std::make_shared<EmbedOptions>();
  CLI::App* command = app.add_subcommand("embed", "Make a vector of each text, whose distances are those of meanings");
  add_text_list_options(*command, *options);
  add_output(*command, "--out", options->out, "write them to this file: .npy, .json or .safetensors", options->force);
  command
      ->add_option("--pooling", options->pooling,
                   "how vectors of tokens become one (default: as files beside the model say)")
      ->check(CLI::IsMember({"mean", "cls", "last"}));
  options->given_normalize =
      command->add_flag("--normalize,!--no-normalize", options->normalize, "vectors of length 1");
  options->given_prefix =
      command->add_option("--prefix", options->prefix, "put this in front of each text: \"query: \", for example");
  command
      ->add_option("--prompt", options->prompt,
                   "put the model's own prompt of this name in front of each text: query, document ...")
      ->excludes(options->given_prefix);
  command->add_option("--max-tokens", options->most_tokens, "tokens of a text at most; 0: as many as the model reads")
      ->check(number_in(training::integers(0)));
  return {command, [options] { return cli::embed(*options); }};
}

}  // namespace etna::cli
