#include <data/temporary_folder.h>
#include <etna/data/tokenizers/internal/chat/jinja_template.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/models/encoder.h>
#include <etna/models/model_file.h>
#include <etna/nn/linear.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/train/internal/read_bytes.h>
#include <fuzz/damage.h>
#include <fuzz/targets.h>
#include <io/gguf_bytes.h>

// The fuzz targets over damaged files, with any compiler. A fuzzer goes on from there: see CMakeLists.txt.
namespace etna::fuzz {
namespace {

template <typename T>
std::string bytes_of(std::initializer_list<T> numbers) {
  return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(T)};
}

TEST(FuzzReaders, GgufSurvivesDamage) {
  const Damage result = damage(io::small_gguf().text, gguf);
  EXPECT_GT(result.tried, 10000u);
  EXPECT_GT(result.refused, result.tried / 4);
}

TEST(FuzzReaders, Llama2cSurvivesDamage) {
  // width 2, feed-forward 3, one layer, one head, one key/value head, vocabulary 2, context 2
  std::string file = bytes_of<std::int32_t>({2, 3, 1, 1, 1, 2, 2});
  file += std::string(4 * (4 + 2 + 4 * 4 + 2 + 3 * 6 + 2 + 2 + 2), '\1');
  const Damage result = damage(file, llama2c);
  EXPECT_GT(result.refused, result.tried / 10);
}

TEST(FuzzReaders, SafetensorsSurviveDamage) {
  const std::string header = R"({"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                             R"("v":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})";
  const Damage result = damage(bytes_of<std::uint64_t>({header.size()}) + header + std::string(19, '\1'), safetensors);
  EXPECT_GT(result.refused, result.tried / 2);
}

TEST(FuzzReaders, ShardIndexSurvivesDamage) {
  const std::string file = R"({"metadata":{"total_size":1234,"more":[1,{"x":null}]},"weight_map":)"
                           R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})";
  const Damage result = damage(file, shard_index);
  EXPECT_GT(result.refused, result.tried / 2);
}

TEST(FuzzReaders, DecoderConfigSurvivesDamage) {
  const std::string file =
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_act":"silu","hidden_size":64,)"
      R"("intermediate_size":96,"max_position_embeddings":256,"num_attention_heads":4,"num_hidden_layers":2,)"
      R"("num_key_value_heads":2,"rms_norm_eps":1e-05,"rope_theta":10000.0,"rope_scaling":{"rope_type":"llama3",)"
      R"("factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":128},)"
      R"("tie_word_embeddings":false,"vocab_size":97})";
  const Damage result = damage(file, decoder_config);
  EXPECT_GT(result.refused, result.tried / 2);
}

TEST(FuzzReaders, EncoderConfigSurvivesDamage) {
  const std::string file =
      R"({"architectures":["ModernBertForSequenceClassification"],"model_type":"modernbert","hidden_size":64,)"
      R"("intermediate_size":96,"max_position_embeddings":256,"num_attention_heads":4,"num_hidden_layers":2,)"
      R"("layer_types":["full_attention","sliding_attention"],"local_attention":16,"classifier_pooling":"mean",)"
      R"("rope_parameters":{"full_attention":{"rope_type":"default","rope_theta":160000.0}},"norm_eps":1e-05,)"
      R"("id2label":{"0":"LABEL_0"},"vocab_size":97})";
  const Damage result = damage(file, encoder_config);
  EXPECT_GT(result.refused, result.tried / 2);
}

TEST(FuzzReaders, EncoderFileSurvivesDamage) {
  const TemporaryFolder folder;
  models::EncoderConfig config;
  config.vocabulary = config.context = 5;
  config.width = config.embedding_width = config.feed_forward = 4;
  config.layers = config.token_types = 1;
  config.heads = 2;
  config.head_size = 2;
  data::VocabularyFields fields;
  fields.model = "bert";
  fields.tokens = {"[UNK]", "[CLS]", "[SEP]",
                   "\xE2\x96\x81"
                   "a",
                   "b"};
  fields.types = {3, 3, 3, 1, 1};
  const data::ModelTokenizer tokenizer(fields);
  models::save_gguf_encoder(folder / "whole.gguf", models::Encoder(config), &tokenizer);
  const Damage result = damage(training::read_bytes(folder / "whole.gguf"), encoder_file, 97, 200);
  EXPECT_GT(result.refused, result.tried / 4);
}

