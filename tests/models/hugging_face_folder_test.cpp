#include "hugging_face_folder.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>

#include "small_models.h"

// Folders of Hugging Face, in the names and layouts of each family.
namespace etna::models {
namespace {

using testing::HasSubstr;

double hugging_face_folder_difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

DecoderConfig hugging_face_folder_config_of(const Family& family) {
  DecoderConfig c = small_config(family.architecture);
  c.rope.interleaved = false;
  if (std::string(family.type) == "mistral") c.window = 24;
  if (std::string(family.type) == "phi3") {
    c.rope.scaling = RopeScaling::longrope;
    c.rope.original_context = 128;
    c.rope.short_divisors = {1, 1, 1, 1, 1, 1, 1, 1};
    c.rope.long_divisors = {1, 1.5f, 2, 2.5f, 3, 4, 5, 6};
  }
  return c;
}

class EachFamily : public testing::TestWithParam<Family> {};

TEST_P(EachFamily, GivesTheLogitsOfTheModelItWasWrittenFrom) {
  const auto model = small_model(hugging_face_folder_config_of(GetParam()));
  FolderWriter writer(*model, GetParam());
  const Tensor text = from_vector(some_text(60, 97), {1, 60});
  const NoGrad no_grad;
  const Tensor wanted = model->forward(text);
  for (const std::size_t shards : {1, 3}) {
    const TemporaryFolder folder;
    writer.save(folder, shards);
    const Model trainable = load_model(folder.path(), {.trainable = true});
    EXPECT_EQ(trainable.decoder->num_parameters(), model->num_parameters());
    EXPECT_LT(hugging_face_folder_difference(trainable.decoder->forward(text), wanted), 1e-4) << shards << " files";
    const Model frozen = load_model(folder.path());
    Generator generator(*frozen.decoder, {.cache = {.dtype = f32}});
    EXPECT_LT(hugging_face_folder_difference(generator.logits(some_text(60, 97)), wanted.select(0, 0)), 2e-4)
        << shards << " files";
  }
}

/// A design and what its files call the parts that few have, for the rest of whose names others vouch.
struct NamedDesign {
  const char* json;
  std::vector<std::pair<std::string, std::string>> names;  ///< the decoder's, within a block
};

const NamedDesign kNamedDesigns[] = {
    {R"("model_type": "lfm2_moe", "intermediate_size": 48, "moe_intermediate_size": 20, "num_experts": 3,
       "num_experts_per_tok": 2, "num_dense_layers": 1, "conv_L_cache": 3, "layer_types": ["conv", "full_attention"])",
     {{"attention_norm", "model.layers.{}.operator_norm"},
      {"ffn_norm", "model.layers.{}.ffn_norm"},
      {"convolution.input", "model.layers.{}.conv.in_proj"},
      {"convolution.kernel", "model.layers.{}.conv.conv"},
      {"convolution.output", "model.layers.{}.conv.out_proj"},
      {"attention.query", "model.layers.{}.self_attn.q_proj"},
      {"attention.key", "model.layers.{}.self_attn.k_proj"},
      {"attention.value", "model.layers.{}.self_attn.v_proj"},
      {"attention.output", "model.layers.{}.self_attn.out_proj"},
      {"attention.query_norm", "model.layers.{}.self_attn.q_layernorm"},
      {"attention.key_norm", "model.layers.{}.self_attn.k_layernorm"},
      {"ffn.router.logits", "model.layers.{}.feed_forward.gate"},
      {"ffn.router", "model.layers.{}.feed_forward.expert_bias"},
      {"ffn.gate", "model.layers.{}.feed_forward.EXPERTSw1"},
      {"ffn.up", "model.layers.{}.feed_forward.EXPERTSw3"},
      {"ffn.down", "model.layers.{}.feed_forward.EXPERTSw2"},
      {"token_embedding", "model.embed_tokens"},
      {"norm", "model.embedding_norm"}}},
    {R"("model_type": "nemotron_h", "hybrid_override_pattern": "E*", "n_routed_experts": 3, "num_experts_per_tok": 2,
       "moe_intermediate_size": 10, "moe_latent_size": 12, "moe_shared_expert_intermediate_size": 20,
       "mamba_num_heads": 4, "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 8, "conv_kernel": 4,
       "mlp_hidden_act": "relu2")",
     {{"attention_norm", "backbone.layers.{}.norm"},
      {"ffn_norm", "backbone.layers.{}.norm"},
      {"attention.query", "backbone.layers.{}.mixer.q_proj"},
      {"attention.key", "backbone.layers.{}.mixer.k_proj"},
      {"attention.value", "backbone.layers.{}.mixer.v_proj"},
      {"attention.output", "backbone.layers.{}.mixer.o_proj"},
      {"ffn.router.logits", "backbone.layers.{}.mixer.gate"},
      {"ffn.router", "backbone.layers.{}.mixer.gate.e_score_correction_bias"},
      {"ffn.latent_down", "backbone.layers.{}.mixer.fc1_latent_proj"},
      {"ffn.latent_up", "backbone.layers.{}.mixer.fc2_latent_proj"},
      {"ffn.up", "backbone.layers.{}.mixer.EXPERTSup_proj"},
      {"ffn.down", "backbone.layers.{}.mixer.EXPERTSdown_proj"},
      {"ffn.shared.up", "backbone.layers.{}.mixer.shared_experts.up_proj"},
      {"ffn.shared.down", "backbone.layers.{}.mixer.shared_experts.down_proj"},
      {"token_embedding", "backbone.embeddings"},
      {"norm", "backbone.norm_f"},
      {"output", "lm_head"}}},
    {R"("model_type": "stablelm", "intermediate_size": 48, "qk_layernorm": true, "use_parallel_residual": true)",
     {{"attention_norm", "model.layers.{}.input_layernorm"},
      {"attention.query", "model.layers.{}.self_attn.q_proj"},
      {"attention.key", "model.layers.{}.self_attn.k_proj"},
      {"attention.value", "model.layers.{}.self_attn.v_proj"},
      {"attention.output", "model.layers.{}.self_attn.o_proj"},
      {"attention.query_norm", "model.layers.{}.self_attn.q_layernorm.norms.HEADS"},
      {"attention.key_norm", "model.layers.{}.self_attn.k_layernorm.norms.HEADS"},
      {"ffn.gate", "model.layers.{}.mlp.gate_proj"},
      {"ffn.up", "model.layers.{}.mlp.up_proj"},
      {"ffn.down", "model.layers.{}.mlp.down_proj"},
      {"token_embedding", "model.embed_tokens"},
      {"norm", "model.norm"},
      {"output", "lm_head"}}}};

