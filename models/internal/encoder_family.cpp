#include <etna/models/internal/encoder_family.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace etna::models {
namespace {

void bert(EncoderConfig&) {}
void distilbert(EncoderConfig& c) { c.classifier.activation = Activation::relu; }
void electra(EncoderConfig& c) { c.classifier.activation = Activation::gelu; }
void mpnet(EncoderConfig& c) {
  c.position_offset = 2;
  c.relative_buckets = 32;
}
void nomic_bert(EncoderConfig& c) {
  c.attention_bias = c.ffn_bias = false;
  c.gated = true;
  c.activation = Activation::silu;
  c.positions = PositionKind::rotary;
  c.rope_base = 1000;
}
void modernbert(EncoderConfig& c) {
  c.norm_eps = 1e-5;
  c.pre_norm = c.gated = true;
  c.norm_bias = c.attention_bias = c.ffn_bias = false;
  c.positions = PositionKind::rotary;
  c.rope_base = 160000;
  c.window_rope_base = 10000;
  c.window = 64;
  c.classifier = {.activation = Activation::gelu, .bias = false, .norm = true};
}

constexpr std::pair<std::string_view, std::string_view> kBertNames[] = {
    {"token_embedding", "embeddings.word_embeddings"},
    {"position_embedding", "embeddings.position_embeddings"},
    {"type_embedding", "embeddings.token_type_embeddings"},
    {"embedding_norm", "embeddings.LayerNorm"},
    {"embedding_projection", "embeddings_project"},
    {"relative_bias", "encoder.relative_attention_bias"},
    {"query", "attention.self.query"},
    {"key", "attention.self.key"},
    {"value", "attention.self.value"},
    {"output", "attention.output.dense"},
    {"attention_norm", "attention.output.LayerNorm"},
    {"ffn.up", "intermediate.dense"},
    {"ffn.down", "output.dense"},
    {"ffn_norm", "output.LayerNorm"},
    {"classifier.dense", "classifier.dense"},
    {"classifier.output", "classifier.out_proj"}};
/// The pooler is the first layer of BERT's classifier.
constexpr std::pair<std::string_view, std::string_view> kPoolerNames[] = {{"classifier.dense", "pooler.dense"},
                                                                          {"classifier.output", "classifier"}};
constexpr std::pair<std::string_view, std::string_view> kDistilbertNames[] = {
    {"query", "attention.q_lin"},       {"key", "attention.k_lin"},          {"value", "attention.v_lin"},
    {"output", "attention.out_lin"},    {"attention_norm", "sa_layer_norm"}, {"ffn.up", "ffn.lin1"},
    {"ffn.down", "ffn.lin2"},           {"ffn_norm", "output_layer_norm"},   {"classifier.dense", "pre_classifier"},
    {"classifier.output", "classifier"}};
constexpr std::pair<std::string_view, std::string_view> kMpnetNames[] = {{"query", "attention.attn.q"},
                                                                         {"key", "attention.attn.k"},
                                                                         {"value", "attention.attn.v"},
                                                                         {"output", "attention.attn.o"},
                                                                         {"attention_norm", "attention.LayerNorm"}};
constexpr std::pair<std::string_view, std::string_view> kNomicNames[] = {{"embedding_norm", "emb_ln"},
                                                                         {"qkv", "attn.Wqkv"},
                                                                         {"output", "attn.out_proj"},
                                                                         {"attention_norm", "norm1"},
                                                                         {"ffn.up", "mlp.fc11"},
                                                                         {"ffn.gate", "mlp.fc12"},
                                                                         {"ffn.down", "mlp.fc2"},
                                                                         {"ffn_norm", "norm2"},
                                                                         {"classifier.dense", "pooler.dense"},
                                                                         {"classifier.output", "classifier"}};
/// Gate and up are one matrix.
constexpr std::pair<std::string_view, std::string_view> kModernbertNames[] = {
    {"token_embedding", "embeddings.tok_embeddings"},
    {"embedding_norm", "embeddings.norm"},
    {"norm", "final_norm"},
    {"qkv", "attn.Wqkv"},
    {"output", "attn.Wo"},
    {"attention_norm", "attn_norm"},
    {"ffn.gate_and_up", "mlp.Wi"},
    {"ffn.down", "mlp.Wo"},
    {"ffn_norm", "mlp_norm"},
    {"classifier.dense", "head.dense"},
    {"classifier.norm", "head.norm"},
    {"classifier.output", "classifier"}};

constexpr std::pair<std::string_view, std::string_view> kModernbertGguf[] = {
    {"attention_norm", "attn_norm"}, {"ffn_norm", "ffn_norm"}, {"norm", "output_norm"}, {"ffn.gate_and_up", "ffn_up"}};

constexpr std::pair<std::string_view, std::string_view> kDistilbertKeys[] = {{"hidden_size", "dim"},
                                                                             {"num_hidden_layers", "n_layers"},
                                                                             {"num_attention_heads", "n_heads"},
                                                                             {"intermediate_size", "hidden_dim"},
                                                                             {"hidden_act", "activation"}};
/// Of files older than Hugging Face's class.
constexpr std::pair<std::string_view, std::string_view> kNomicKeys[] = {
    {"hidden_size", "n_embd"},
    {"num_hidden_layers", "n_layer"},
    {"num_attention_heads", "n_head"},
    {"intermediate_size", "n_inner"},
    {"hidden_act", "activation_function"},
    {"max_position_embeddings", "n_positions"},
    {"layer_norm_eps", "layer_norm_epsilon"},
    {"rope_theta", "rotary_emb_base"},
    {"partial_rotary_factor", "rotary_emb_fraction"}};
constexpr std::pair<std::string_view, std::string_view> kModernbertKeys[] = {
    {"hidden_act", "hidden_activation"}, {"layer_norm_eps", "norm_eps"}, {"rope_theta", "global_rope_theta"}};

constexpr EncoderFamily roberta_row(std::string_view hugging_face) {
  return {.hugging_face = hugging_face,
          .gguf = "bert",
          .apply = bert,
          .prefix = "roberta.",
          .position_by_padding = true,
          .token_types = 1};
}

constexpr EncoderFamily kEncoders[] = {
    {.hugging_face = "bert", .gguf = "bert", .apply = bert, .names = kPoolerNames, .prefix = "bert.", .token_types = 2},
    roberta_row("roberta"),
    roberta_row("xlm-roberta"),
    {.hugging_face = "distilbert",
     .gguf = "bert",
     .apply = distilbert,
     .names = kDistilbertNames,
     .prefix = "distilbert.",
     .blocks = "transformer.layer",
     .keys = kDistilbertKeys},
    {.hugging_face = "modernbert",
     .gguf = "modern-bert",
     .apply = modernbert,
     .gguf_names = kModernbertGguf,
     .names = kModernbertNames,
     .prefix = "model.",
     .blocks = "layers",
     .keys = kModernbertKeys},
    {.hugging_face = "nomic_bert",
     .gguf = "nomic-bert",
     .apply = nomic_bert,
     .names = kNomicNames,
     .prefix = "nomic_bert.",
     .blocks = "encoder.layers",
     .keys = kNomicKeys,
     .token_types = 2},
    {.hugging_face = "electra", .gguf = "", .apply = electra, .prefix = "electra.", .token_types = 2},
    {.hugging_face = "mpnet", .gguf = "", .apply = mpnet, .names = kMpnetNames, .prefix = "mpnet."}};

const EncoderFamily* find_encoder(std::string_view EncoderFamily::*field, std::string_view name) {
  const auto* found = std::find_if(std::begin(kEncoders), std::end(kEncoders),
                                   [&](const EncoderFamily& f) { return !name.empty() && f.*field == name; });
  return found == std::end(kEncoders) ? nullptr : found;
}

}  // namespace

