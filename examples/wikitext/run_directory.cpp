#include "run_directory.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/tensor/io/safetensors.h>

namespace wikitext {

using namespace etna;
namespace fs = std::filesystem;
using Json = nlohmann::json;

void save_text(const fs::path& file, const std::string& text) {
  fs::path temporary = file;
  temporary += ".part";
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text << std::flush;
    if (!out) {
      std::string why = std::strerror(errno);
      out.close();
      std::error_code ignored;
      fs::remove(temporary, ignored);
      throw FormatError(
          fmt::format("{} cannot be written: {}; what was there before is unchanged", file.string(), why));
    }
  }
  std::error_code error;
  fs::rename(temporary, file, error);
  if (error) throw FormatError(fmt::format("{} cannot be replaced: {}", file.string(), error.message()));
}

void require_writable(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FormatError(fmt::format("{} cannot be made: {}", folder.string(), error.message()));
  fs::path probe = folder / ".writable";
  save_text(probe, "");
  fs::remove(probe, error);
}

void save_checkpoint(const fs::path& folder, const nn::LanguageModel& model, const data::Vocabulary& vocabulary,
                     const std::string& preset, std::int64_t batch) {
  const nn::LanguageModelConfig& c = model.config;
  Json config = {{"preset", preset}, {"batch", batch}, {"layers", c.layers}, {"heads", c.heads},    {"dim", c.dim},
                 {"ffn", c.ffn},     {"seq", c.seq},   {"vocab", c.vocab},   {"dropout", c.dropout}};
  save_safetensors(folder / "model.safetensors", model.state_dict());
  vocabulary.save(folder / "vocabulary.txt");
  save_text(folder / "config.json", config.dump(2) + "\n");
}

Checkpoint load_checkpoint(const fs::path& folder, Device device) {
  fs::path file = folder / "config.json";
  Checkpoint checkpoint;
  nn::LanguageModelConfig c;
  try {
    Json config = Json::parse(data::read_text_file(file, "; is this the --out folder of a training run?"));
    c = {.layers = config.at("layers"),
         .heads = config.at("heads"),
         .dim = config.at("dim"),
         .ffn = config.at("ffn"),
         .seq = config.at("seq"),
         .vocab = config.at("vocab"),
         .dropout = config.at("dropout")};
    checkpoint.preset = config.at("preset");
    checkpoint.batch = config.at("batch");
  } catch (const Json::exception& damage) {
    throw FormatError(fmt::format("{} is damaged: {}", file.string(), damage.what()));
  }
  auto positive = [](std::int64_t n) { return n > 0 && n < (std::int64_t{1} << 24); };
  if (!positive(c.layers) || !positive(c.heads) || !positive(c.dim) || !positive(c.ffn) || !positive(c.seq) ||
      !positive(c.vocab) || !positive(checkpoint.batch) || c.dim % c.heads != 0) {
    throw FormatError(
        fmt::format("{} describes no model: its sizes must be positive and heads must divide dim", file.string()));
  }
  checkpoint.vocabulary = data::Vocabulary::load(folder / "vocabulary.txt");
  if (static_cast<std::int64_t>(checkpoint.vocabulary.size()) > c.vocab) {
    throw FormatError(fmt::format("{} has {} words, config.json says at most {}", (folder / "vocabulary.txt").string(),
                                  checkpoint.vocabulary.size(), c.vocab));
  }
  // The weights first: a damaged config must not make us build a model that no file can fill.
  auto weights = load_safetensors(folder / "model.safetensors", kCPU);
  auto table = weights.find("wte.weight");
  if (table == weights.end() || table->second.shape() != Shape{c.vocab, c.dim}) {
    throw FormatError(fmt::format("{} does not fit config.json: wte.weight should be [{}, {}]",
                                  (folder / "model.safetensors").string(), c.vocab, c.dim));
  }
  checkpoint.model = std::make_unique<nn::LanguageModel>(c);
  try {
    checkpoint.model->load_state_dict(weights);
  } catch (const Error& mismatch) {
    throw FormatError(
        fmt::format("{} does not fit config.json: {}", (folder / "model.safetensors").string(), mismatch.what()));
  }
  checkpoint.model->to(device);
  return checkpoint;
}

void save_metrics(const fs::path& file, const History& history) {
  std::string text = "step,loss\n";
  for (const LossAt& at : history.loss) text += fmt::format("{},{:.6f}\n", at.step, at.loss);
  save_text(file, text);
}

}  // namespace wikitext