/// A parameter under the name that a file has for it, or a tensor for each head or expert.
void put_named(NamedTensors& to, const NamedDesign& design, const DecoderConfig& c, const nn::NamedTensor& p) {
  const std::size_t dot = p.name.rfind('.');
  std::string part = p.name.substr(0, dot), kind = p.name.substr(dot), block;
  if (part.starts_with("blocks.")) {
    block = part.substr(7, 1);
    part = part.substr(9);
  }
  const auto found =
      std::find_if(design.names.begin(), design.names.end(), [&](const auto& n) { return n.first == part; });
  ASSERT_NE(found, design.names.end()) << p.name;
  std::string name = found->second;
  if (kind == ".choice_bias") kind.clear();
  const auto replaced = [&name](const std::string& from, const std::string& with) {
    std::string copy = name;
    if (const std::size_t at = copy.find(from); at != std::string::npos) copy.replace(at, from.size(), with);
    return copy;
  };
  name = replaced("{}", block);
  const bool mixture = !block.empty() && c.layer(std::stoll(block)).experts;
  const std::string experts = "EXPERTS", heads = "HEADS";
  const std::int64_t count = name.find(heads) != std::string::npos                ? p.tensor.numel() / c.head_size
                             : name.find(experts) != std::string::npos && mixture ? c.experts.count
                                                                                  : 0;
  if (count == 0) {
    name = replaced(experts, "");
    to.emplace_back(name + kind, p.tensor.detach());
    return;
  }
  const std::int64_t rows = p.tensor.size(0) / count;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string own = name.find(heads) != std::string::npos ? replaced(heads, std::to_string(i))
                                                                  : replaced(experts, fmt::format("experts.{}.", i));
    to.emplace_back(own + kind, p.tensor.detach().slice(0, i * rows, (i + 1) * rows).contiguous());
  }
}

