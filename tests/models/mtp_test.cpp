#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/models/internal/mtp_head.h>
#include <etna/models/internal/state_mixers.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

#include "data/temporary_folder.h"
#include "hugging_face_folder.h"
#include "small_models.h"
#include "state_designs.h"

// Speculative decoding with the model's own head for further tokens.
namespace etna::models {
namespace {

using testing::HasSubstr;
using MtpText = std::vector<std::int32_t>;

std::unique_ptr<Decoder> model_with_head(const DecoderConfig& config) {
  auto model = small_model(config);
  LoudWeights weights;
  model->add_mtp(weights);
  model->eval();
  return model;
}

/// Of gated delta nets, some with experts.
DecoderConfig delta_config(std::size_t design = 0) { return state_config_of(state_designs()[design].second); }

/// A model whose next token follows from the last one alone, and a head that knows how.
std::unique_ptr<Decoder> predictable_model(const DecoderConfig& config = small_config("llama")) {
  auto model = model_with_head(config);
  const NoGrad no_grad;
  const auto silence = [](DecoderBlock& block) {
    (block.attention ? block.attention->output : block.delta->output).weight.zero_();
    block.ffn->down.weight.zero_();
  };
  for (DecoderBlock& block : model->blocks) silence(block);
  MtpHead& head = *model->mtp;
  silence(head.block);
  const std::int64_t width = model->config.width;
  head.combine.weight.copy_(cat({eye(width), zeros({width, width})}, 1));
  head.next_norm.weight.fill_(1);
  head.norm.weight.copy_(model->norm.weight);
  return model;
}

MtpText mtp_text_of(Generator& generator, const MtpText& prompt, const GenerationOptions& options) {
  MtpText tokens;
  generator.generate(prompt, options, [&](std::int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

GenerationOptions mtp_options(std::int64_t tokens, double temperature = 0) {
  return {.max_tokens = tokens, .sampling = {.temperature = temperature, .seed = 5}};
}

GeneratorOptions mtp_generator(Device device, std::int64_t guesses, std::int64_t slots = 1) {
  return {.device = device,
          .slots = slots,
          .guesses = guesses,
          .mtp = guesses > 0,
          .chunk = 32,
          .cache = {.tokens = 256 * slots, .dtype = f32}};
}

class Mtp : public OnDevice {};

TEST(MtpHead, LeavesTheTextAsItIs) {
  for (const DecoderConfig& config :
       {small_config("llama"), small_config("deepseek3"), small_config("glm4moe"), delta_config(), delta_config(1)}) {
    const std::string& architecture = config.architecture;
    const auto model = model_with_head(config);
    for (const double temperature : {0.0, 1.0}) {
      const GenerationOptions options = mtp_options(60, temperature);
      Generator plain(*model, mtp_generator(kCPU, 0));
      const MtpText prompt = some_text(70, 97), wanted = mtp_text_of(plain, prompt, options);
      for (const std::int64_t guesses : {1, 2, 5}) {
        Generator generator(*model, mtp_generator(kCPU, guesses));
        EXPECT_EQ(mtp_text_of(generator, prompt, options), wanted) << architecture << guesses;
        EXPECT_GT(generator.times().guessed, generator.times().guessed_right);
        // The second text begins with a prefix that was found.
        EXPECT_EQ(mtp_text_of(generator, prompt, options), wanted) << architecture << guesses;
        EXPECT_EQ(generator.cache().stats().reused_tokens, 64);
      }
    }
  }
}

TEST_P(Mtp, GuessesRightWhatItsHeadKnows) {
  const auto model = predictable_model(GetParam().is_cpu() ? small_config("llama") : delta_config());
  model->to(GetParam());
  for (const double temperature : tried<double>({1.0, 0.0})) {
    Generator plain(*model, mtp_generator(GetParam(), 0));
    const MtpText wanted = mtp_text_of(plain, {5, 9, 2}, mtp_options(60, temperature));
    for (const std::int64_t guesses : tried<std::int64_t>({4, 1})) {
      Generator generator(*model, mtp_generator(GetParam(), guesses));
      EXPECT_EQ(mtp_text_of(generator, {5, 9, 2}, mtp_options(60, temperature)), wanted);
      EXPECT_GE(generator.times().guessed, 60 * guesses / (guesses + 1) - guesses);
      EXPECT_EQ(generator.times().guessed_right, generator.times().guessed);
    }
  }
}

/// What the head reads in steps is what it reads of the whole text: where it is the model's last block over what the
/// model says of a position, guesses do not depend on how the text was cut into steps.
TEST(MtpHead, ReadsEveryPositionWithItsHiddenState) {
  const auto model = model_with_head(delta_config());
  const NoGrad no_grad;
  const MtpText prompt = some_text(50, 97);
  Generator plain(*model, mtp_generator(kCPU, 0));
  const MtpText text = mtp_text_of(plain, prompt, mtp_options(80));
  MtpText all = prompt;
  all.insert(all.end(), text.begin(), text.end());
  // The head's best token behind the next one, of each position of the whole text at once.
  const auto length = std::ssize(all) - 1;
  KvCache cache(model->mtp->config, kCPU, {.tokens = 256, .dtype = f32});
  const KvCache::Id id = cache.start(all).id;
  cache.reserve(id, length);
  const CachePlaces places{from_vector(cache.row(id, 4), {1, 4}), zeros({1}, {i32})};
  const Tensor tokens = from_vector(all, {1, length + 1});
  const Tensor hidden = model->hidden(tokens.slice(1, 0, length));
  const Tensor x =
      model->mtp->extend(hidden, model->embedded(tokens.slice(1, 1, length + 1)), {&cache.layers(), places});
  const MtpText best = argmax(model->logits_of(model->mtp->norm(x)), -1).to(i32).flatten().to_vector<std::int32_t>();
  // With one guess a step, it is right exactly where that token is the text's.
  std::int64_t guessed = 0, right = 0;
  for (std::size_t i = prompt.size() + 1; i < all.size(); ++i) {
    ++guessed;
    if (best[i - 2] == all[i]) ++right, ++i;
  }
  Generator generator(*model, mtp_generator(kCPU, 1));
  EXPECT_EQ(mtp_text_of(generator, prompt, mtp_options(80)), text);
  EXPECT_EQ(generator.times().guessed, guessed);
  EXPECT_EQ(generator.times().guessed_right, right);
}

/// Two guesses for each step: the second one is behind the head's own result, which Qwen3-Next's heads read normed.
TEST(MtpHead, ReadsItsResultForTheSecondGuess) {
  const NoGrad no_grad;
  for (const DecoderConfig& config : {small_config("llama"), delta_config()}) {
    const auto model = model_with_head(config);
    const MtpHead& head = *model->mtp;
    EXPECT_EQ(head.reads_normed, config.has_state());
    MtpText all = some_text(30, 97);
    const auto first = std::ssize(all);
    Generator plain(*model, mtp_generator(kCPU, 0)), generator(*model, mtp_generator(kCPU, 2));
    const MtpText text = mtp_text_of(plain, all, mtp_options(50));
    all.insert(all.end(), text.begin(), text.end());
    // The best tokens behind the last of so many, by the whole text before it.
    const auto guess = [&](std::int64_t known) {
      KvCache cache(head.config, kCPU, {.tokens = 128, .dtype = f32});
      const KvCache::Id id = cache.start({}).id;
      cache.reserve(id, known + 1);
      const auto read = [&](const Tensor& hidden, const Tensor& next, std::int32_t at) {
        return head.extend(hidden, model->embedded(next),
                           {&cache.layers(), {from_vector(cache.row(id, 2), {1, 2}), from_vector(MtpText{at})}});
      };
      const auto best = [&](const Tensor& x) { return argmax(model->logits_of(head.norm(x)), -1).to(i32); };
      const Tensor tokens = from_vector(all, {1, std::ssize(all)});
      const Tensor x = read(model->hidden(tokens.slice(1, 0, known - 1)), tokens.slice(1, 1, known), 0);
      const Tensor last = x.slice(1, known - 2, known - 1), one = best(last);
      const Tensor two =
          best(read(head.reads_normed ? head.norm(last) : last, one, static_cast<std::int32_t>(known) - 1));
      return std::pair{one.to_vector<std::int32_t>()[0], two.to_vector<std::int32_t>()[0]};
    };
    std::int64_t guessed = 0, right = 0;
    for (std::int64_t known = first + 1; known < first + 40; ++known) {
      const auto [one, two] = guess(known);
      const auto is = [&](std::int64_t i, std::int32_t token) { return all[static_cast<std::size_t>(i)] == token; };
      const std::int64_t both = !is(known, one) ? 0 : is(known + 1, two) ? 2 : 1;
      guessed += 2;
      right += both;
      known += both;
    }
    EXPECT_EQ(mtp_text_of(generator, some_text(30, 97), mtp_options(40)), MtpText(text.begin(), text.begin() + 40));
    EXPECT_EQ(generator.times().guessed, guessed);
    EXPECT_EQ(generator.times().guessed_right, right);
  }
}

/// Sequences that are read in chunks, join and leave while others guess, and take one token a step for a penalty.
TEST(MtpHead, ServesSequencesThatJoinAndLeave) {
  const auto model = model_with_head(delta_config());
  std::vector<MtpText> prompts, wanted;
  std::vector<GenerationOptions> options;
  Generator plain(*model, mtp_generator(kCPU, 0));
  for (std::int64_t i = 0; i < 5; ++i) {
    prompts.push_back(some_text(8 + 45 * i % 130, 97 - i));
    options.push_back(mtp_options(20 + 9 * i, i % 2 == 0 ? 0.0 : 0.8));
    if (i == 2) options.back().sampling.repetition_penalty = 1.3;
    wanted.push_back(mtp_text_of(plain, prompts.back(), options.back()));
  }
  Generator generator(*model, mtp_generator(kCPU, 3, 3));
  generator.warm_up();
  std::map<Generator::Id, MtpText> texts;
  std::vector<Generator::Id> ids;
  while (ids.size() < prompts.size() || generator.busy()) {
    if (ids.size() < prompts.size() && generator.has_room())
      ids.push_back(generator.begin(prompts[ids.size()], options[ids.size()]));
    for (const GeneratedToken& token : generator.step()) texts[token.sequence].push_back(token.token);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(texts[ids[i]], wanted[i]) << i;
  EXPECT_GT(generator.times().guessed, 30);
}

TEST(MtpHead, GuessesUpToTheContextsEndAndBeyond) {
  const auto model = predictable_model();
  Generator plain(*model, mtp_generator(kCPU, 0)), generator(*model, mtp_generator(kCPU, 4));
  GenerationOptions options = mtp_options(1000);
  EXPECT_EQ(mtp_text_of(generator, {3, 1}, options), mtp_text_of(plain, {3, 1}, options));
  options.endless = true;
  options.max_tokens = 600;
  EXPECT_EQ(mtp_text_of(generator, {3, 1}, options), mtp_text_of(plain, {3, 1}, options));
  EXPECT_GT(generator.times().guessed_right, 600);
}

std::string mtp_refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

TEST(MtpHead, RefusesWhatDoesNotGoTogether) {
  const auto without = small_model(small_config("llama")), with = model_with_head(small_config("llama"));
  EXPECT_THAT(mtp_refusal([&] { Generator(*without, mtp_generator(kCPU, 2)); }), HasSubstr("has no head for further"));
  EXPECT_THAT(mtp_refusal([&] { Generator(*with, {.mtp = true}); }), HasSubstr("but guesses is 0"));
  EXPECT_THAT(mtp_refusal([&] { Generator(*with, {.guesses = 2, .draft = without.get(), .mtp = true}); }),
              HasSubstr("leave out the other"));
  const auto other = small_model(delta_config(6));
  LoudWeights weights;
  EXPECT_THAT(mtp_refusal([&] { other->add_mtp(weights); }), HasSubstr("models of 'mamba2' have none such"));
}

/// A model of three layers, of which the last one is a head's.
TEST(MtpFile, OfGgufHasTheHeadBehindTheLastLayer) {
  const TemporaryFolder folder;
  for (const auto& [architecture, key] : {std::pair{"deepseek3", "deepseek2"}, {"glm4moe", "glm4moe"}}) {
    DecoderConfig config = small_config(architecture);
    config.experts.shared = config.experts.feed_forward;
    config.layers = 3;
    config.each_layer.clear();
    set_expert_layers(config, {false, true, true});
    const auto model = small_model(config);
    save_gguf_model(folder / "whole.gguf", *model, nullptr);
    const io::GgufFile file(folder / "whole.gguf");
    NamedTensors tensors;
    GgufOptions options;
    for (const io::GgufTensor& one : file.tensors()) tensors.emplace_back(one.name, file.load(one));
    for (const io::GgufEntry& entry : file.metadata())
      if (entry.key != "general.alignment") options.metadata.emplace_back(entry.key, entry.value);
    options.metadata.emplace_back(std::string(key) + ".nextn_predict_layers", std::uint32_t{1});
    const std::int64_t width = config.width;
    const Tensor combine = randn({width, 2 * width});
    for (const char* norm : {"enorm", "hnorm", "shared_head_norm"})
      tensors.emplace_back(fmt::format("blk.2.nextn.{}.weight", norm), rand({width}) + 0.5);
    tensors.emplace_back("blk.2.nextn.eh_proj.weight", combine);
    save_gguf(folder / "head.gguf", tensors, options);
    EXPECT_FALSE(load_model(folder / "head.gguf").decoder->mtp);
    const Model loaded = load_model(folder / "head.gguf", {.mtp = true});
    ASSERT_TRUE(loaded.decoder->mtp);
    EXPECT_EQ(std::ssize(loaded.decoder->blocks), 2);
    EXPECT_EQ(dequantize(loaded.decoder->mtp->combine.blocks()).to_vector<float>(), combine.to_vector<float>());
    EXPECT_TRUE(loaded.decoder->mtp->block.ffn->router);
    Generator plain(*loaded.decoder, mtp_generator(kCPU, 0)), generator(*loaded.decoder, mtp_generator(kCPU, 2));
    EXPECT_EQ(mtp_text_of(generator, {1, 2, 3}, mtp_options(30)), mtp_text_of(plain, {1, 2, 3}, mtp_options(30)));
    EXPECT_GT(generator.times().guessed, 10);
    // One size of the head does not fit.
    tensors.back().second = randn({width, width});
    save_gguf(folder / "damaged.gguf", tensors, options);
    EXPECT_THAT(mtp_refusal([&] { load_model(folder / "damaged.gguf", {.mtp = true}); }),
                HasSubstr("'blk.2.nextn.eh_proj.weight' is [64, 64]; the model's sizes require [64, 128]"));
    EXPECT_THAT(mtp_refusal([&] { load_model(folder / "whole.gguf", {.mtp = true}); }),
                HasSubstr("no layer for further tokens"));
    EXPECT_THAT(mtp_refusal([&] { load_model(folder / "head.gguf", {.trainable = true, .mtp = true}); }),
                HasSubstr("leave it out"));
  }
}

TEST(MtpFile, OfHuggingFaceHasItsNames) {
  const TemporaryFolder folder;
  const auto model = small_model(small_config("llama"));
  FolderWriter writer(*model, {"llama", "llama", "model.", ", \"num_nextn_predict_layers\": 1"});
  NamedTensors& tensors = writer.tensors();
  const std::string last = "model.layers.1.", next = "model.layers.2.";
  const NamedTensors before = tensors;
  for (const auto& [name, values] : before)
    if (name.starts_with(last)) tensors.emplace_back(next + name.substr(last.size()), values * 0.5);
  const std::int64_t width = model->config.width;
  for (const char* norm : {"enorm", "hnorm", "shared_head.norm"})
    tensors.emplace_back(next + norm + ".weight", rand({width}) + 0.5);
  tensors.emplace_back(next + "eh_proj.weight", randn({width, 2 * width}));
  tensors.emplace_back(next + "embed_tokens.weight", model->token_embedding.weight.detach());
  writer.save(folder);
  const Model loaded = load_model(folder.path(), {.mtp = true});
  ASSERT_TRUE(loaded.decoder->mtp);
  const Projection& query = *loaded.decoder->mtp->block.attention->query;
  EXPECT_EQ(dequantize(query.blocks()).to_vector<float>(),
            (dequantize(loaded.decoder->blocks[1].attention->query->blocks()) * 0.5).to_vector<float>());
  Generator plain(*loaded.decoder, mtp_generator(kCPU, 0)), generator(*loaded.decoder, mtp_generator(kCPU, 2));
  EXPECT_EQ(mtp_text_of(generator, {1, 2, 3}, mtp_options(30)), mtp_text_of(plain, {1, 2, 3}, mtp_options(30)));
}

/// A folder of Qwen3.5 or Qwen3-Next with random weights, by the names of its own code.
class DeltaFolder {
 public:
  explicit DeltaFolder(StateJson json, const char* head = "mtp.") : json_(std::move(json)) {
    const bool packed = json_["model_type"] == "qwen3_next";
    matrix("model.embed_tokens", {97, 32});
    norm("model.norm", 32);
    matrix("lm_head", {97, 32});
    for (const std::int64_t layer : {0, 1, 2}) {
      const std::string at = fmt::format("model.layers.{}.", layer);
      block(at, layer == 1);
      if (layer == 1) continue;
      matrix(at + (packed ? "linear_attn.in_proj_qkvz" : "linear_attn.in_proj_qkv"), {packed ? 96 : 64, 32});
      matrix(at + (packed ? "linear_attn.in_proj_ba" : "linear_attn.in_proj_b"), {packed ? 8 : 4, 32});
      if (!packed) matrix(at + "linear_attn.in_proj_z", {32, 32});
      if (!packed) matrix(at + "linear_attn.in_proj_a", {4, 32});
      put(at + "linear_attn.conv1d.weight", randn({64, 1, 4}) * 0.5);
      put(at + "linear_attn.A_log", rand({4}));
      put(at + "linear_attn.dt_bias", rand({4}));
      put(at + "linear_attn.norm.weight", rand({8}) + 0.5);
      matrix(at + "linear_attn.out_proj", {32, 32});
    }
    const std::string at = head;
    if (at.empty()) return;
    matrix(at + "fc", {32, 64});
    for (const char* name : {"norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"}) norm(at + name, 32);
    block(at + "layers.0.", true);
  }

  void save(const TemporaryFolder& folder) const {
    std::ofstream(folder / "config.json") << json_.dump();
    save_safetensors(folder / "model.safetensors", NamedTensors(tensors_.begin(), tensors_.end()));
  }
  Tensor& operator[](const std::string& name) { return tensors_.at(name); }

 private:
  void put(const std::string& name, const Tensor& values) { tensors_[name] = values; }
  void matrix(const std::string& name, const Shape& shape) {
    put(name + ".weight", randn(shape) * (1.6 / std::sqrt(static_cast<double>(shape[1]))));
  }
  /// Files have the difference from 1.
  void norm(const std::string& name, std::int64_t size) { put(name + ".weight", rand({size}) - 0.5); }
  void block(const std::string& at, bool attention) {
    norm(at + "input_layernorm", 32);
    norm(at + "post_attention_layernorm", 32);
    if (attention) {
      matrix(at + "self_attn.q_proj", {64, 32});
      matrix(at + "self_attn.k_proj", {16, 32});
      matrix(at + "self_attn.v_proj", {16, 32});
      matrix(at + "self_attn.o_proj", {32, 32});
      norm(at + "self_attn.q_norm", 8);
      norm(at + "self_attn.k_norm", 8);
    }
    const bool experts = json_.contains("num_experts");
    const std::string one = at + (experts ? "mlp.shared_expert." : "mlp.");
    matrix(one + "gate_proj", {experts ? 24 : 48, 32});
    matrix(one + "up_proj", {experts ? 24 : 48, 32});
    matrix(one + "down_proj", {32, experts ? 24 : 48});
    if (!experts) return;
    matrix(at + "mlp.gate", {4, 32});
    matrix(at + "mlp.shared_expert_gate", {1, 32});
    put(at + "mlp.experts.gate_up_proj", randn({4, 32, 32}) * 0.3);
    put(at + "mlp.experts.down_proj", randn({4, 32, 16}) * 0.4);
  }

  StateJson json_;
  std::map<std::string, Tensor> tensors_;
};

StateJson delta_folder_json(const char* type) {
  StateJson json = family_json(type);
  json["linear_value_head_dim"] = 8;
  if (std::string_view(type) == "qwen3_5_text") return json;
  json.update({{"num_experts", 4},
               {"num_experts_per_tok", 2},
               {"moe_intermediate_size", 16},
               {"shared_expert_intermediate_size", 24}});
  return json;
}

std::vector<float> mtp_values(const Projection& projection) {
  return dequantize(projection.blocks()).to_vector<float>();
}

TEST(MtpFile, OfQwen35HasNamesOfItsOwn) {
  const TemporaryFolder folder;
  for (const char* type : {"qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"}) {
    SCOPED_TRACE(type);
    for (const char* prefix : {"mtp.", "model.mtp."}) {
      DeltaFolder files(delta_folder_json(type), prefix);
      files.save(folder);
      EXPECT_FALSE(load_model(folder.path()).decoder->mtp);
      const ModelSizes sizes = model_sizes(folder.path());
      EXPECT_EQ(sizes.layers[0], sizes.layers[2]);
      const Model loaded = load_model(folder.path(), {.mtp = true});
      ASSERT_TRUE(loaded.decoder->mtp);
      const MtpHead& head = *loaded.decoder->mtp;
      EXPECT_EQ(std::ssize(loaded.decoder->blocks), 3);
      const std::string at = prefix;
      EXPECT_EQ(mtp_values(head.combine), files[at + "fc.weight"].to_vector<float>());
      for (const auto& [norm, name] : {std::pair{&head.next_norm, "pre_fc_norm_embedding"},
                                       {&head.hidden_norm, "pre_fc_norm_hidden"},
                                       {&head.norm, "norm"},
                                       {&*head.block.ffn_norm, "layers.0.post_attention_layernorm"}})
        EXPECT_EQ(norm->weight.to_vector<float>(), (files[at + name + ".weight"] + 1.0).to_vector<float>()) << name;
      const Tensor queries = files[at + "layers.0.self_attn.q_proj.weight"].reshape({4, 2, 8, 32});
      EXPECT_EQ(mtp_values(*head.block.attention->query), queries.select(1, 0).contiguous().to_vector<float>());
      EXPECT_EQ(mtp_values(*head.block.attention->gate), queries.select(1, 1).contiguous().to_vector<float>());
      EXPECT_EQ(static_cast<bool>(head.block.ffn->router), std::string_view(type) != "qwen3_5_text");
      Generator plain(*loaded.decoder, mtp_generator(kCPU, 0)), generator(*loaded.decoder, mtp_generator(kCPU, 2));
      EXPECT_EQ(mtp_text_of(generator, {1, 2, 3}, mtp_options(30)), mtp_text_of(plain, {1, 2, 3}, mtp_options(30)));
      EXPECT_GT(generator.times().guessed, 10);
      files[at + "fc.weight"] = randn({32, 32});
      files.save(folder);
      EXPECT_THAT(mtp_refusal([&] { load_model(folder.path(), {.mtp = true}); }),
                  HasSubstr(at + "fc.weight' is [32, 32]; the model's sizes require [32, 64]"));
    }
    DeltaFolder(delta_folder_json(type), "").save(folder);
    EXPECT_THAT(mtp_refusal([&] { load_model(folder.path(), {.mtp = true}); }),
                HasSubstr("no layer for further tokens"));
  }
}

/// Written where llama.cpp knows it.
TEST(MtpFile, OfQwen35IsWrittenToGguf) {
  const TemporaryFolder folder;
  const FilePath file = folder / "model.gguf";
  for (const char* type : {"qwen3_5_text", "qwen3_5_moe_text"}) {
    SCOPED_TRACE(type);
    DeltaFolder(delta_folder_json(type)).save(folder);
    const Model model = load_model(folder.path(), {.mtp_for_gguf = true});
    save_gguf_model(file, *model.decoder, nullptr);
    const io::GgufFile written(file);
    EXPECT_EQ(written.integer(model.decoder->config.architecture + ".block_count"), 4);
    EXPECT_EQ(written.integer(model.decoder->config.architecture + ".nextn_predict_layers"), 1);
    const Model again = load_model(file, {.mtp = true});
    EXPECT_EQ(again.decoder->mtp->norm.weight.to_vector<float>(), model.decoder->mtp->norm.weight.to_vector<float>());
    Generator before(*model.decoder, mtp_generator(kCPU, 3)), after(*again.decoder, mtp_generator(kCPU, 3));
    EXPECT_EQ(mtp_text_of(after, {1, 2, 3}, mtp_options(40)), mtp_text_of(before, {1, 2, 3}, mtp_options(40)));
    EXPECT_EQ(after.times().guessed, before.times().guessed);
    EXPECT_EQ(after.times().guessed_right, before.times().guessed_right);
  }
  DeltaFolder(delta_folder_json("qwen3_next")).save(folder);
  save_gguf_model(file, *load_model(folder.path(), {.mtp_for_gguf = true}).decoder, nullptr);
  EXPECT_THAT(mtp_refusal([&] { load_model(file, {.mtp = true}); }), HasSubstr("no layer for further tokens"));
}

ETNA_ON_EVERY_DEVICE(Mtp);

}  // namespace
}  // namespace etna::models
