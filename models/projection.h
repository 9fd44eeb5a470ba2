#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <etna/models/decoder_config.h>
#include <etna/nn/module.h>
#include <etna/tensor/quant/quantized_tensor.h>

namespace etna::models {

/// A matrix of a model: values that may be trained, or blocks that stay as they are. One of the two is defined.
struct Matrix {
  Tensor dense;
  QuantizedTensor blocks;
};

/// Where a decoder gets its weights from when it is made. Names are those of the decoder's parameters:
/// "blocks.0.attention.query.weight".
class Weights {
 public:
  virtual ~Weights() = default;
  /// @return [rows, columns] @throws FormatError if there is none, or of another shape
  virtual Matrix matrix(const std::string& name, std::int64_t rows, std::int64_t columns) = 0;
  /// The weight or bias of a norm, or the bias of a projection. @return [size], floating
  virtual Tensor vector(const std::string& name, std::int64_t size) = 0;
};

/// Weights of a model that is to be trained from nothing: matrices normal with standard deviation 0.02, those that
/// write to the residual stream perhaps less (DecoderConfig::scaled_start); norms 1, biases 0.
class FreshWeights : public Weights {
 public:
  explicit FreshWeights(const DecoderConfig& config);
  Matrix matrix(const std::string& name, std::int64_t rows, std::int64_t columns) override;
  Tensor vector(const std::string& name, std::int64_t size) override;

 private:
  double residual_divisor_;
};

/// Which ranks of their stacks of adapters the rows of a step keep. Most stacks of a model are of the same ranks: each
/// mask is made once, and is there for all projections of the step.
class AdapterMasks {
 public:
  /// @param adapters [B] i32, the same in all calls @param owners the adapter of each rank, which must outlive this
  /// @param owners_there the same on the device @param dim of the rows
  /// @return [B, 1, ..., ranks], true where a row's adapter owns the rank
  Tensor of(const Tensor& adapters, const std::vector<std::int32_t>& owners, const Tensor& owners_there,
            std::int64_t dim);

 private:
  struct Known {
    const std::vector<std::int32_t>* owners;
    std::int64_t dim;
    Tensor mask;
  };
  std::vector<Known> known_;
};

/// How projections run.
struct ProjectionMode {
  /// For few rows, without gradients: a dense weight takes part as one in a plain format, whose products are fused as
  /// those of blocks are.
  bool generates = false;
  /// [B] i32, for x [B, ..., in]: which of the stacked adapters each x[b] passes; -1: none. Undefined: none does.
  Tensor adapters = {};
  AdapterMasks* masks = nullptr;  ///< of the step; null: each projection makes its own
};

/// Low-rank adapters to train.
struct AdapterOptions {
  std::int64_t rank = 8;
  double alpha = 16;        ///< factor · rank
  double dropout = 0;       ///< of the adapters' input, while training
  bool magnitudes = false;  ///< DoRA (Liu et al. 2024): each row's norm is trained apart from its direction
  /// Which projections of a decoder get one: "attention" (all of attention), "experts" (all matrices of experts, each
  /// with its own adapter), "all", or names of layers, as the decoder ("attention.query", "query") or the files of
  /// Hugging Face ("q_proj") have them.
  std::vector<std::string> targets = {"attention"};
};

/// What adapters add to a layer: x·Aᵀ·Bᵀ · scale, of whose ranks a row may keep some.
struct LowRankPart {
  Tensor a, b;  ///< [ranks, in], [out, ranks]
  double scale = 1;
  Tensor kept;  ///< true for a row's ranks, as AdapterMasks::of(); undefined: rows keep all
};

/// A linear layer of a decoder, y = x·Wᵀ + b: W is a parameter, or frozen in a block format; beside it there may be a
/// low-rank adapter (Hu et al. 2022), y + x·Aᵀ·Bᵀ · scale. Where the adapter has magnitudes m (DoRA), each row of
/// W + B·A · scale is scaled to its norm m; gradients take the norms before as constants.
///
/// That of a mixture's experts has their matrices one below the other, and so have its adapters: each expert has its
/// own A and B. It is called with the experts of each row, by of_experts().
class Projection : public nn::UnaryModule {
 public:
  /// @param name of the layer in `weights` @param out rows of all experts
  Projection(Weights& weights, const std::string& name, std::int64_t in, std::int64_t out, bool bias,
             std::int64_t experts = 1);
  /// @param x [..., in] @return [..., out]
  Tensor forward(const Tensor& x) const override { return project(x, {}); }
  Tensor operator()(const Tensor& x, const ProjectionMode& mode = {}) const;
  /// The products with the matrices of the experts that rows chose, without the bias. @param x [R, in] or [R, C, in]
  /// @param expert [R, C] @return [R, C, out / experts]; summed: [R, out / experts], the choices added up
  Tensor of_experts(const Tensor& x, const Tensor& expert, const ProjectionMode& mode, bool summed = false) const;
  std::string extra_repr() const override;