TEST(HuggingFaceFolder, NamesPartsThatFewHave) {
  const NoGrad no_grad;
  for (const NamedDesign& design : kNamedDesigns) {
    const std::string json = fmt::format(R"({{"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2,
        "head_dim": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, {}}})",
                                         design.json);
    SCOPED_TRACE(json);
    const auto model = small_model(decoder_config(json, "config.json"));
    NamedTensors tensors;
    for (const nn::NamedTensor& p : model->named_parameters()) put_named(tensors, design, model->config, p);
    const TemporaryFolder folder;
    std::ofstream(folder / "config.json") << json;
    save_safetensors(folder / "model.safetensors", tensors);
    if (json.find("nemotron_h") == std::string::npos)  // which has a state in each GGUF file
      save_gguf_model(folder / "model.gguf", *model, nullptr);
    const Tensor text = from_vector(some_text(30, 97), {1, 30}), wanted = model->forward(text);
    for (const FilePath& file : {FilePath(folder.path()), FilePath(folder / "model.gguf")}) {
      if (!std::filesystem::exists(file)) continue;
      const Tensor got = load_model(file, {.trainable = true}).decoder->forward(text);
      EXPECT_LT(hugging_face_folder_difference(got, wanted), 1e-5 * abs(wanted).max().item<double>()) << file.string();
    }
  }
}

/// "attention_bias" is for all four projections in these families.
TEST(HuggingFaceFolder, ReadsTheBiasesOfAttention) {
  for (const auto& [type, architecture] : {std::pair{"llama", "llama"}, {"qwen3", "qwen3"}, {"gemma2", "gemma2"}}) {
    const Family family{type, architecture, "model.", ", \"attention_bias\": true"};
    DecoderConfig config = hugging_face_folder_config_of(family);
    config.query_bias = config.output_bias = true;
    const auto model = small_model(config);
    const FolderWriter writer(*model, family);
    const TemporaryFolder folder;
    writer.save(folder);
    const NoGrad no_grad;
    const Tensor text = from_vector(some_text(20, 97), {1, 20});
    const Model again = load_model(folder.path(), {.trainable = true});
    EXPECT_LT(hugging_face_folder_difference(again.decoder->forward(text), model->forward(text)), 1e-4) << type;
  }
}

