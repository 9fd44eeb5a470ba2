#include <cstdint>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/models/model_file.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/quant/block_format.h>
#include <etna/train/metrics.h>
#include <etna/train/text_training.h>

#include "data/temporary_folder.h"
#include "models/some_tokenizer.h"

// LoRA beside Hugging Face's: the same weights, first adapter, rows and AdamW.
namespace etna::training {
namespace {

constexpr const char* kConfig = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128,
  "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 128, "rope_theta": 10000.0,
  "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2})";
constexpr const char* kAdapterConfig = R"({"peft_type": "LORA", "r": 8, "lora_alpha": 16, "lora_dropout": 0.0,
  "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]})";

/// What a generator of Lehmer (1951) gives after a name, in [-scale/2, scale/2].
Tensor numbers_after(const std::string& name, const Shape& shape, double scale) {
  constexpr std::int64_t kModulus = 2147483647;
  std::int64_t x = std::accumulate(name.begin(), name.end(), std::int64_t{0}) * 7919 % kModulus;
  std::vector<float> all(static_cast<std::size_t>(numel(shape)));
  for (float& value : all) {
    x = x * 48271 % kModulus;
    value = static_cast<float>((static_cast<double>(x) / static_cast<double>(kModulus) - 0.5) * scale);
  }
  return from_vector(all, shape);
}

class PeftLosses : public testing::Test {
 protected:
  PeftLosses() {
    NamedTensors weights, adapter;
    const auto add = [&](const std::string& name, const Shape& shape, double scale) {
      weights.emplace_back(name + ".weight", numbers_after(name + ".weight", shape, scale));
    };
    add("model.embed_tokens", {128, 256}, 1);
    add("lm_head", {128, 256}, 0.25);
    for (int i = 0; i < 2; ++i) {
      const std::string block = "model.layers." + std::to_string(i) + ".";
      for (const auto& [name, rows] : {std::pair{"self_attn.q_proj", 256},
                                       {"self_attn.k_proj", 128},
                                       {"self_attn.v_proj", 128},
                                       {"self_attn.o_proj", 256},
                                       {"mlp.gate_proj", 256},
                                       {"mlp.up_proj", 256},
                                       {"mlp.down_proj", 256}}) {
        add(block + name, {rows, 256}, 0.25);
        const std::string own = "base_model.model." + block + name;
        adapter.emplace_back(own + ".lora_A.weight", numbers_after(own, {8, 256}, 0.125));
        adapter.emplace_back(own + ".lora_B.weight", zeros({rows, 8}));
      }
      for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"})
        weights.emplace_back(block + norm, ones({256}));
    }
    weights.emplace_back("model.norm.weight", ones({256}));
    std::filesystem::create_directories(folder_ / "model");
    std::filesystem::create_directories(folder_ / "adapter");
    folder_.write("model/config.json", kConfig);
    save_safetensors(folder_ / "model/model.safetensors", weights);
    folder_.write("adapter/adapter_config.json", kAdapterConfig);
    save_safetensors(folder_ / "adapter/adapter_model.safetensors", adapter);
    std::ofstream rows(folder_ / "rows.jsonl");
    for (int r = 0; r < 8; ++r) {
      for (int i = 0; i < 33; ++i) rows << (i == 0 ? R"({"tokens": [)" : ", ") << (i * (r + 3) + r * i * i) % 94;
      rows << "]}\n";
    }
  }

  /// Losses of the steps 1, 10, 20 … 50 beside weights in a format.
  std::vector<double> losses(const char* format) const {
    // The file's tokenizer has no more tokens than the model.
    data::VocabularyFields fields = some_fields();
    fields.tokens.resize(128);
    fields.types.resize(128);
    fields.scores.resize(128);
    const data::ModelTokenizer tokenizer(fields);
    const models::Model model = models::load_model(folder_ / "model", {.trainable = true});
    models::save_gguf_model(folder_ / "model.gguf", *model.decoder, &tokenizer, &quant::format_named(format));
    FineTuneOptions options;
    options.model = (folder_ / "model.gguf").string();
    options.data = (folder_ / "rows.jsonl").string();
    options.adapter = (folder_ / "adapter").string();
    options.folder = folder_ / "run";
    options.existing = ExistingRun::overwrite;
    options.order = "file";
    options.packing = "off";
    options.schedule = "constant";
    options.lr = 1e-3;
    options.clip = options.valid = 0;
    options.warmup = options.sample_tokens = 0;
    options.epochs = 25;
    options.progress = options.forecast = false;
    fine_tune(options);
    std::vector<double> losses;
    for (const MetricPoint& point : read_metrics(options.folder).points("loss")) losses.push_back(point.value);
    return losses;
  }

  TemporaryFolder folder_;
};

/// What peft and transformers 5 print in f32.
TEST_F(PeftLosses, AreThoseOfPeftOnEveryBase) {
  const std::vector<double> theirs = {5.5723963, 4.7764997, 3.6095784, 2.500273, 1.5612121, 0.8962989};
  for (const auto& [format, bound] : {std::pair{"F32", 1e-4}, {"BF16", 0.02}, {"Q4_K", 0.02}}) {
    const std::vector<double> ours = losses(format);
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_NEAR(ours[i], theirs[i], bound * theirs[i]) << format << " " << i;
  }
}

}  // namespace
}  // namespace etna::training
