#pragma once

#include <optional>

#include <etna/nn/containers.h>
#include <etna/nn/dropout.h>
#include <etna/nn/multihead_attention.h>
#include <etna/nn/normalization.h>
#include <etna/tensor/ops.h>

/// The encoder and decoder of Vaswani et al. (2017) with PyTorch's parameter names, so that its state_dict loads
/// unchanged. Language models are models::Decoder.
namespace etna::nn {

struct TransformerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  Activation activation = Activation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  ///< norms before the sublayers instead of after the sums (Xiong et al. 2020)
};

/// Masks of an encoder or of a decoder's own positions; as in MultiheadMasks.
struct SequenceMasks {
  Tensor mask = {};              ///< [L, L] or [N · heads, L, L]
  Tensor key_padding_mask = {};  ///< [N, L]
  bool is_causal = false;
};

/// Self-attention and a feed-forward network, each with a residual connection and a norm (Vaswani et al. 2017).
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, TransformerOptions options = {});
  /// @param src [L, N, d_model], [N, L, d_model] with batch_first, or [L, d_model] @return of src's shape
  Tensor forward(const Tensor& src, const SequenceMasks& masks = {}) const;
  Tensor operator()(const Tensor& src, const SequenceMasks& masks = {}) const;

  const TransformerOptions options;
  MultiheadAttention self_attn;
  Linear linear1, linear2;
  Dropout dropout, dropout1, dropout2;
  LayerNorm norm1, norm2;

 protected:
  std::unique_ptr<Module> another() const override;

 private:
  Tensor attend(const Tensor& x, const SequenceMasks& masks) const;
  Tensor feed(const Tensor& x) const;
};

/// Self-attention, attention to the encoder's output and a feed-forward network (Vaswani et al. 2017).
class TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, TransformerOptions options = {});
  /// @param tgt as src of the encoder @param memory the encoder's output
  /// @param memory_masks mask [T, L], key_padding_mask [N, L]
  Tensor forward(const Tensor& tgt, const Tensor& memory, const SequenceMasks& masks = {},
                 const SequenceMasks& memory_masks = {}) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const SequenceMasks& masks = {},
                    const SequenceMasks& memory_masks = {}) const;

  const TransformerOptions options;
  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  Dropout dropout, dropout1, dropout2, dropout3;
  LayerNorm norm1, norm2, norm3;

 protected:
  std::unique_ptr<Module> another() const override;

 private:
  Tensor attend(const Tensor& x, const SequenceMasks& masks) const;
  Tensor cross(const Tensor& x, const Tensor& memory, const SequenceMasks& masks) const;
  Tensor feed(const Tensor& x) const;
};

/// Layers "layers.0" ..., and, if wanted, a last norm, "norm". PyTorch copies one layer; here each starts on its own.
class TransformerEncoder : public Module {
 public:
  TransformerEncoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers, TransformerOptions options = {},
                     bool norm = false);
  Tensor forward(const Tensor& src, const SequenceMasks& masks = {}) const;
  Tensor operator()(const Tensor& src, const SequenceMasks& masks = {}) const;

  ModuleList<TransformerEncoderLayer> layers;
  Owned<LayerNorm> norm;  ///< null: none

 protected:
  std::unique_ptr<Module> another() const override;
};

/// As TransformerEncoder, of decoder layers.
class TransformerDecoder : public Module {
 public:
  TransformerDecoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers, TransformerOptions options = {},
                     bool norm = false);
  Tensor forward(const Tensor& tgt, const Tensor& memory, const SequenceMasks& masks = {},
                 const SequenceMasks& memory_masks = {}) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const SequenceMasks& masks = {},
                    const SequenceMasks& memory_masks = {}) const;

  ModuleList<TransformerDecoderLayer> layers;
  Owned<LayerNorm> norm;  ///< null: none

 protected:
  std::unique_ptr<Module> another() const override;
};

/// Both, each with a last norm. Matrices start xavier uniform.
class Transformer : public Module {
 public:
  Transformer(std::int64_t d_model = 512, std::int64_t nhead = 8, std::int64_t num_encoder_layers = 6,
              std::int64_t num_decoder_layers = 6, TransformerOptions options = {});
  Tensor forward(const Tensor& src, const Tensor& tgt, const SequenceMasks& src_masks = {},
                 const SequenceMasks& tgt_masks = {}, const SequenceMasks& memory_masks = {}) const;
  Tensor operator()(const Tensor& src, const Tensor& tgt, const SequenceMasks& src_masks = {},
                    const SequenceMasks& tgt_masks = {}, const SequenceMasks& memory_masks = {}) const;
  /// [size, size]: 0 on and below the diagonal, -inf above.
  static Tensor generate_square_subsequent_mask(std::int64_t size, TensorOptions options = {});

  TransformerEncoder encoder;
  TransformerDecoder decoder;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
