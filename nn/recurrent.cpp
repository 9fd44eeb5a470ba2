#include <etna/nn/recurrent.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/nn/dropout.h>
#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

RecurrentMode mode_of(Nonlinearity nonlinearity) {
  return nonlinearity == Nonlinearity::relu ? RecurrentMode::rnn_relu : RecurrentMode::rnn_tanh;
}
Nonlinearity nonlinearity_of(RecurrentMode mode) {
  return mode == RecurrentMode::rnn_relu ? Nonlinearity::relu : Nonlinearity::tanh;
}

/// @param p size of the h that a step reads, hidden_size but for a projection
RecurrentWeights initial_weights(RecurrentMode mode, std::int64_t in, std::int64_t hidden, std::int64_t p, bool bias) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const std::int64_t width = checked_product(gates_of(mode), hidden, "hidden_size");
  const auto draw = [bound](Shape shape) { return init::uniform_(empty(shape), -bound, bound); };
  RecurrentWeights w;
  w.weight_ih = draw({width, in}), w.weight_hh = draw({width, p});
  if (bias) w.bias_ih = draw({width}), w.bias_hh = draw({width});
  if (p != hidden) w.weight_hr = draw({p, hidden});
  return w;
}

TensorList list_of(const Tensor& output, const RecurrentState& state) { return {output, state.h, state.c}; }

}  // namespace

RecurrentModule::RecurrentModule(const char* name, RecurrentMode mode, std::int64_t input_size,
                                 std::int64_t hidden_size, RecurrentOptions options)
    : mode(mode),
      input_size(checked_size(name, "input_size", input_size, 1)),
      hidden_size(checked_size(name, "hidden_size", hidden_size, 1)),
      options(options),
      name_(name) {
  checked_size(name, "num_layers", options.num_layers, 1);
  checked_probability(name, options.dropout);
  if (options.proj_size != 0 &&
      (mode != RecurrentMode::lstm || options.proj_size < 0 || options.proj_size >= hidden_size)) {
    throw ShapeError(fmt::format("{}: proj_size {}; wanted 0, or for LSTM a size below hidden_size {}", name,
                                 options.proj_size, hidden_size));
  }
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    const std::int64_t in = layer == 0 ? input_size : checked_product(output_size(), directions(), name);
    for (std::int64_t direction = 0; direction < directions(); ++direction)
      weights_.push_back(initial_weights(mode, in, hidden_size, output_size(), options.bias));
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const std::string suffix = fmt::format("_l{}{}", static_cast<std::int64_t>(i) / directions(),
                                           static_cast<std::int64_t>(i) % directions() == 1 ? "_reverse" : "");
    RecurrentWeights& w = weights_[i];
    register_parameter("weight_ih" + suffix, w.weight_ih, Place::heap);
    register_parameter("weight_hh" + suffix, w.weight_hh, Place::heap);
    register_parameter("bias_ih" + suffix, w.bias_ih, Place::heap);
    register_parameter("bias_hh" + suffix, w.bias_hh, Place::heap);
    register_parameter("weight_hr" + suffix, w.weight_hr, Place::heap);
  }
}

const RecurrentWeights& RecurrentModule::weights(std::int64_t layer, std::int64_t direction) const {
  if (layer < 0 || layer >= options.num_layers || direction < 0 || direction >= directions())
    throw Error(fmt::format("{}: there is no layer {} in direction {}", name_, layer, direction));
  return weights_[static_cast<std::size_t>(layer * directions() + direction)];
}

void RecurrentModule::check(const Tensor& x, const RecurrentState& state, std::int64_t batch) const {
  if (x.size(-1) != input_size) {
    throw ShapeError(
        fmt::format("{}: x is {}; its last size must be input_size {}", name_, str(x.shape()), input_size));
  }
  const std::int64_t count = options.num_layers * directions();
  const auto wanted = [&](const char* what, const Tensor& s, std::int64_t size) {
    if (s.defined() && s.shape() != Shape{count, batch, size}) {
      throw ShapeError(fmt::format("{}: the state {} is {}; wanted {}", name_, what, str(s.shape()),
                                   str(Shape{count, batch, size})));
    }
  };
  wanted("h", state.h, output_size());
  wanted("c", state.c, hidden_size);
  if (mode == RecurrentMode::lstm ? state.h.defined() != state.c.defined() : state.c.defined()) {
    throw Error(fmt::format(
        "{}: {}", name_,
        mode == RecurrentMode::lstm ? "the state must have both h and c, or neither" : "only an LSTM has a state c"));
  }
}