  bool frozen() const { return !weight.defined(); }
  /// Of the weight.
  Device device() const { return frozen() ? packed.device() : weight.device(); }
  /// Whether a call is linear(x, weight, bias) and no more, so that a fused op may compute it with others.
  bool plain() const { return !frozen() && !has_adapter() && !stacked_a_.defined() && !hooked(); }
  /// The weight in its blocks, or the bits of the parameter.
  QuantizedTensor blocks() const;

  /// Replaces the weight by blocks of its shape, which are not trained. @throws ShapeError
  void freeze(const QuantizedTensor& blocks);

  /// Adds an adapter of a rank: A [experts · rank, in] starts as a linear layer does, B [out, rank] at 0. It alone is
  /// trained from then on, and on the weight's device. @param alpha scale · rank @throws Error if there is one
  void add_adapter(std::int64_t rank, double alpha);
  /// Adds a given adapter, A [experts · rank, in] and B [out, rank]. @throws ShapeError; Error if there is one
  void set_adapter(const Tensor& a, const Tensor& b, double scale);
  /// Gives the adapter magnitudes, [out], which are trained, too. Undefined: the norms that the rows have now.
  /// @throws ShapeError; Error without an adapter
  void set_magnitudes(const Tensor& magnitudes = {});
  /// Adds B·A · scale to the weight and takes the adapter away. A frozen weight becomes a dense one.
  void merge_adapter();
  bool has_adapter() const { return lora_a.defined(); }
  /// Of the adapter. @throws Error without one
  std::int64_t rank() const;
  /// Stacks a given adapter on others, of which ProjectionMode::adapters chooses: it is not trained, not saved and not
  /// moved with the layer. @param index of the adapter @throws ShapeError; Error for experts
  void stack_adapter(std::int64_t index, const Tensor& a, const Tensor& b, double scale);
  /// Where the matrix is not multiplied whole: what adapters add besides.
  /// @param dim dimensions of rows, of which each sequence has some
  std::vector<LowRankPart> low_rank_parts(const ProjectionMode& mode, std::int64_t dim) const;
  /// What magnitudes multiply the rows of W + B·A · scale by, [out]; undefined without magnitudes.
  Tensor row_factors() const;
  /// The stack, [ranks, in], [out, ranks], and [ranks] i32, the adapter of each rank; undefined where there is none.
  std::vector<Tensor> stacked_adapters() const { return {stacked_a_, stacked_b_, stacked_of_}; }

  const std::int64_t in, out, experts;
  Tensor weight;          ///< [out, in]; undefined where it is frozen
  Tensor packed;          ///< the blocks, u8; undefined where it is not
  Tensor bias;            ///< [out] or undefined
  Tensor lora_a, lora_b;  ///< [experts · rank, in], [out, rank]; undefined without an adapter
  Tensor lora_magnitude;  ///< [out], f32; undefined where the adapter has none
  double lora_scale = 0, lora_dropout = 0;

 private:
  Tensor project(const Tensor& x, const ProjectionMode& mode) const;
  Tensor chosen(const Tensor& x, const ProjectionMode& mode) const;
  void check_adapter(const Tensor& a, const Tensor& b) const;
  Tensor adapted(const Tensor& x, const Tensor& y) const;
  Tensor row_norms() const;
  Tensor crossed_with(const Tensor& a) const;

  Tensor stacked_a_, stacked_b_, stacked_of_;
  mutable Tensor squares_;                    ///< [out], Σ over each row of the weight; follows it to its device
  std::vector<std::int32_t> stacked_owners_;  ///< stacked_of_ on the host
  const quant::BlockFormat* format_ = nullptr;
};

/// Concatenates frozen weights of one format in GPU memory, and their biases, so that one GEMM serves all of them. Does
/// nothing elsewhere.
void concat_weights(std::initializer_list<Projection*> layers);

}  // namespace etna::models
