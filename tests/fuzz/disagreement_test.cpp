#include <functional>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <data/temporary_folder.h>
#include <etna/data/csv.h>
#include <etna/data/token_file.h>
#include <etna/data/vision.h>
#include <etna/models/model_file.h>
#include <etna/nn/nn.h>
#include <etna/optim/adam.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/internal/llama2c.h>
#include <etna/tensor/io/npy.h>
#include <etna/train/internal/read_bytes.h>
#include <models/hugging_face_folder.h>
#include <models/small_models.h>

// Files that are sound but for one number that disagrees with the rest, or for one tensor that has no use.
namespace etna::fuzz {
namespace {

using models::Decoder;
using models::load_model;
using models::small_config;
using models::small_model;

/// Counts what was tried, and names what was taken.
class Sweep {
 public:
  explicit Sweep(const char* reader) : reader_(reader) {}
  ~Sweep() { std::cout << reader_ << ": " << tried_ << " files that disagree\n"; }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  void refuses(const std::string& what, const std::function<void()>& read) {
    ++tried_;
    EXPECT_THROW(read(), FormatError) << reader_ << ": " << what;
  }

 private:
  const char* reader_;
  int tried_ = 0;
};

/// What a number could be instead.
std::vector<std::int64_t> neighbours(std::int64_t number) { return {number - 1, number + 1, 2 * number, 0}; }

TEST(Disagreement, OfOneByteIsRefused) {
  const TemporaryFolder folder;
  Sweep sweep("arrays, tokens and tables");
  save_npy(folder / "x.npy", arange(6).view({2, 3}));
  data::write_idx(folder / "x.idx", arange(6).to(i32).view({2, 3}));
  save_safetensors(folder / "x.safetensors", NamedTensors{{"a", arange(6)}, {"b", ones({2}, f16)}});
  data::TokenFileWriter tokens(folder / "x.tokens", 100, 7);
  tokens.append(std::vector<std::int32_t>{1, 2, 3});
  tokens.finish();
  const std::pair<const char*, std::function<void(const FilePath&)>> readers[] = {
      {"x.npy", [](const FilePath& file) { load_npy(file); }},
      {"x.idx", [](const FilePath& file) { data::read_idx(file); }},
      {"x.safetensors", [](const FilePath& file) { load_safetensors(file); }},
      {"x.tokens", [](const FilePath& file) { data::TokenFile{file}; }}};
  for (const auto& [name, read] : readers) {
    const std::string whole = training::read_bytes(folder / name);
    for (const std::string& bytes : {whole + '\0', whole.substr(0, whole.size() - 1), whole + whole})
      sweep.refuses(std::string(name) + " of " + std::to_string(bytes.size()) + " bytes",
                    [&, read = read] { read(folder.write("changed", bytes)); });
  }
  for (const char* rows : {"a,b\n1,2\n3\n", "a,b\n1,2,3\n", "a,b\n1,2\n3,4,\n"})
    sweep.refuses(rows, [&] { data::read_csv(folder.write("x.csv", rows)); });
}

TEST(Disagreement, OfACountInAGgufHeaderIsRefused) {
  const TemporaryFolder folder;
  Sweep sweep("GGUF headers");
  save_gguf(folder / "x.gguf", NamedTensors{{"a", arange(64).view({2, 32})}, {"b", ones({32})}},
            {.metadata = {{"k", std::string("v")}, {"n", std::uint32_t{3}}}});
  const std::string whole = training::read_bytes(folder / "x.gguf");
  constexpr std::size_t kTensors = 8, kFields = 16;
  for (const std::size_t at : {kTensors, kFields}) {
    const auto count = static_cast<std::int64_t>(whole[at]);
    for (const std::int64_t other : neighbours(count)) {
      // A file may have bytes behind its last tensor, so fewer tensors are tensors behind which there are some.
      if (at == kTensors && other < count) continue;
      std::string bytes = whole;
      bytes[at] = static_cast<char>(other);
      sweep.refuses("byte " + std::to_string(at) + " as " + std::to_string(other),
                    [&] { io::GgufFile{folder.write("changed.gguf", bytes)}; });
    }
  }
}

TEST(Disagreement, OfANumberInLlama2cIsRefused) {
  const TemporaryFolder folder;
  Sweep sweep("llama2.c");
  const std::vector<std::int32_t> sizes = {8, 12, 2, 2, 1, 5, 3};
  const std::size_t floats = 5 * 8 + 2 * (8 + 64 + 32 + 32 + 64 + 8 + 3 * 96) + 8 + 2 * 3 * 2;
  const auto file = [&](const std::vector<std::int32_t>& numbers) {
    return folder.write("x.bin",
                        std::string(reinterpret_cast<const char*>(numbers.data()), 28) + std::string(4 * floats, '\0'));
  };
  io::Llama2cCheckpoint{file(sizes)};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (const std::int64_t other : neighbours(sizes[i])) {
      std::vector<std::int32_t> numbers = sizes;
      numbers[i] = static_cast<std::int32_t>(other);
      sweep.refuses("number " + std::to_string(i) + " as " + std::to_string(other),
                    [&] { io::Llama2cCheckpoint{file(numbers)}; });
    }
}

/// Every whole number in a model's metadata but those that no tensor depends on.
TEST(Disagreement, OfASizeInAGgufModelIsRefused) {
  const TemporaryFolder folder;
  Sweep sweep("GGUF models");
  for (const char* architecture :
       {"llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi2", "phi3", "gpt2", "deepseek3"}) {
    models::DecoderConfig config = small_config(architecture);
    if (config.experts.shared > 0) config.experts.shared = config.experts.feed_forward;
    models::save_gguf_model(folder / "whole.gguf", *small_model(config), nullptr);
    const io::GgufFile whole(folder / "whole.gguf");
    NamedTensors tensors;
    for (const io::GgufTensor& t : whole.tensors()) tensors.emplace_back(t.name, whole.load(t));
    const auto changed = [&](const std::string& key, std::uint32_t number, const NamedTensors& all) {
      GgufOptions options;
      for (const io::GgufEntry& entry : whole.metadata())
        if (entry.key != "general.alignment")
          options.metadata.emplace_back(entry.key, entry.key == key ? io::GgufValue(number) : entry.value);
      save_gguf(folder / "changed.gguf", all, options);
      load_model(folder / "changed.gguf");
    };
    ASSERT_NO_THROW(changed("", 0, tensors)) << architecture;
    for (const io::GgufEntry& entry : whole.metadata()) {
      const std::string field = entry.key.substr(entry.key.find('.') + 1);
      // vocab_size only warns: converters leave it behind when they add tokens.
      const bool size = field == "block_count" || field == "embedding_length" || field == "feed_forward_length" ||
                        field == "attention.head_count" || field == "attention.head_count_kv" ||
                        field == "attention.key_length" || field == "attention.value_length";
      if (!size) continue;
      for (const std::int64_t other : neighbours(entry.value.integer()))
        sweep.refuses(entry.key + " as " + std::to_string(other),
                      [&] { changed(entry.key, static_cast<std::uint32_t>(other), tensors); });
    }
    for (const char* name : {"blk.0.attn_q.bias", "blk.2.attn_norm.weight", "blk.7.attn_norm.weight", "output.bias"}) {
      const auto has = [&](const auto& tensor) { return tensor.first == name; };
      if (std::any_of(tensors.begin(), tensors.end(), has)) continue;
      NamedTensors more = tensors;
      more.emplace_back(name, ones({64}));
      sweep.refuses(std::string(architecture) + " with " + name, [&] { changed("", 0, more); });
    }
  }
}

TEST(Disagreement, OfASizeInAFolderOfHuggingFaceIsRefused) {
  Sweep sweep("folders of Hugging Face");
  for (const models::Family& family : {models::Family{"llama", "llama"},
                                       {"qwen2", "qwen2"},
                                       {"qwen3", "qwen3"},
                                       {"gemma2", "gemma2"},
                                       {"phi", "phi2"},
                                       {"gpt2", "gpt2", "transformer."}}) {
    models::DecoderConfig c = small_config(family.architecture);
    c.rope.interleaved = false;
    const auto model = small_model(c);
    const models::FolderWriter writer(*model, family);
    const TemporaryFolder folder;
    writer.save(folder);
    ASSERT_NO_THROW(load_model(folder.path())) << family.type;
    const auto whole = nlohmann::json::parse(training::read_bytes(folder / "config.json"));
    for (const char* field :
         {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
          "intermediate_size", "n_embd", "n_layer", "n_head", "n_inner", "n_positions"}) {
      if (!whole.contains(field)) continue;
      for (const std::int64_t other : neighbours(whole[field].get<std::int64_t>())) {
        // GPT-2's matrices are the same for any number of heads that divides the width.
        if (std::string(field) == "n_head" && other == 2 * whole[field].get<std::int64_t>()) continue;
        nlohmann::json config = whole;
        config[field] = other;
        sweep.refuses(std::string(family.type) + ": " + field + " as " + std::to_string(other), [&] {
          folder.write("config.json", config.dump());
          load_model(folder.path());
        });
      }
    }
  }
}

TEST(Disagreement, OfAnAdapterWithItsModelIsRefused) {
  const TemporaryFolder folder;
  Sweep sweep("adapters");
  const models::DecoderConfig config = small_config("llama");
  const auto model = small_model(config);
  model->add_adapters(3, 12);
  models::save_adapters(folder / "x.gguf", *model);
  models::save_adapters(folder / "adapter_model.safetensors", *model);
  const auto load = [&](const FilePath& file) { models::load_adapters(file, *small_model(config)); };
  ASSERT_NO_THROW(load(folder / "x.gguf"));
  ASSERT_NO_THROW(load(folder.path()));
  const auto peft = nlohmann::json::parse(training::read_bytes(folder / "adapter_config.json"));
  for (const std::int64_t rank : neighbours(3))
    sweep.refuses("r as " + std::to_string(rank), [&] {
      nlohmann::json other = peft;
      other["r"] = rank;
      folder.write("adapter_config.json", other.dump());
      load(folder.path());
    });
  folder.write("adapter_config.json", peft.dump());
  const auto whole = load_safetensors(folder / "adapter_model.safetensors");
  for (const auto& [name, tensor] : whole) {
    auto less = whole, more = whole, longer = whole;
    less.erase(name);
    more.emplace("base_model.model.model.layers.9" + name.substr(name.find(".self_attn")), tensor);
    longer[name] = cat({tensor, tensor}, name.find("lora_A") == std::string::npos ? 0 : 1);
    for (const auto& changed : {less, more, longer})
      sweep.refuses(name, [&] {
        save_safetensors(folder / "adapter_model.safetensors", changed);
        load(folder.path());
      });
  }
}

TEST(Disagreement, OfACheckpointWithItsObjectsIsRefused) {
  const TemporaryFolder folder;
  Sweep sweep("checkpoints and state dicts");
  nn::Linear wide(4, 3), narrow(4, 2), plain(4, 3, false);
  optim::Adam two(wide.parameters()), one(plain.parameters());
  const auto step = [](nn::Linear& layer, optim::Adam& optimizer) {
    layer(ones({1, 4})).sum().backward();
    optimizer.step();
  };
  step(wide, two);
  step(plain, one);
  const std::vector<std::pair<std::string, std::vector<CheckpointItem>>> kinds = {{"a layer", {{"x", wide}}},
                                                                                  {"a narrower one", {{"x", narrow}}},
                                                                                  {"one without bias", {{"x", plain}}},
                                                                                  {"two parameters", {{"x", two}}},
                                                                                  {"one parameter", {{"x", one}}}};
  for (const auto& [written, from] : kinds) {
    save(folder / "run", from);
    for (const auto& [read, into] : kinds)
      if (written != read) sweep.refuses(written + " as " + read, [&, into = into] { load(folder / "run", into); });
  }
}

}  // namespace
}  // namespace etna::fuzz