TEST(HuggingFaceFolder, RefusesPartsThatItsSizesLeaveOver) {
  const Family family{"qwen3", "qwen3"};
  const auto model = small_model(hugging_face_folder_config_of(family));
  const auto refusal = [&](const std::string& more) -> std::string {
    FolderWriter writer(*model, family);
    writer.tensors().emplace_back(more, ones({64}));
    const TemporaryFolder folder;
    writer.save(folder);
    try {
      load_model(folder.path());
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("model.layers.2.input_layernorm.weight"), HasSubstr("no place for 'model.layers.2."));
  EXPECT_THAT(refusal("model.layers.0.self_attn.o_proj.bias"), HasSubstr("no place for"));
  EXPECT_THAT(refusal("model.extra.weight"), HasSubstr("no place for 'model.extra.weight'"));
  EXPECT_EQ(refusal("model.layers.0.self_attn.rotary_emb.inv_freq"), "");
  EXPECT_EQ(refusal("vision_tower.patch.weight"), "");  // with a warning
}

TEST_P(EachFamily, NamesAWeightThatIsMissing) {
  const auto model = small_model(hugging_face_folder_config_of(GetParam()));
  FolderWriter writer(*model, GetParam());
  for (const std::size_t left_out : {std::size_t{2}, writer.tensors().size() - 1}) {
    FolderWriter other = writer;
    const std::string name = other.tensors()[left_out].first;
    other.tensors().erase(other.tensors().begin() + static_cast<std::ptrdiff_t>(left_out));
    const TemporaryFolder folder;
    other.save(folder);
    try {
      load_model(folder.path());
      ADD_FAILURE() << name;
    } catch (const FormatError& error) {
      EXPECT_THAT(error.what(), HasSubstr("is missing"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    HuggingFace, EachFamily,
    testing::Values(Family{"llama", "llama"}, Family{"mistral", "llama", "model.", R"(, "sliding_window": 24)"},
                    Family{"qwen2", "qwen2", "model.", R"(, "use_sliding_window": false, "sliding_window": 24)"},
                    Family{"qwen3", "qwen3"}, Family{"gemma", "gemma", "model.", R"(, "hidden_act": "gelu")"},
                    Family{
                        "gemma2", "gemma2", "model.",
                        R"(, "sliding_window": 24, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0)"},
                    Family{"gemma3_text", "gemma3", "model.",
                           R"(, "sliding_window": 24, "sliding_window_pattern": 6, "query_pre_attn_scalar": 16)"},
                    Family{"gemma3_text", "gemma3", "language_model.model.",
                           R"(, "sliding_window": 24, "query_pre_attn_scalar": 16)"},
                    Family{"phi", "phi2", "model.", R"(, "partial_rotary_factor": 0.5, "hidden_act": "gelu_new")"},
                    Family{"phi3", "phi3", "model.",
                           R"(, "original_max_position_embeddings": 128, "rope_scaling": {"type": "longrope",
                  "short_factor": [1, 1, 1, 1, 1, 1, 1, 1], "long_factor": [1, 1.5, 2, 2.5, 3, 4, 5, 6]})"},
                    Family{"gpt2", "gpt2", "transformer."}, Family{"gpt2", "gpt2", ""},
                    Family{"bitnet", "bitnet-b1.58", "model.", R"(, "hidden_act": "relu2")"}),
    [](const auto& info) { return fmt::format("{}_{}", info.param.type, info.index); });

TEST(HuggingFace, RefusesTensorsThatAreTooSmallForWhatIsPackedInThem) {
  const Family phi3{"phi3", "phi3"}, gpt2{"gpt2", "gpt2", ""};
  for (const auto& [family, part] : {std::pair{phi3, "self_attn.qkv_proj.weight"},
                                     {phi3, "mlp.gate_up_proj.weight"},
                                     {gpt2, "attn.c_attn.weight"},
                                     {gpt2, "attn.c_attn.bias"}}) {
    const auto model = small_model(small_config(family.architecture));
    for (const bool trainable : {false, true}) {
      FolderWriter writer(*model, family);
      std::string changed;
      for (auto& [name, values] : writer.tensors()) {
        if (!name.ends_with(part)) continue;
        // All but the last row or column: what is packed last then ends outside.
        const std::int64_t dim = std::string(part) == "attn.c_attn.weight" ? 1 : 0;
        values = values.slice(dim, 0, values.size(dim) - 1).contiguous();
        changed = name;
      }
      ASSERT_NE(changed, "");
      const TemporaryFolder folder;
      writer.save(folder);
      try {
        load_model(folder.path(), {.trainable = trainable});
        ADD_FAILURE() << part;
      } catch (const FormatError& error) {
        EXPECT_THAT(error.what(), HasSubstr(part));
        EXPECT_THAT(error.what(), HasSubstr("the model's sizes require"));
      }
    }
  }
}

TEST(HuggingFace, RefusesANormThatIsTooLong) {
  const Family family{"llama", "llama"};
  const auto model = small_model(hugging_face_folder_config_of(family));
  FolderWriter writer(*model, family);
  for (auto& [name, values] : writer.tensors())
    if (name == "model.norm.weight") values = cat({values, values});
  const TemporaryFolder folder;
  writer.save(folder);
  EXPECT_THROW(load_model(folder.path()), FormatError);
}

TEST(HuggingFace, NamesAShardThatIsMissing) {
  const TemporaryFolder folder;
  const Family family{"qwen2", "qwen2"};
  FolderWriter(*small_model(hugging_face_folder_config_of(family)), family).save(folder, 2);
  std::filesystem::remove(folder / "model-00002-of-00002.safetensors");
  try {
    load_model(folder.path());
    ADD_FAILURE();
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("model-00002-of-00002.safetensors"));
  }
}

}  // namespace
}  // namespace etna::models
