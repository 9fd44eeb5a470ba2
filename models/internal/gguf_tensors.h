#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/models/decoder.h>
#include <etna/models/internal/architecture.h>
#include <etna/tensor/io/gguf.h>

namespace etna::models {

class ConvolutionMixer;
class DeltaMixer;
class MambaMixer;

/// Checks, without writing, that save_gguf_model() can write a decoder's design and its vocabulary.
/// @throws FormatError as save_gguf_model()
void check_gguf_model(const Decoder& decoder, const data::Tokenizer* tokenizer);

/// The tensors of a GGUF file of a decoder: their names, order and shapes there. Internal.
class GgufTensors {
 public:
  /// @param decoder must outlive this @param config the decoder's, by the architecture's name in the file
  /// @param format of matrices; null: their own @throws FormatError for a decoder with adapters
  GgufTensors(const Decoder& decoder, const DecoderConfig& config, const quant::BlockFormat* format);

  /// The parameters of xIELU, which llama.cpp reads from the metadata.
  void set_activations(io::GgufWriter& to) const;
  void declare(io::GgufWriter& to) const;
  void write(io::GgufWriter& to) const;
  /// Layers behind the others, of a head for further tokens.
  std::int64_t next_layers() const { return decoder_.mtp && architecture_.next_in_gguf ? 1 : 0; }

 private:
  /// A tensor of the file: its rows in order, from one or several layers.
  struct Part {
    std::string name;
    const quant::BlockFormat* format = nullptr;
    Shape shape;
    std::function<void(io::GgufWriter& to)> write;
  };
  /// Of decoded rows.
  using Change = std::function<Tensor(const Tensor& rows)>;
  struct MatrixOptions {
    bool is_file_name = false;  ///< the name is that of the file, without its kind
    std::int64_t experts = 0;   ///< whose matrices are one below the other; llama.cpp has a dimension for them
    Change change = {};         ///< empty: there is none
    Tensor factor = {};         ///< of all values, [1], or of each row, [rows, 1]; undefined: 1
    Shape shape = {};           ///< in the file; empty: rows and columns, of each expert
  };

  void block(std::int64_t index, const DecoderBlock& b);
  void mtp(std::int64_t index, const MtpHead& head);
  void attention(const std::string& name, std::int64_t index, const DecoderAttention& a);
  void latent(const std::string& name, const LatentProjections& l);
  void unused_keys(const std::string& name, std::int64_t index);
  void delta(const std::string& name, const DeltaMixer& d);
  void mamba(const std::string& name, const MambaMixer& m);
  void convolution(const std::string& name, const ConvolutionMixer& c);
  void feed_forward(const std::string& name, const std::string& prefix, const DecoderFeedForward& ffn);
  void experts(const std::string& name, const DecoderFeedForward& ffn);
  void few_parts();
  void few_parts(const std::string& name, const DecoderBlock& b);
  void divisors();

  std::string file_name(const std::string& name, const char* kind, bool is_file_name = false) const;
  /// Rows of several layers, one below the other.
  void matrix(const std::string& name, const std::vector<const Projection*>& layers, const MatrixOptions& options);
  void matrix(const std::string& name, const std::vector<const Projection*>& layers) { matrix(name, layers, {}); }
  void vector(const std::string& name, const QuantizedTensor& table);
  void plain(const std::string& name, const Tensor& values);
  void bias(const std::string& name, const std::vector<const Projection*>& layers, bool is_file_name = false);
  void norm(const std::string& name, const Norm& norm);
  Change turn_of(const std::string& name) const;

  const Decoder& decoder_;
  const DecoderConfig& config_;
  const Architecture& architecture_;
  const quant::BlockFormat* format_;
  bool reorder_ = false;
  std::vector<Part> parts_;
};

}  // namespace etna::models
