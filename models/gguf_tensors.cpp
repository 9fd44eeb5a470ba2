#include <etna/models/internal/gguf_tensors.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/models/internal/decoder_parts.h>
#include <etna/models/internal/head_order.h>
#include <etna/models/internal/mtp_head.h>
#include <etna/models/internal/state_mixers.h>
#include <etna/models/internal/weight_names.h>
#include <etna/tensor/ops.h>

// The tensors of GGUF files: names, order and shapes.
namespace etna::models {
namespace {

/// @param as_is whether the matrix is written as it is if it has the format
const quant::BlockFormat& format_for(const quant::BlockFormat& own, const quant::BlockFormat* wanted,
                                     const Shape& shape, bool as_is) {
  const quant::BlockFormat& format = wanted == nullptr ? own : *wanted;
  const bool fits = io::gguf_can_hold(format, shape) && (as_is || format.can_quantize());
  return fits ? format : quant::format_named("F16");
}

/// Two matrices with the same heads, one below the other, as one whose heads have rows of both.
Tensor both_by_head(const Tensor& rows, std::int64_t heads) {
  return rows.reshape({2, heads, rows.size(0) / (2 * heads), -1}).transpose(0, 1).reshape(rows.shape());
}

/// Rows of heads that follow their group's first, all first ones in front. @param rows [groups · n · size, ...]
Tensor firsts_in_front(const Tensor& rows, std::int64_t groups, std::int64_t heads) {
  return rows.reshape({groups, heads / groups, rows.size(0) / heads, -1}).transpose(0, 1).reshape(rows.shape());
}

/// A factor of all rows; undefined for 1.
Tensor factor_of(double factor) { return factor == 1 ? Tensor() : full({1}, factor); }

}  // namespace

GgufTensors::GgufTensors(const Decoder& decoder, const DecoderConfig& config, const quant::BlockFormat* format)
    : decoder_(decoder), config_(config), architecture_(architecture_of(config)), format_(format) {
  const DecoderConfig& own = decoder.config;
  reorder_ = architecture_.neighbours_in_gguf && !own.rope.interleaved;
  const bool folds = architecture_.folds_factors;
  matrix("token_embedding", {&decoder.token_embedding}, {.factor = factor_of(folds ? own.embedding_scale : 1)});
  if (decoder.position_embedding) {
    // llama.cpp adds this table row by row and wants it whole.
    vector("position_embd.weight", decoder.position_embedding->blocks());
  }
  norm("norm", decoder.norm);
  const double of_logits = folds ? own.logit_scale : 1;
  const bool apart = folds && own.embedding_scale != own.logit_scale;
  const Projection* head = decoder.output ? decoder.output.get() : apart ? &decoder.token_embedding : nullptr;
  if (head != nullptr) {
    matrix("output", {head}, {.factor = factor_of(of_logits)});
    bias("output", {head});
  }
  few_parts();
  for (std::size_t i = 0; i < decoder.blocks.size(); ++i) block(static_cast<std::int64_t>(i), decoder.blocks[i]);
  if (next_layers() > 0) mtp(decoder.config.layers, *decoder.mtp);
  if (config.positions == PositionKind::rotary) divisors();
}

void GgufTensors::set_activations(io::GgufWriter& to) const {
  if (!config_.xielu) return;
  for (const auto& [key, value] : {std::pair{"xielu.alpha_p", &Xielu::alpha_p},
                                   {"xielu.alpha_n", &Xielu::alpha_n},
                                   {"xielu.beta", &Xielu::beta},
                                   {"xielu.eps", &Xielu::eps}}) {
    std::vector<float> each;
    for (const DecoderBlock& block : decoder_.blocks)
      each.push_back((block.ffn->xielu.get()->*value).detach().item<float>());
    to.set(key, each);
  }
}

void GgufTensors::declare(io::GgufWriter& to) const {
  for (const Part& part : parts_) to.add(part.name, *part.format, part.shape);
}

void GgufTensors::write(io::GgufWriter& to) const {
  for (const Part& part : parts_) part.write(to);
}

void GgufTensors::block(std::int64_t index, const DecoderBlock& b) {
  const std::string name = fmt::format("blocks.{}.", index), prefix = fmt::format("blk.{}.", index);
  if (b.attention) attention(name, index, *b.attention);
  if (b.delta) delta(name, *b.delta);
  if (b.mamba) mamba(name, *b.mamba);
  if (b.convolution) convolution(name, *b.convolution);
  for (const auto& [part, n] : {std::pair<const char*, const Norm*>{"attention_norm", b.attention_norm.get()},
                                {"attention_post_norm", b.attention_post_norm.get()},
                                {"ffn_norm", b.ffn_norm.get()},
                                {"ffn_post_norm", b.ffn_post_norm.get()}})
    if (n != nullptr) norm(name + part, *n);
  few_parts(name, b);
  if (b.ffn) feed_forward(name, prefix, *b.ffn);
}

void GgufTensors::mtp(std::int64_t index, const MtpHead& head) {
  block(index, head.block);
  const std::string name = fmt::format("blocks.{}.mtp.", index);
  matrix(name + "combine", {&head.combine});
  norm(name + "next_norm", head.next_norm);
  norm(name + "hidden_norm", head.hidden_norm);
  norm(name + "norm", head.norm);
}

void GgufTensors::feed_forward(const std::string& name, const std::string& prefix, const DecoderFeedForward& ffn) {
  if (ffn.sub_norm) norm(name + "ffn.sub_norm", *ffn.sub_norm);
  if (ffn.router) return experts(name, ffn);
  // llama.cpp reads these in one tensor only.
  const bool both = architecture_.packs_gate(), folds = architecture_.folds_factors;
  if (both) matrix(prefix + "ffn_up", {ffn.gate.get(), &ffn.up}, {.is_file_name = true});
  for (const auto& [part, layer, factor] :
       {std::tuple<const char*, const Projection*, double>{"ffn.gate", ffn.gate.get(), decoder_.config.gate_scale},
        {"ffn.up", &ffn.up, 1},
        {"ffn.down", &ffn.down, decoder_.config.down_scale}}) {
    if (layer == nullptr || (both && layer != &ffn.down)) continue;
    matrix(name + part, {layer}, {.factor = factor_of(folds ? factor : 1)});
    bias(name + part, {layer});
  }
}

void GgufTensors::attention(const std::string& name, std::int64_t index, const DecoderAttention& a) {
  const DecoderConfig& own = decoder_.config;
  const std::string prefix = fmt::format("blk.{}.", index);
  const bool folds = architecture_.folds_factors;
  const double input = folds ? own.attention_input_scale : 1;
  const double keys = folds ? own.score_scale() * std::sqrt(static_cast<double>(own.head_size)) : 1;
  if (a.latent) {
    latent(name, *a.latent);
  } else if (a.qkv || architecture_.packs_qkv()) {
    const std::vector<const Projection*> all =
        a.qkv ? std::vector<const Projection*>{a.qkv.get()}
              : std::vector<const Projection*>{a.query.get(), a.key.get(), a.value.get()};
    matrix(prefix + "attn_qkv", all, {.is_file_name = true});
    bias(prefix + "attn_qkv", all, true);
  } else {
    if (a.gate)
      matrix(prefix + "attn_q", {a.query.get(), a.gate.get()},
             {.is_file_name = true, .change = [heads = own.heads](const Tensor& x) { return both_by_head(x, heads); }});
    for (const auto& [part, layer, factor] :
         {std::tuple<const char*, const Projection*, double>{"query", a.gate ? nullptr : a.query.get(), input},
          {"key", a.key.get(), input * keys},
          {"value", a.value.get(), input}}) {
      if (layer == nullptr) continue;
      matrix(name + "attention." + part, {layer}, {.factor = factor_of(factor)});
      bias(name + "attention." + part, {layer});
    }
  }
  if (a.sinks.defined()) plain(gguf_name(config_, name + "attention.sinks"), a.sinks);
  matrix(name + "attention.output", {&a.output}, {.factor = factor_of(folds ? own.attention_output_scale : 1)});
  bias(name + "attention.output", {&a.output});
  for (const auto& [part, n] : {std::pair<const char*, const Norm*>{"query_norm", a.query_norm.get()},
                                {"key_norm", a.key_norm.get()},
                                {"sub_norm", a.sub_norm.get()}}) {
    if (n == nullptr) continue;
    if (own.layer_norms_heads && n != a.sub_norm.get())  // a row for each head
      plain(file_name(name + "attention." + part, ".weight"), n->weight.detach().reshape({-1, own.head_size}));
    else
      norm(name + "attention." + part, *n);
  }
  if (architecture_.keys_in_all_layers && own.layer(index).shares >= 0) unused_keys(name, index);
}

/// Keys that nothing reads, which llama.cpp wants nevertheless.
void GgufTensors::unused_keys(const std::string& name, std::int64_t index) {
  const DecoderConfig own = decoder_.config.of_layer(index);
  const auto add = [&](const char* part, const Shape& shape, const char* format) {
    const std::string to_name = file_name(name + "attention." + part, ".weight");
    parts_.push_back(
        {to_name, &quant::format_named(format), shape, [=](io::GgufWriter& to) { to.write(to_name, zeros(shape)); }});
  };
  add("key", {own.kv_rows(), own.width}, "F16");
  add("value", {own.kv_rows(), own.width}, "F16");
  add("key_norm", {own.head_size}, "F32");
}

/// llama.cpp has the matrices of keys and values apart, those of keys transposed, each with a dimension for heads.
void GgufTensors::latent(const std::string& name, const LatentProjections& l) {
  const std::string part = name + "attention.latent.";
  const LatentConfig& sizes = config_.latent;
  const std::int64_t heads = config_.heads, still = config_.head_size - config_.rope.size, values = sizes.value_size;
  if (l.query_down) {
    matrix(part + "query_down", {l.query_down.get()});
    norm(part + "query_norm", *l.query_norm);
  }
  matrix(part + "query", {&l.query});
  matrix(part + "down", {&l.down});
  norm(part + "norm", l.norm);
  const auto of_head = [=, size = sizes.size](const Tensor& rows, std::int64_t begin, std::int64_t end) {
    return rows.reshape({heads, still + values, size}).slice(1, begin, end);
  };
  std::string up = file_name(part + "up", "");
  up.resize(up.rfind("kv_b"));
  matrix(up + "k_b", {&l.up},
         {.is_file_name = true,
          .change = [=](const Tensor& rows) { return of_head(rows, 0, still).transpose(1, 2).contiguous(); },
          .shape = {heads, sizes.size, still}});
  matrix(up + "v_b", {&l.up},
         {.is_file_name = true,
          .change = [=](const Tensor& rows) { return of_head(rows, still, still + values).contiguous(); },
          .shape = {heads, values, sizes.size}});
}

/// Heads of values follow their keys' head here; in some architectures of llama.cpp, each head of keys has its first
/// one in front of all second ones.
void GgufTensors::delta(const std::string& name, const DeltaMixer& d) {
  const StateConfig& s = decoder_.config.state;
  const std::string prefix = "blk." + name.substr(std::string_view("blocks.").size());
  const std::int64_t keys = 2 * s.key_rows(), groups = s.key_heads, heads = s.heads;
  const bool turn = config_.state.tiled && !s.tiled && groups != heads;
  const Change values = [=](const Tensor& rows) { return turn ? firsts_in_front(rows, groups, heads) : rows; };
  const Change behind_keys = [=](const Tensor& rows) {
    return turn ? cat({rows.slice(0, 0, keys), values(rows.slice(0, keys, rows.size(0)).contiguous())}) : rows;
  };
  const Change columns = [=](const Tensor& rows) { return values(rows.t().contiguous()).t().contiguous(); };
  const auto if_turned = [turn](const Change& change) { return turn ? change : Change(); };
  const std::string part = name + "delta.";
  matrix(part + "qkv", {&d.qkv}, {.change = if_turned(behind_keys)});
  matrix(part + "gate", {&d.gate}, {.change = if_turned(values)});
  if (architecture_.states.joins_rates) {
    matrix(prefix + "ssm_ba", {&d.beta, &d.decay},
           {.is_file_name = true, .change = [=](const Tensor& rows) { return both_by_head(rows, groups); }});
  } else {
    matrix(part + "beta", {&d.beta}, {.change = if_turned(values)});
    matrix(part + "decay", {&d.decay}, {.change = if_turned(values)});
  }
  plain(file_name(part + "kernel", ".weight"), behind_keys(d.kernel.weight.detach().to(kCPU, f32)));
  const auto of_heads = [&](const Tensor& x) { return values(x.detach().to(kCPU, f32).unsqueeze(1)).squeeze(1); };
  plain(file_name(name + "delta", ".step_bias"), of_heads(d.step_bias));
  plain(file_name(name + "delta", ".log_decay"), -exp(of_heads(d.log_decay)));
  norm(part + "norm", d.norm);
  matrix(part + "output", {&d.output}, {.change = if_turned(columns)});
}

/// llama.cpp has a dimension of 1 in front of what a head has one number of.
void GgufTensors::mamba(const std::string& name, const MambaMixer& m) {
  const StateConfig& s = decoder_.config.state;
  matrix(name + "mamba.input", {&m.input}, {.factor = architecture_.folds_factors ? m.row_factors() : Tensor()});
  plain(file_name(name + "mamba.kernel", ".weight"), m.kernel.weight);
  if (m.kernel.bias.defined()) plain(file_name(name + "mamba.kernel", ".bias"), m.kernel.bias);
  plain(file_name(name + "mamba", ".step_bias"), m.step_bias);
  plain(file_name(name + "mamba", ".log_decay"), -exp(m.log_decay.detach().to(kCPU, f32)).unsqueeze(1));
  plain(file_name(name + "mamba", ".skip"), m.skip.detach().unsqueeze(1));
  if (m.norm) plain(file_name(name + "mamba.norm", ".weight"), m.norm->weight.detach().reshape({s.key_heads, -1}));
  matrix(name + "mamba.output", {&m.output}, {.factor = factor_of(architecture_.folds_factors ? s.output_scale : 1)});
}

void GgufTensors::convolution(const std::string& name, const ConvolutionMixer& c) {
  matrix(name + "convolution.input", {&c.input});
  plain(file_name(name + "convolution.kernel", ".weight"), c.kernel.weight);
  matrix(name + "convolution.output", {&c.output});
}

void GgufTensors::experts(const std::string& name, const DecoderFeedForward& ffn) {
  const std::int64_t count = ffn.router->logits.out;
  vector(file_name(name + "ffn.router.logits", ".weight"), ffn.router->logits.blocks());
  bias(name + "ffn.router.logits", {&ffn.router->logits});
  if (ffn.router->choice_bias.defined()) plain(file_name(name + "ffn.router", ".choice_bias"), ffn.router->choice_bias);
  for (const auto& [part, layer] : {std::pair<const char*, const Projection*>{"ffn.gate", ffn.gate.get()},
                                    {"ffn.up", &ffn.up},
                                    {"ffn.down", &ffn.down}}) {
    if (layer == nullptr) continue;
    matrix(name + part, {layer}, {.experts = count});
    if (layer->bias.defined()) plain(file_name(name + part, ".bias"), layer->bias.reshape({count, layer->out / count}));
  }
  if (ffn.latent_down) matrix(name + "ffn.latent_down", {ffn.latent_down.get()});
  if (ffn.latent_up) matrix(name + "ffn.latent_up", {ffn.latent_up.get()});
  if (!ffn.shared) return;
  for (const auto& [part, layer] : {std::pair<const char*, const Projection*>{"gate", ffn.shared->gate.get()},
                                    {"up", &ffn.shared->up},
                                    {"down", &ffn.shared->down}})
    if (layer != nullptr) matrix(name + "ffn.shared." + part, {layer});
  if (!ffn.shared_gate) return;
  const std::string gate = file_name(name + "ffn.shared_gate", ".weight");
  plain(gate, dequantize(ffn.shared_gate->blocks().to(kCPU)).squeeze(0));
}

/// Inputs of blocks by token, and several streams.
void GgufTensors::few_parts() {
  if (const LayerInputs* inputs = decoder_.layer_inputs.get()) {
    const std::int64_t rows = inputs->table.out < config_.vocabulary ? config_.vocabulary : inputs->table.out;
    // Tokens without a row have the first one's.
    matrix("layer_inputs.table", {&inputs->table},
           {.change = rows == inputs->table.out ? Change() : [rows](const Tensor& table) {
              const Tensor first = table.slice(0, 0, 1);
              return cat({table, first.expand({rows - table.size(0), table.size(1)})});
            },
            .shape = {rows, inputs->table.in}});
    matrix("layer_inputs.projection", {&inputs->projection});
    norm("layer_inputs.norm", inputs->norm);
  }
  if (!decoder_.streams) return;
  const std::int64_t width = config_.width, others = config_.streams.count - 1;
  for (const auto& [to_name, list] :
       {std::pair{"altup_proj", &decoder_.streams->starts}, std::pair{"altup_unembd_proj", &decoder_.streams->ends}}) {
    std::vector<const Projection*> all;
    for (const Projection& one : *list) all.push_back(&one);
    matrix(to_name, all, {.is_file_name = true, .shape = {others, width, width}});
  }
}

/// Of a block.
void GgufTensors::few_parts(const std::string& name, const DecoderBlock& b) {
  if (b.input) {
    matrix(name + "input.gate", {&b.input->gate});
    matrix(name + "input.projection", {&b.input->projection});
    norm(name + "input.norm", b.input->norm);
  }
  if (b.scale.defined()) plain(file_name(name, "scale"), b.scale);
  if (b.laurel) {
    matrix(name + "laurel.left", {&b.laurel->left});
    matrix(name + "laurel.right", {&b.laurel->right});
    norm(name + "laurel.norm", b.laurel->norm);
  }
  if (b.mixer) {
    const std::int64_t n = config_.streams.count;
    const double limit = decoder_.config.streams.coefficient_limit;
    const auto limited = [&](const Tensor& x) {
      const Tensor values = x.detach().to(kCPU, f32);
      return limit > 0 ? clamp(values, -limit, limit) : values;
    };
    matrix(name + "mixer.router", {&b.mixer->router});
    norm(name + "mixer.router_norm", b.mixer->router_norm);
    plain(file_name(name + "mixer", ".prediction"), limited(b.mixer->prediction).reshape({n * n, n}));
    plain(file_name(name + "mixer", ".correction"), limited(b.mixer->correction).reshape({n, n}));
    const Tensor& scale = b.mixer->scale;
    plain(file_name(name + "mixer", ".scale"), config_.streams.scales_active ? scale : ones_like(scale));
  }
  if (!b.beside) return;
  experts(name + "beside.", b.beside->ffn);
  for (const auto& [part, n] : {std::pair<const char*, const Norm*>{"beside.dense_norm", &b.beside->dense_norm},
                                {"beside.norm", &b.beside->norm},
                                {"beside.post_norm", &b.beside->post_norm}})
    norm(name + part, *n);
  plain(file_name(name + "beside", ".router_scale"), b.beside->router_scale);
  plain(file_name(name + "beside", ".factors"), b.beside->factors);
}

std::string GgufTensors::file_name(const std::string& name, const char* kind, bool is_file_name) const {
  return is_file_name ? name + kind : gguf_name(config_, name + kind);
}

/// Brings queries and keys to the order of the file.
GgufTensors::Change GgufTensors::turn_of(const std::string& name) const {
  if (!reorder_ || !(name.ends_with(".query") || name.ends_with(".key"))) return {};
  return [head = config_.head_size, turned = config_.rope.size](const Tensor& rows) {
    return with_neighbours(rows, head, turned);
  };
}

void GgufTensors::matrix(const std::string& name, const std::vector<const Projection*>& layers,
                         const MatrixOptions& options) {
  for (const Projection* layer : layers)
    if (layer->has_adapter()) throw FormatError("a decoder with adapters cannot be written; merge them first");
  std::int64_t rows = 0;
  for (const Projection* layer : layers) rows += layer->out;
  const std::int64_t columns = layers[0]->in, experts = options.experts;
  Shape shape = experts > 0 ? Shape{experts, rows / experts, columns} : Shape{rows, columns};
  if (options.shape.rank() > 0) shape = options.shape;
  const QuantizedTensor first = layers[0]->blocks();
  const bool keeps = options.factor.defined() && format_ == nullptr && first.format().elements == 1;
  const Change turn = turn_of(name);
  const bool as_is = layers.size() == 1 && !turn && !options.change && !options.factor.defined();
  const quant::BlockFormat& format =
      keeps ? quant::format_named("F32") : format_for(first.format(), format_, shape, as_is);
  const std::string to_name = file_name(name, ".weight", options.is_file_name);
  parts_.push_back(
      {to_name, &format, shape, [=, &format, change = options.change, factor = options.factor](io::GgufWriter& to) {
         std::vector<Tensor> all;
         for (const Projection* layer : layers) {
           const QuantizedTensor blocks = layer->blocks().to(kCPU);
           if (as_is && &blocks.format() == &format) {
             const Tensor& bytes = blocks.blocks();
             to.write(to_name, {reinterpret_cast<const std::byte*>(bytes.data<std::uint8_t>()),
                                static_cast<std::size_t>(bytes.numel())});
             return;
           }
           const Tensor values = dequantize(blocks);
           all.push_back(turn ? turn(values) : values);
         }
         Tensor values = all.size() == 1 ? all[0] : cat(all);
         if (factor.defined()) values = values * factor;
         if (change) values = change(values);
         to.write(to_name, values.reshape(shape).contiguous());
       }});
}

void GgufTensors::vector(const std::string& name, const QuantizedTensor& table) {
  parts_.push_back({name, &quant::format_named("F32"), table.shape(),
                    [=](io::GgufWriter& to) { to.write(name, dequantize(table.to(kCPU))); }});
}

void GgufTensors::plain(const std::string& name, const Tensor& values) {
  parts_.push_back({name, &quant::format_named("F32"), values.shape(),
                    [=](io::GgufWriter& to) { to.write(name, values.detach().to(kCPU, f32)); }});
}

void GgufTensors::bias(const std::string& name, const std::vector<const Projection*>& layers, bool is_file_name) {
  std::vector<Tensor> all;
  const Change turn = turn_of(name);
  for (const Projection* layer : layers) {
    if (!layer->bias.defined()) return;
    const Tensor values = layer->bias.detach().to(kCPU, f32);
    all.push_back(turn ? turn(values.unsqueeze(1)).squeeze(1) : values);
  }
  plain(file_name(name, ".bias", is_file_name), all.size() == 1 ? all[0] : cat(all));
}

void GgufTensors::norm(const std::string& name, const Norm& norm) {
  plain(file_name(name, ".weight"), norm.weight);
  if (norm.bias.defined()) plain(file_name(name, ".bias"), norm.bias);
}

void GgufTensors::divisors() {
  const RopeConfig& rope = config_.rope;
  const auto list = [&](const char* name, const std::vector<float>& values) {
    if (!values.empty()) plain(name, from_vector(values));
  };
  if (rope.scaling == RopeScaling::longrope) {
    list("rope_factors_short.weight", rope.short_divisors);
    list("rope_factors_long.weight", rope.long_divisors);
    return;
  }
  if (rope.scaling != RopeScaling::llama3) return list("rope_freqs.weight", rope.divisors);
  DecoderConfig everywhere = config_;
  everywhere.window_rope_base = 0;
  std::vector<float> divisors = everywhere.rope_frequencies(0);
  for (std::size_t i = 0; i < divisors.size(); ++i) {
    const double plain = std::pow(rope.base, -2.0 * static_cast<double>(i) / static_cast<double>(rope.size));
    divisors[i] = static_cast<float>(plain / static_cast<double>(divisors[i]));
  }
  list("rope_freqs.weight", divisors);
}

}  // namespace etna::models
