#include <etna/models/model_file.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/models/generator.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/safetensors.h>

#include "data/temporary_folder.h"
#include "small_models.h"

namespace etna::models {
namespace {

using testing::HasSubstr;

std::vector<std::int32_t> model_file_greedy_text(const Decoder& decoder) {
  Generator generator(decoder, {.cache = {.dtype = f32}});
  std::vector<std::int32_t> tokens;
  generator.generate(some_text(7, 97), {.max_tokens = 40, .sampling = {.temperature = 0}}, [&](std::int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

class EachFile : public testing::TestWithParam<std::string> {};

TEST_P(EachFile, ComesBackFromGguf) {
  const TemporaryFolder folder;
  const auto model = small_model(small_config(GetParam()));
  save_gguf_model(folder / "model.gguf", *model, nullptr);
  const Model again = load_model(folder / "model.gguf");
  EXPECT_TRUE(again.decoder->frozen());
  for (const nn::NamedTensor& p : again.decoder->named_parameters()) EXPECT_FALSE(p.tensor.requires_grad()) << p.name;
  EXPECT_EQ(again.tokenizer, nullptr);
  EXPECT_EQ(model_file_greedy_text(*again.decoder), model_file_greedy_text(*model));
  const Model trainable = load_model(folder / "model.gguf", {.trainable = true});
  EXPECT_FALSE(trainable.decoder->frozen());
  for (const Tensor& p : trainable.decoder->parameters()) EXPECT_TRUE(p.requires_grad());
  EXPECT_EQ(model_file_greedy_text(*trainable.decoder), model_file_greedy_text(*model));
}

INSTANTIATE_TEST_SUITE_P(ModelFile, EachFile,
                         testing::Values("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi2", "phi3", "gpt2",
                                         "bitnet", "bitnet-25", "bitnet-b1.58", "mistral3", "smollm3", "olmo2",
                                         "granite", "glm4", "cohere2", "exaone4", "stablelm", "gptneox", "arcee",
                                         "apertus", "seed_oss", "qwen3moe", "olmoe", "granitemoe", "phimoe",
                                         "ernie4_5-moe", "glm4moe"));

TEST(ModelFile, RefusesMatricesOfGgufThatEndWithinWhatIsPackedInThem) {
  const TemporaryFolder folder;
  save_gguf_model(folder / "whole.gguf", *small_model(small_config("llama")), nullptr);
  const io::GgufFile whole(folder / "whole.gguf");
  // Without a gate, "up" would have to hold both; without keys and values, "qkv" all three.
  for (const auto& [left_out, put_in] : {std::pair{"blk.1.ffn_gate.weight", ""},
                                         {"blk.1.attn_q.weight", "blk.1.attn_qkv.weight"},
                                         {"blk.1.attn_k.weight", "blk.1.attn_qkv.weight"}}) {
    GgufOptions options;
    for (const io::GgufEntry& entry : whole.metadata())
      if (entry.key != "general.alignment") options.metadata.emplace_back(entry.key, entry.value);
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const io::GgufTensor& tensor : whole.tensors())
      if (tensor.name != left_out) tensors.emplace_back(tensor.name, whole.load(tensor));
    if (*put_in != 0) tensors.emplace_back(put_in, randn({32, 64}));
    save_gguf(folder / "short.gguf", tensors, options);
    for (const bool trainable : {false, true}) {
      try {
        load_model(folder / "short.gguf", {.trainable = trainable});
        ADD_FAILURE() << left_out;
      } catch (const FormatError& error) {
        EXPECT_THAT(error.what(), HasSubstr("the model's sizes require")) << left_out;
      }
    }
  }
}

/// Writes a model as Hugging Face does.
void save_folder(const TemporaryFolder& folder, const Decoder& model, const std::map<std::string, std::string>& names) {
  NamedTensors tensors;
  for (const nn::NamedTensor& p : model.named_parameters()) {
    std::string name = p.name;
    for (const auto& [from, to] : names)
      if (const std::size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
    tensors.emplace_back(name, p.tensor.detach());
  }
  save_safetensors(folder / "model.safetensors", tensors);
  std::ofstream(folder / "config.json") << config_json(model.config);
}

TEST(ModelFile, ReadsAFolderOfHuggingFace) {
  const TemporaryFolder folder;
  DecoderConfig config = small_config("llama");
  config.rope.interleaved = false;
  const auto model = small_model(config);
  save_folder(folder, *model,
              {{"blocks.", "model.layers."},
               {"token_embedding.", "model.embed_tokens."},
               {"attention.query.", "self_attn.q_proj."},
               {"attention.key.", "self_attn.k_proj."},
               {"attention.value.", "self_attn.v_proj."},
               {"attention.output.", "self_attn.o_proj."},
               {"attention_norm.", "input_layernorm."},
               {"ffn_norm.", "post_attention_layernorm."},
               {"ffn.gate.", "mlp.gate_proj."},
               {"ffn.up.", "mlp.up_proj."},
               {"ffn.down.", "mlp.down_proj."}});
  // The last two names have nothing in common with others.
  NamedTensors tensors;
  for (const auto& [name, tensor] : load_safetensors(folder / "model.safetensors"))
    tensors.emplace_back(name == "norm.weight"     ? "model.norm.weight"
                         : name == "output.weight" ? "lm_head.weight"
                                                   : name,
                         tensor);
  save_safetensors(folder / "model.safetensors", tensors);
  EXPECT_EQ(model_file_greedy_text(*load_model(folder.path()).decoder), model_file_greedy_text(*model));
}

TEST(ModelFile, ReadsACheckpoint) {
  const TemporaryFolder folder;
  const auto model = small_model(small_config("llama"));
  save(folder / "run.safetensors", {{"model", *model}}, {{"config", config_json(model->config)}});
  EXPECT_EQ(model_file_greedy_text(*load_model(folder / "run.safetensors").decoder), model_file_greedy_text(*model));
  save(folder / "bare.safetensors", {{"model", *model}});
  EXPECT_THROW(load_model(folder / "bare.safetensors"), FormatError);
}

TEST(ModelFile, RefusesWhatDoesNotFit) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::filesystem::path& path) -> std::string {
    try {
      load_model(path);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(folder / "nothing.gguf"), HasSubstr("nothing.gguf"));
  EXPECT_EQ(refusal(""), "a model cannot be read: its path is empty");
  save_gguf(folder / "other.gguf", {{"x", ones({4})}}, {.metadata = {{"general.architecture", "rwkv"}}});
  EXPECT_THAT(refusal(folder / "other.gguf"), HasSubstr("'rwkv' do not run here; these do: llama, qwen2"));
  save_gguf(folder / "empty.gguf", {{"x", ones({4})}}, {});
  EXPECT_THAT(refusal(folder / "empty.gguf"), HasSubstr("general.architecture"));

  // A tensor of another shape than the sizes say, and one that is not there.
  const auto model = small_model(small_config("llama"));
  save_gguf_model(folder / "whole.gguf", *model, nullptr);
  const io::GgufFile whole(folder / "whole.gguf");
  const auto without = [&](const std::string& left_out, const Tensor& instead) {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const io::GgufTensor& t : whole.tensors()) {
      if (t.name != left_out) tensors.emplace_back(t.name, whole.load(t));
    }
    if (instead.defined()) tensors.emplace_back(left_out, instead);
    GgufOptions options;
    for (const io::GgufEntry& entry : whole.metadata())
      if (entry.key != "general.alignment") options.metadata.emplace_back(entry.key, entry.value);
    save_gguf(folder / "changed.gguf", tensors, options);
    return refusal(folder / "changed.gguf");
  };
  EXPECT_THAT(without("blk.1.ffn_down.weight", {}), HasSubstr("'blk.1.ffn_down.weight' is missing"));
  EXPECT_THAT(without("blk.1.ffn_down.weight", ones({64, 32})),
              HasSubstr("is [64, 32]; the model's sizes require [64, 96]"));
  EXPECT_THAT(without("blk.0.attn_norm.weight", ones({63})), HasSubstr("'blk.0.attn_norm.weight' is [63]"));
  EXPECT_THAT(without("token_embd.weight", ones({97, 32})), HasSubstr("token_embd.weight"));
}

/// Saves a model's GGUF file with other metadata. @return why it is refused, or ""
std::string gguf_refusal(const std::map<std::string, io::GgufValue>& changed,
                         const std::vector<std::pair<std::string, Tensor>>& more = {}) {
  const TemporaryFolder folder;
  save_gguf_model(folder / "whole.gguf", *small_model(small_config("llama")), nullptr);
  const io::GgufFile whole(folder / "whole.gguf");
  std::vector<std::pair<std::string, Tensor>> tensors = more;
  for (const io::GgufTensor& t : whole.tensors()) tensors.emplace_back(t.name, whole.load(t));
  GgufOptions options;
  for (const io::GgufEntry& entry : whole.metadata()) {
    const auto other = changed.find(entry.key);
    if (entry.key != "general.alignment")
      options.metadata.emplace_back(entry.key, other == changed.end() ? entry.value : other->second);
  }
  save_gguf(folder / "changed.gguf", tensors, options);
  try {
    load_model(folder / "changed.gguf");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

TEST(ModelFile, RefusesGgufWhoseSizesLeaveTensorsOrRowsOver) {
  using U32 = std::uint32_t;
  EXPECT_EQ(gguf_refusal({}), "");
  EXPECT_THAT(gguf_refusal({{"llama.attention.head_count_kv", U32{1}}}),
              HasSubstr("'blk.0.attn_k.weight' is [32, 64]; the model's sizes require [16, 64]"));
  EXPECT_THAT(gguf_refusal({{"llama.feed_forward_length", U32{32}}}), HasSubstr("the model's sizes require"));
  EXPECT_THAT(gguf_refusal({{"llama.block_count", U32{1}}}), HasSubstr("has no place for 'blk.1."));
  EXPECT_THAT(gguf_refusal({}, {{"blk.1.attn_q.bias", ones({64})}}), HasSubstr("has no place for 'blk.1.attn_q.bias'"));
  EXPECT_EQ(gguf_refusal({}, {{"rope_freqs.weight", ones({8})}}), "");
}

TEST(ModelFile, TakesSizesOfEachLayerWhereAllAreEqual) {
  using List = std::vector<std::uint32_t>;
  EXPECT_EQ(gguf_refusal({{"llama.attention.head_count", List{4, 4}},
                          {"llama.attention.head_count_kv", List{2, 2}},
                          {"llama.feed_forward_length", List{96, 96}}}),
            "");
  EXPECT_THAT(gguf_refusal({{"llama.feed_forward_length", List{96, 48}}}),
              HasSubstr("is 96 in the first layer and 48"));
  EXPECT_THAT(gguf_refusal({{"llama.feed_forward_length", List{96}}}), HasSubstr("has 1 numbers for 2 layers"));
}

TEST(ModelFile, NamesTheModelsInAFolderThatIsNone) {
  const TemporaryFolder folder;
  const auto refusal = [&]() -> std::string {
    try {
      load_model(folder.path());
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(), HasSubstr("has no config.json, as models of Hugging Face do; it holds no other model"));
  std::ofstream(folder / "stories.bin") << "x";
  EXPECT_THAT(refusal(), HasSubstr("name the file: 'stories.bin'"));
}

TEST(ModelFile, RefusesToWriteWhatGgufHasNoWordsFor) {
  const TemporaryFolder folder;
  const auto refusal = [&](const DecoderConfig& config) -> std::string {
    try {
      save_gguf_model(folder / "model.gguf", *small_model(config), nullptr);
    } catch (const FormatError& error) {
      EXPECT_FALSE(std::filesystem::exists(folder / "model.gguf"));
      return error.what();
    }
    return "";
  };
  DecoderConfig config = small_config("llama");
  config.activation = Activation::gelu;
  EXPECT_EQ(refusal(config),
            "a GGUF file cannot hold the model: its activation differs from that of the architecture 'llama' there");
  config = small_config("llama");
  config.rope.interleaved = false, config.rope.size = 8;
  EXPECT_THAT(refusal(config), HasSubstr("its order of rotated pairs differs"));
  config = small_config("qwen2");
  config.sub_norms = true;
  EXPECT_THAT(refusal(config), HasSubstr("its set of norms differs from that of the architecture 'qwen2'"));
}

TEST(ModelFile, DamagedFilesAreRefusedOrHarmless) {
  const TemporaryFolder folder;
  const auto model = small_model(small_config("qwen2"));
  save_gguf_model(folder / "model.gguf", *model, nullptr);
  std::ifstream in(folder / "model.gguf", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const auto loads = [&](const std::string& bytes) {
    std::ofstream(folder / "damaged.gguf", std::ios::binary) << bytes;
    try {
      load_model(folder / "damaged.gguf");
      return true;
    } catch (const FormatError&) {
      return false;
    }
  };
  EXPECT_TRUE(loads(whole));
  for (std::size_t size = 0; size < whole.size(); size += 512) EXPECT_FALSE(loads(whole.substr(0, size))) << size;
  std::uint32_t state = 1;
  for (int i = 0; i < 400; ++i) {
    std::string bytes = whole;
    for (int flips = 0; flips < 1 + i % 3; ++flips) {
      state = state * 1664525u + 1013904223u;
      bytes[(state >> 8) % 3000] = static_cast<char>(state >> 3);
    }
    loads(bytes);  // one exception or none
  }
}

TEST(ModelFile, QuantizedModelsRunAndLearnByAdapters) {
  const TemporaryFolder folder;
  DecoderConfig config = small_config("llama");
  config.width = 256;
  config.feed_forward = 512;
  const auto model = small_model(config);
  save_gguf_model(folder / "q.gguf", *model, nullptr, &quant::format_named("Q4_K"));
  const Model quantized = load_model(folder / "q.gguf");
  EXPECT_EQ(quantized.decoder->blocks[0].ffn->up.blocks().format().name, "Q4_K");
  const Tensor x = from_vector(some_text(64, 97), {1, 64}), y = from_vector(some_text(64, 89), {1, 64});
  quantized.decoder->add_adapters(4, 8);
  const Tensor loss = quantized.decoder->loss(x, y);
  loss.backward();
  EXPECT_TRUE(quantized.decoder->blocks[0].attention->query->lora_b.grad().defined());
  const double full = model->loss(x, y).item<double>();
  EXPECT_NEAR(loss.item<double>(), full, 0.25 * full);
}

}  // namespace
}  // namespace etna::models
