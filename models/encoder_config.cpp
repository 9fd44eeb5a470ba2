#include <algorithm>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/models/internal/encoder_family.h>
#include <etna/models/internal/file_config.h>

namespace etna::models {
namespace {

using EncoderJson = nlohmann::json;
constexpr const char* kEncoderUse = "an encoder";

/// Reads a config.json by BERT's keys, or those that a family has for them.
class EncoderReader {
 public:
  EncoderReader(const EncoderJson& json, const EncoderFamily& family, const std::string& name)
      : json_(json, "config", name, kEncoderUse), family_(family) {}

  EncoderConfig read() {
    EncoderConfig c;
    family_.apply(c);
    c.architecture = family_.hugging_face;
    c.name = json_.text("_name_or_path", "");
    refuse_other_designs();
    c.vocabulary = required("vocab_size");
    c.width = required("hidden_size");
    c.embedding_width = json_.integer("embedding_size", c.width);
    c.layers = required("num_hidden_layers");
    c.heads = required("num_attention_heads");
    c.head_size = json_.integer("head_dim", c.heads > 0 ? c.width / c.heads : 0);
    c.feed_forward = required("intermediate_size");
    c.token_types = json_.integer("type_vocab_size", family_.token_types);
    c.norm_eps = number("layer_norm_eps", c.norm_eps);
    c.norm_bias = json_.flag("norm_bias", c.norm_bias);
    c.attention_bias = json_.flag("attention_bias", c.attention_bias);
    c.ffn_bias = json_.flag("mlp_bias", c.ffn_bias);
    const std::string activation = json_.text(key("hidden_act"), "");
    if (!activation.empty()) c.activation = read_activation(activation == "swiglu" ? "silu" : activation);
    if (family_.position_by_padding) c.position_offset = json_.integer("pad_token_id", 1) + 1;
    c.context = required("max_position_embeddings") - c.position_offset;
    if (c.relative_buckets > 0)
      c.relative_buckets = json_.integer("relative_attention_num_buckets", c.relative_buckets);
    if (c.positions == PositionKind::rotary) read_rope(c);
    if (c.window > 0) read_windows(c);
    read_classifier(c.classifier);
    return c;
  }

 private:
  const char* key(const char* own) const {
    if (json_.find(own) != nullptr) return own;
    for (const auto& [bert, theirs] : family_.keys)
      if (bert == own) return theirs.data();
    return own;
  }
  std::int64_t required(const char* own) const {
    if (json_.find(key(own)) == nullptr) json_.refuse(fmt::format("has no '{}'", key(own)));
    return json_.integer(key(own), 0);
  }
  double number(const char* own, double otherwise) const { return json_.number(key(own), otherwise); }

  void refuse_other_designs() const {
    if (const std::string kind = json_.text("position_embedding_type", "absolute");
        kind != "absolute" && kind != "rotary") {
      json_.refuse(
          fmt::format("has positions of the kind '{}' ('position_embedding_type'), which do not run here", kind));
    }
    for (const char* name : {"is_decoder", "add_cross_attention", "prenorm", "qkv_proj_bias", "mlp_fc1_bias",
                             "mlp_fc2_bias", "causal", "parallel_block", "use_rms_norm", "rotary_emb_interleaved"})
      if (json_.flag(name, false)) json_.refuse(fmt::format("has '{}' = true, which does not run here", name));
    if (json_.find("quantization_config") != nullptr)
      json_.refuse("has a 'quantization_config'; take the model in f32, f16 or bf16");
  }

  /// @param of a kind of layers, or null @return the object's base
  double rope_base(const EncoderJson* of, double otherwise) const {
    if (of == nullptr) return otherwise;
    const data::JsonPart part(*of, "rope_parameters", json_.name(), kEncoderUse);
    const std::string type = part.text("rope_type", part.text("type", "default"));
    if (type != "default")
      part.refuse(fmt::format("has rope_type '{}'; encoders run here with unscaled positions alone", type));
    return part.number("rope_theta", otherwise);
  }

  void read_rope(EncoderConfig& c) const {
    c.rope_base = number("rope_theta", c.rope_base);
    if (c.window > 0) c.window_rope_base = json_.number("local_rope_theta", c.window_rope_base);
    double part = number("partial_rotary_factor", 1);
    const EncoderJson* parameters = json_.find("rope_parameters");
    if (parameters == nullptr) parameters = json_.find("rope_scaling");
    if (parameters != nullptr) {
      if (!parameters->is_object()) json_.refuse("has 'rope_parameters' that are no object");
      const EncoderJson* full = data::json_field(*parameters, "full_attention");
      const EncoderJson* local = data::json_field(*parameters, "sliding_attention");
      const EncoderJson* all = full != nullptr ? full : parameters;
      c.rope_base = rope_base(all, c.rope_base);
      c.window_rope_base = rope_base(local, c.window_rope_base);
      part = data::JsonPart(*all, "rope_parameters", json_.name(), kEncoderUse).number("partial_rotary_factor", part);
    }
    if (!(part > 0 && part <= 1))
      json_.refuse(fmt::format("has 'partial_rotary_factor' = {}; it must be above 0, and at most 1", part));
    c.rope_size = static_cast<std::int64_t>(static_cast<double>(c.head_size) * part) / 2 * 2;
  }

