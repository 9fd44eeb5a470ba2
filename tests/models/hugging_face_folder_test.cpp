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