RecurrentOutput RecurrentModule::run(const Tensor& x, const RecurrentState& state, const Tensor& lengths) const {
  check(x, state, x.size(1));
  Tensor y = x;
  TensorList h, c;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    TensorList outputs;
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      const std::int64_t i = layer * directions() + direction;
      const RecurrentState from = {state.h.defined() ? state.h.select(0, i) : Tensor(),
                                   state.c.defined() ? state.c.select(0, i) : Tensor()};
      const RecurrentLayer made =
          recurrent_layer(y, from, weights_[static_cast<std::size_t>(i)], mode, direction == 1, lengths);
      outputs.push_back(made.output), h.push_back(made.state.h), c.push_back(made.state.c);
    }
    y = outputs.size() == 1 ? outputs[0] : cat(outputs, 2);
    if (layer + 1 < options.num_layers && options.dropout > 0 && training()) y = dropout(y, options.dropout);
  }
  return {y, {stack(h), mode == RecurrentMode::lstm ? stack(c) : Tensor()}};
}

RecurrentOutput RecurrentModule::forward(const Tensor& x, const RecurrentState& state) const {
  if (x.defined() && x.dim() == 2) {
    const auto batched = [](const Tensor& s) { return s.defined() && s.dim() == 2 ? s.unsqueeze(1) : s; };
    RecurrentOutput y = run(x.unsqueeze(1), {batched(state.h), batched(state.c)}, {});
    y.output = y.output.squeeze(1), y.state.h = y.state.h.squeeze(1);
    if (y.state.c.defined()) y.state.c = y.state.c.squeeze(1);
    return y;
  }
  return forward(x, state, {});
}

RecurrentOutput RecurrentModule::forward(const Tensor& x, const RecurrentState& state, const Tensor& lengths) const {
  if (!x.defined() || x.dim() != 3) {
    throw ShapeError(fmt::format("{}: x is {}; wanted [T, B, {}]{}", name_, x.defined() ? str(x.shape()) : "undefined",
                                 input_size, lengths.defined() ? "" : fmt::format(", or [T, {}]", input_size)));
  }
  if (!options.batch_first) return run(x, state, lengths);
  RecurrentOutput y = run(x.transpose(0, 1), state, lengths);
  y.output = y.output.transpose(0, 1);
  return y;
}

RecurrentOutput RecurrentModule::operator()(const Tensor& x, const RecurrentState& state) const {
  if (!hooked()) return forward(x, state);
  const TensorList out = call_hooked({x, state.h, state.c}, [this](const TensorList& in) {
    const RecurrentOutput y = forward(in[0], {in[1], in[2]});
    return list_of(y.output, y.state);
  });
  return {out[0], {out[1], out[2]}};
}

PackedOutput RecurrentModule::forward(const PackedSequence& x, const RecurrentState& state) const {
  if (!x.data.defined() || x.data.dim() != 2) {
    throw ShapeError(fmt::format("{}: the packed data is {}; wanted [sum of lengths, {}]", name_,
                                 x.data.defined() ? str(x.data.shape()) : "undefined", input_size));
  }
  // Inside, the batch stays in packed order, which all of data, lengths and state share.
  PackedSequence sorted = x;
  sorted.sorted_indices.clear();
  const Device device = x.data.device();
  const auto ordered = [&](const Tensor& s, const std::vector<std::int64_t>& order) {
    return s.defined() && !order.empty() ? index_select(s, 1, from_vector(order, device)) : s;
  };
  std::vector<std::int64_t> back(x.sorted_indices.size());
  for (std::size_t i = 0; i < back.size(); ++i)
    back[static_cast<std::size_t>(x.sorted_indices[i])] = static_cast<std::int64_t>(i);
  check(x.data, state, x.batch());
  const std::vector<std::int64_t> lengths = sorted.sorted_lengths();
  const bool equal = lengths.front() == lengths.back();
  RecurrentOutput y =
      run(pad_packed_sequence(sorted).data, {ordered(state.h, x.sorted_indices), ordered(state.c, x.sorted_indices)},
          equal ? Tensor() : from_vector(lengths, device));
  PackedOutput out;
  out.output = pack_padded_sequence(y.output, lengths);
  out.output.sorted_indices = x.sorted_indices;
  out.state = {ordered(y.state.h, back), ordered(y.state.c, back)};
  return out;
}

