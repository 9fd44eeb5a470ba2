#include <etna/data/corpora/prepared_corpus.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/corpora/internal/corpus_reader.h>
#include <etna/data/text_file.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kPreparedCorpusFormat = "etna.corpus";
constexpr int kPreparedCorpusVersion = 1;
constexpr const char* kAgain = "prepare the corpus again";

std::string hex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

Json json_of(const TextStatistics& text, bool has_unknown) {
  Json json = {{"bytes", text.bytes}, {"lines", text.lines}, {"words", text.words}, {"tokens", text.tokens}};
  if (has_unknown) json["unknown"] = text.unknown;
  return json;
}

/// A manifest that is read; every refusal names the file.
class Manifest {
 public:
  explicit Manifest(const FilePath& file) : name_(file.string()) {
    root_ = Json::parse(read_text_file(file), nullptr, false);
    if (!root_.is_object()) refuse(root_.is_discarded() ? "it is not JSON, or cut off" : "it is not a JSON object");
    if (text(root_, "format") != kPreparedCorpusFormat) refuse("its format is missing or unknown");
    if (const std::int64_t version = count(root_, "version"); version != kPreparedCorpusVersion)
      refuse(fmt::format("it has version {}; this Etna reads version {}", version, kPreparedCorpusVersion));
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw FormatError(fmt::format("{}: is not a corpus manifest: {}; {}", name_, why, kAgain));
  }

  const Json& root() const { return root_; }

  const Json& object(const Json& parent, const char* name) const {
    const auto found = parent.find(name);
    if (found == parent.end() || !found->is_object()) refuse(fmt::format("it has no object '{}'", name));
    return *found;
  }

  std::string text(const Json& parent, const char* name) const {
    const auto found = parent.is_object() ? parent.find(name) : parent.end();
    if (found == parent.end() || !found->is_string()) refuse(fmt::format("it has no string '{}'", name));
    return found->get<std::string>();
  }

  std::int64_t count(const Json& parent, const char* name) const {
    const auto found = parent.is_object() ? parent.find(name) : parent.end();
    if (found == parent.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > INT64_MAX)
      refuse(fmt::format("it has no number '{}'", name));
    return found->get<std::int64_t>();
  }

  double share(const Json& parent, const char* name) const {
    const auto found = parent.find(name);
    if (found == parent.end() || !found->is_number()) refuse(fmt::format("it has no number '{}'", name));
    return found->get<double>();
  }

  TextStatistics statistics(const Json& json) const {
    TextStatistics text{count(json, "bytes"), count(json, "lines"), count(json, "words"), count(json, "tokens"), 0};
    if (json.contains("unknown")) text.unknown = count(json, "unknown");
    return text;
  }

 private:
  std::string name_;
  Json root_;
};

PreparedSplit open_split(const FilePath& folder, const char* name, const Manifest& manifest,
                         const Tokenizer& tokenizer) {
  const Json& json = manifest.object(manifest.object(manifest.root(), "splits"), name);
  PreparedSplit split{TokenFile(folder / token_file_name(name)), manifest.statistics(json)};
  split.tokens.require_tokenizer(tokenizer.hash());
  if (split.tokens.size() != split.text.tokens || hex(split.tokens.content_hash()) != manifest.text(json, "hash"))
    throw FormatError(fmt::format("{}: does not match the manifest next to it; {}",
                                  (folder / token_file_name(name)).string(), kAgain));
  return split;
}

}  // namespace

std::string token_file_name(const std::string& split) { return split + ".tokens"; }

TextStatistics& TextStatistics::operator+=(const TextStatistics& other) {
  bytes += other.bytes;
  lines += other.lines;
  words += other.words;
  tokens += other.tokens;
  unknown += other.unknown;
  return *this;
}

bool holds_prepared_corpus(const FilePath& folder) {
  std::error_code none;
  return fs::exists(folder / kManifestFile, none);
}

PreparedCorpus open_prepared_corpus(const FilePath& folder) {
  std::error_code none;
  if (!fs::is_directory(folder, none))
    throw FormatError(
        fmt::format("{}: is not the folder of a prepared corpus; etna data prepare writes one", folder.string()));
  if (!holds_prepared_corpus(folder))
    throw FormatError(fmt::format("{}: has no {}, so it is not a prepared corpus; etna data prepare writes one",
                                  folder.string(), kManifestFile));
  const Manifest manifest(folder / kManifestFile);
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(folder / kTokenizerFile);
  const Json& kind = manifest.object(manifest.root(), "tokenizer");
  if (hex(tokenizer->hash()) != manifest.text(kind, "hash"))
    throw FormatError(
        fmt::format("{}: does not match the manifest next to it; {}", (folder / kTokenizerFile).string(), kAgain));
  PreparedCorpus corpus{folder,
                        tokenizer,
                        open_split(folder, kSplits[0], manifest, *tokenizer),
                        open_split(folder, kSplits[1], manifest, *tokenizer),
                        open_split(folder, kSplits[2], manifest, *tokenizer),
                        {},
                        {}};
  const Json& recipe = manifest.object(manifest.root(), "recipe");
  if (kind.contains("vocab_size")) {
    corpus.recipe.vocab_size = manifest.count(kind, "vocab_size");
    corpus.recipe.min_frequency = manifest.count(kind, "min_frequency");
  }
  corpus.recipe.own_splits = manifest.text(recipe, "splits") == "own";
  if (!corpus.recipe.own_splits) {
    corpus.recipe.valid = manifest.share(recipe, "valid");
    corpus.recipe.test = manifest.share(recipe, "test");
  }
  const auto sources = manifest.root().find("sources");
  if (sources == manifest.root().end() || !sources->is_array()) manifest.refuse("it has no array 'sources'");
  for (const Json& source : *sources)
    corpus.sources.push_back({manifest.text(source, "file"),
                              source.contains("split") ? manifest.text(source, "split") : "",
                              manifest.text(source, "hash"), manifest.statistics(source)});
  return corpus;
}

std::string manifest_json(const CorpusManifest& manifest) {
  const Tokenizer& tokenizer = *manifest.tokenizer;
  const CorpusRecipe& recipe = manifest.recipe;
  const bool has_unknown = tokenizer.name() == "word";
  Json kind = {{"kind", tokenizer.name()}, {"tokens", tokenizer.size()}, {"hash", hex(tokenizer.hash())}};
  if (recipe.vocab_size > 0 || recipe.min_frequency > 0) {
    kind["vocab_size"] = recipe.vocab_size;
    kind["min_frequency"] = recipe.min_frequency;
  }
  Json how = {{"splits", recipe.own_splits ? "own" : "by place"}};
  if (!recipe.own_splits) {
    how["valid"] = recipe.valid;
    how["test"] = recipe.test;
  }
  Json splits = Json::object(), sources = Json::array();
  for (int number = 0; number < 3; ++number) {
    Json& json = splits[kSplits[number]] = json_of(manifest.splits[number], has_unknown);
    json["hash"] = hex(manifest.hashes[number]);
  }
  for (const PreparedSource& source : manifest.sources) {
    Json json = {{"file", source.file}};
    if (!source.split.empty()) json["split"] = source.split;
    json.update(json_of(source.text, has_unknown));
    json["hash"] = source.hash;
    sources.push_back(std::move(json));
  }
  const Json all = {{"format", kPreparedCorpusFormat},
                    {"version", kPreparedCorpusVersion},
                    {"tokenizer", kind},
                    {"recipe", how},
                    {"splits", splits},
                    {"sources", sources}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace etna::data