  void read_windows(EncoderConfig& c) const {
    c.window = json_.integer("local_attention", 2 * c.window) / 2;
    c.windowed.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, std::min(c.layers, std::int64_t{1} << 14))),
                      false);
    const EncoderJson* types = json_.find("layer_types");
    if (types == nullptr) {
      const std::int64_t every = json_.integer("global_attn_every_n_layers", 3);
      if (every < 1) json_.refuse(fmt::format("has 'global_attn_every_n_layers' = {}; it must be above 0", every));
      for (std::size_t i = 0; i < c.windowed.size(); ++i) c.windowed[i] = i % static_cast<std::size_t>(every) != 0;
      return;
    }
    if (!types->is_array() || types->size() != c.windowed.size())
      json_.refuse(fmt::format("has 'layer_types' that are no list for {} layers", c.layers));
    for (std::size_t i = 0; i < types->size(); ++i) {
      const EncoderJson& kind = (*types)[i];
      if (kind != "full_attention" && kind != "sliding_attention") {
        json_.refuse(fmt::format("has {} in 'layer_types'; known are \"full_attention\" and \"sliding_attention\"",
                                 data::json_brief(kind)));
      }
      c.windowed[i] = kind == "sliding_attention";
    }
  }

  /// Files of models for sequence classification name their class.
  void read_classifier(ClassifierConfig& classifier) const {
    const EncoderJson* classes = json_.find("architectures");
    bool there = false;
    for (const EncoderJson& one : classes != nullptr && classes->is_array() ? *classes : EncoderJson::array())
      there = there || (one.is_string() && one.get<std::string>().ends_with("ForSequenceClassification"));
    if (!there) return;
    const EncoderJson* labels = json_.find("id2label");
    classifier.labels = labels != nullptr && labels->is_object() ? static_cast<std::int64_t>(labels->size())
                                                                 : json_.integer("num_labels", 2);
    classifier.pooling = pooling_named(json_.text("classifier_pooling", name(classifier.pooling)));
    classifier.bias = json_.flag("classifier_bias", classifier.bias);
    if (const std::string activation = json_.text("classifier_activation", ""); !activation.empty())
      classifier.activation = read_activation(activation);
  }

  const data::JsonPart json_;
  const EncoderFamily& family_;
};

}  // namespace

void EncoderConfig::check() const {
  const auto refuse = [](const std::string& what) { throw FormatError("an encoder cannot be made: " + what); };
  struct Size {
    const char* name;
    std::int64_t value, most;
  };
  for (const Size& size : {Size{"vocabulary", vocabulary, 1 << 30},
                           {"context", context, 1 << 30},
                           {"width", width, 1 << 20},
                           {"embedding_width", embedding_width, 1 << 20},
                           {"layers", layers, 1 << 14},
                           {"heads", heads, 1 << 14},
                           {"head_size", head_size, 1 << 14},
                           {"feed_forward", feed_forward, 1 << 22}}) {
    if (size.value < 1 || size.value > size.most)
      refuse(fmt::format("{} is {}; it must be from 1 to {}", size.name, size.value, size.most));
  }
  for (const Size& size : {Size{"token_types", token_types, 1 << 20},
                           {"position_offset", position_offset, 1 << 20},
                           {"window", window, 1 << 30},
                           {"labels", classifier.labels, 1 << 24}}) {
    if (size.value < 0 || size.value > size.most)
      refuse(fmt::format("{} is {}; it must be from 0 to {}", size.name, size.value, size.most));
  }
  if (relative_buckets != 0 && (relative_buckets < 4 || relative_buckets > 256 || relative_buckets % 4 != 0))
    refuse(fmt::format("relative_buckets is {}; it must be a multiple of 4, from 4 to 256", relative_buckets));
  if (!(norm_eps >= 0 && norm_eps < 1))
    refuse(fmt::format("the norm's epsilon is {}; it must be from 0 to 1", norm_eps));
  if (!windowed.empty() && std::ssize(windowed) != layers)
    refuse(fmt::format("windowed has {} entries for {} layers", windowed.size(), layers));
  if (positions == PositionKind::rotary) {
    if (rope_size < 2 || rope_size % 2 != 0 || rope_size > head_size) {
      refuse(fmt::format("rope turns {} elements of heads of {}; it must be an even number, 2 or more, that fits",
                         rope_size, head_size));
    }
    for (const double base : {rope_base, window_rope_base > 0 ? window_rope_base : rope_base})
      if (!(base >= 1e-3 && base <= 1e30))
        refuse(fmt::format("rope's base is {}; it must be above 0, and from 0.001 to 1e30", base));
  }
  if (!(dropout >= 0 && dropout <= 1)) refuse(fmt::format("dropout is {}; it must be from 0 to 1", dropout));
}

EncoderConfig encoder_config(std::string_view text, const std::string& name) {
  const EncoderJson json = data::parse_json_object(text, name, "config");
  const data::JsonPart part(json, "config", name, kEncoderUse);
  const std::string type = part.text("model_type", "");
  const EncoderFamily* family = find_encoder_hugging_face(type);
  if (family == nullptr) {
    throw FormatError(fmt::format("{}: models of the type '{}' are no text encoders that run here; these do: {}", name,
                                  type, encoder_names()));
  }
  try {
    EncoderConfig config = EncoderReader(json, *family, name).read();
    config.check();
    return config;
  } catch (const FormatError& error) {
    const std::string what = error.what();
    throw FormatError(what.starts_with(name) ? what : fmt::format("{}: {}", name, what));
  }
}

}  // namespace etna::models