const EncoderFamily* find_encoder_hugging_face(std::string_view name) {
  return find_encoder(&EncoderFamily::hugging_face, name);
}
const EncoderFamily* find_encoder_gguf(std::string_view name) { return find_encoder(&EncoderFamily::gguf, name); }

const EncoderFamily& family_of(const EncoderConfig& config) {
  const EncoderFamily* found = find_encoder_hugging_face(config.architecture);
  return found != nullptr ? *found : kEncoders[0];
}

void refuse_encoder(std::string_view name) {
  if (name == "clip")
    throw FormatError(
        "'clip' is the vision tower of a model, which writes no text; name the model, and it by --mmproj");
  if (find_encoder_hugging_face(name) == nullptr && find_encoder_gguf(name) == nullptr) return;
  throw FormatError(fmt::format(
      "'{}' is a text encoder, which writes no text; etna embed makes vectors of texts with it, etna rerank sorts them",
      name));
}

std::vector<std::string_view> known_encoders() {
  std::vector<std::string_view> names;
  for (const EncoderFamily& family : kEncoders) names.push_back(family.hugging_face);
  return names;
}
std::string encoder_names() { return fmt::format("{}", fmt::join(known_encoders(), ", ")); }

std::string encoder_part(const EncoderFamily& family, std::string_view part) {
  for (const PartNames names : {family.names, PartNames(kBertNames)})
    for (const auto& [own, theirs] : names)
      if (own == part) return std::string(theirs);
  return std::string(part);
}

}  // namespace etna::models