std::string RecurrentModule::extra_repr() const {
  std::string text = fmt::format("{}, {}", input_size, hidden_size);
  if (options.proj_size > 0) text += fmt::format(", proj_size={}", options.proj_size);
  if (options.num_layers != 1) text += fmt::format(", num_layers={}", options.num_layers);
  if (!options.bias) text += ", bias=False";
  if (options.batch_first) text += ", batch_first=True";
  if (options.dropout > 0) text += fmt::format(", dropout={}", options.dropout);
  if (options.bidirectional) text += ", bidirectional=True";
  return text;
}

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options, Nonlinearity nonlinearity)
    : RecurrentModule("RNN", mode_of(nonlinearity), input_size, hidden_size, options) {}
LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options)
    : RecurrentModule("LSTM", RecurrentMode::lstm, input_size, hidden_size, options) {}
GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options)
    : RecurrentModule("GRU", RecurrentMode::gru, input_size, hidden_size, options) {}

std::unique_ptr<Module> RNN::another() const {
  return std::make_unique<RNN>(input_size, hidden_size, options, nonlinearity_of(mode));
}
std::unique_ptr<Module> LSTM::another() const { return std::make_unique<LSTM>(input_size, hidden_size, options); }
std::unique_ptr<Module> GRU::another() const { return std::make_unique<GRU>(input_size, hidden_size, options); }

RecurrentCell::RecurrentCell(const char* name, RecurrentMode mode, std::int64_t input_size, std::int64_t hidden_size,
                             bool bias)
    : mode(mode),
      input_size(checked_size(name, "input_size", input_size, 1)),
      hidden_size(checked_size(name, "hidden_size", hidden_size, 1)) {
  weights = initial_weights(mode, input_size, hidden_size, hidden_size, bias);
  register_parameter("weight_ih", weights.weight_ih, Place::member);
  register_parameter("weight_hh", weights.weight_hh, Place::member);
  register_parameter("bias_ih", weights.bias_ih, Place::member);
  register_parameter("bias_hh", weights.bias_hh, Place::member);
}

std::string RecurrentCell::extra_repr() const {
  std::string text = fmt::format("{}, {}", input_size, hidden_size);
  if (!weights.bias_ih.defined()) text += ", bias=False";
  if (mode == RecurrentMode::rnn_relu) text += ", nonlinearity=relu";
  return text;
}

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, bool bias, Nonlinearity nonlinearity)
    : RecurrentCell("RNNCell", mode_of(nonlinearity), input_size, hidden_size, bias) {}
Tensor RNNCell::forward(const Tensor& x, const Tensor& h) const {
  return mode == RecurrentMode::rnn_relu ? rnn_relu_cell(x, h, weights) : rnn_tanh_cell(x, h, weights);
}
Tensor RNNCell::operator()(const Tensor& x, const Tensor& h) const {
  if (!hooked()) return forward(x, h);
  return call_hooked({x, h}, [this](const TensorList& in) { return TensorList{forward(in[0], in[1])}; })[0];
}
std::unique_ptr<Module> RNNCell::another() const {
  return std::make_unique<RNNCell>(input_size, hidden_size, weights.bias_ih.defined(), nonlinearity_of(mode));
}

LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size, bool bias)
    : RecurrentCell("LSTMCell", RecurrentMode::lstm, input_size, hidden_size, bias) {}
RecurrentState LSTMCell::forward(const Tensor& x, const RecurrentState& state) const {
  return lstm_cell(x, state, weights);
}
RecurrentState LSTMCell::operator()(const Tensor& x, const RecurrentState& state) const {
  if (!hooked()) return forward(x, state);
  const TensorList out = call_hooked({x, state.h, state.c}, [this](const TensorList& in) {
    const RecurrentState y = forward(in[0], {in[1], in[2]});
    return TensorList{y.h, y.c};
  });
  return {out[0], out[1]};
}
std::unique_ptr<Module> LSTMCell::another() const {
  return std::make_unique<LSTMCell>(input_size, hidden_size, weights.bias_ih.defined());
}

GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size, bool bias)
    : RecurrentCell("GRUCell", RecurrentMode::gru, input_size, hidden_size, bias) {}
Tensor GRUCell::forward(const Tensor& x, const Tensor& h) const { return gru_cell(x, h, weights); }
Tensor GRUCell::operator()(const Tensor& x, const Tensor& h) const {
  if (!hooked()) return forward(x, h);
  return call_hooked({x, h}, [this](const TensorList& in) { return TensorList{forward(in[0], in[1])}; })[0];
}
std::unique_ptr<Module> GRUCell::another() const {
  return std::make_unique<GRUCell>(input_size, hidden_size, weights.bias_ih.defined());
}

}  // namespace etna::nn