TEST(FuzzReaders, DecoderFileSurvivesDamage) {
  const TemporaryFolder folder;
  models::save_gguf_model(folder / "whole.gguf", *tiny_decoder(), nullptr);
  const Damage result = damage(training::read_bytes(folder / "whole.gguf"), decoder_file, 5);
  EXPECT_GT(result.refused, result.tried / 4);
}

/// With a vocabulary, a chat template and merges.
TEST(FuzzReaders, DecoderFileWithAVocabularySurvivesDamage) {
  data::VocabularyFields fields;
  fields.model = "gpt2";
  fields.tokens = {"a", "b", "ab", "</s>", "c"};
  fields.types = {1, 1, 1, 3, 1};
  fields.merges = {"a b"};
  fields.bos = fields.eos = 3;
  fields.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}";
  const data::ModelTokenizer tokenizer(fields);
  const TemporaryFolder folder;
  models::save_gguf_model(folder / "whole.gguf", *tiny_decoder(), &tokenizer);
  const Damage result = damage(training::read_bytes(folder / "whole.gguf"), decoder_file, 41);
  EXPECT_GT(result.refused, result.tried / 4);
}

TEST(FuzzReaders, AdapterFileSurvivesDamage) {
  const TemporaryFolder folder;
  const auto decoder = tiny_decoder();
  decoder->add_adapters(2, 4, true);
  models::save_adapters(folder / "adapter.gguf", *decoder);
  const Damage result = damage(training::read_bytes(folder / "adapter.gguf"), adapter_file, 11);
  EXPECT_GT(result.refused, result.tried / 4);
}

TEST(FuzzReaders, AdapterConfigSurvivesDamage) {
  const std::string file =
      R"({"peft_type":"LORA","task_type":"CAUSAL_LM","r":2,"rank_pattern":{},"alpha_pattern":{},"lora_alpha":4.0,)"
      R"("lora_dropout":0.0,"bias":"none","target_modules":["q_proj","v_proj"],"fan_in_fan_out":false,)"
      R"("use_dora":false,"use_rslora":false,"inference_mode":true})";
  const Damage result = damage(file, adapter_config, 9);
  EXPECT_GT(result.refused, result.tried / 2);
}

TEST(FuzzReaders, TokenizerConfigSurvivesDamage) {
  const std::string file =
      R"({"bos_token":{"__type":"AddedToken","content":"</s>","lstrip":false},"eos_token":"</s>","add_bos_token":true,)"
      R"("chat_template":[{"name":"tool_use","template":"x"},{"name":"default","template":"{{ bos_token }}"}],)"
      R"("model_max_length":1e30})";
  const Damage result = damage(file, tokenizer_config, 7);
  EXPECT_GT(result.refused, result.tried / 2);
}

/// A template runs in a process of its own, which takes a while.
TEST(FuzzReaders, ChatTemplateSurvivesDamage) {
  if (!data::runs_jinja()) GTEST_SKIP() << "this build cannot run Jinja";
  const std::string file =
      "{% for m in messages %}{% if m['role'] == 'user' and loop.index0 > 0 %}{{ '<s>' + m['content'] | trim }}"
      "{% else %}{{ m.role ~ m['content'][0:2] }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ eos_token }}"
      "{% endif %}";
  const Damage result = damage(file, chat_template, 32, 60);
  EXPECT_GT(result.refused, result.tried / 10);
}

TEST(FuzzReaders, CheckpointSurvivesDamage) {
  const TemporaryFolder folder;
  nn::Linear layer(2, 3);
  std::int64_t step = 7;
  save(folder / "run.safetensors", {{"layer", layer}, {"step", step}}, {{"a", "b"}});
  const Damage result = damage(training::read_bytes(folder / "run.safetensors"), checkpoint, 7);
  EXPECT_GT(result.refused, result.tried / 2);
}

TEST(FuzzReaders, RefuseWhatIsNoFileAtAll) {
  for (Target* target : {adapter_config, adapter_file, checkpoint, decoder_config, decoder_file, encoder_config,
                         encoder_file, gguf, llama2c, safetensors, shard_index, tokenizer_config}) {
    EXPECT_FALSE(target(nullptr, 0));
    const std::string zeros(4096, '\0'), ones(4096, '\xff'), open(4096, '['), quotes(4096, '"');
    for (const std::string* text : {&zeros, &ones, &open, &quotes})
      EXPECT_FALSE(target(reinterpret_cast<const std::uint8_t*>(text->data()), text->size()));
  }
}

}  // namespace
}  // namespace etna::fuzz
