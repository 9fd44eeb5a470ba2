#pragma once

#include <etna/device/owned.h>
#include <etna/models/decoder_block.h>
#include <etna/models/decoder_config.h>
#include <etna/models/projection.h>
#include <etna/nn/containers.h>
#include <etna/nn/dropout.h>
#include <etna/nn/module.h>
#include <etna/tensor/ops/loss/loss.h>

namespace etna::models {

class LayerInputs;
class MtpHead;
class StreamEnds;

/// A decoder of the kind of GPT-2, Llama, or what else DecoderConfig makes of it: token embeddings, blocks, a norm and
/// a head.
///     models::Decoder model(models::decoder_config("gpt2", {.vocabulary = 33278, .context = 64, .width = 128,
///                                                           .layers = 2, .heads = 4, .feed_forward = 512}));
///     model.loss(tokens, targets).backward();
class Decoder : public nn::UnaryModule {
 public:
  /// It cannot be moved: its blocks refer to its configuration.
  Decoder(Decoder&&) = delete;
  Decoder& operator=(Decoder&&) = delete;
  /// @param split which part of the model this process has; `weights` are asked for that part
  /// @throws FormatError as DecoderConfig::check() and decoder_part()
  Decoder(const DecoderConfig& config, Weights& weights, const ModelSplit& split = {});
  /// With FreshWeights, to be trained.
  explicit Decoder(const DecoderConfig& config);
  ~Decoder() override;

  /// @param tokens [B, T] i64 or i32 @return logits [B, T, vocabulary]
  Tensor forward(const Tensor& tokens) const override;
  /// Cross-entropy. @param targets [B, T], -100 at positions to ignore @param documents as for hidden()
  /// @return 0-d, or [B · T] unreduced
  Tensor loss(const Tensor& tokens, const Tensor& targets, const Tensor& documents = {},
              Reduction reduction = Reduction::mean) const;
  /// The head's input. @param adapters as ProjectionMode::adapters @param documents where a row is several texts, of
  /// document_bounds(): none of them sees another, and positions begin anew in each; not together with adapters
  /// @return [B, T, width]
  Tensor hidden(const Tensor& tokens, const Tensor& adapters = {}, const Tensor& documents = {}) const;
  /// @param hidden of hidden(), [..., width] @return [..., vocabulary]
  Tensor logits_of(const Tensor& hidden) const { return logits(hidden, {}); }

  /// Token embeddings, with learned positions: the first block's input where there is one stream.
  /// @param documents as for hidden() @return [B, T, width]
  Tensor embedded(const Tensor& tokens, const Tensor& documents = {}) const;

  /// As hidden(), for tokens behind those that the cache has, which takes them up. Without gradients and dropout.
  /// @param tokens [B, T] @return the last block's output [B, T, width], to be given to head()
  Tensor extend(const Tensor& tokens, const DecoderCache& cache) const;
  /// The first blocks, whose weights are on the CPU while the head's are on a GPU (LoadOptions::host_layers). extend()
  /// moves rows between them; the cache's first layers are on the CPU, too.
  std::int64_t host_layers() const;
  /// extend() in two parts: the embedding and the blocks on the CPU, which no step captured on a GPU may contain; and
  /// the others, which get the result; what blocks read besides is behind each row of it. Where no block is on the CPU,
  /// the first part is the embedding.
  Tensor extend_on_host(const Tensor& tokens, const DecoderCache& cache) const;
  Tensor extend_rest(const Tensor& x, const DecoderCache& cache) const;
  /// The final norm, the head and the cap of logits. @param x [..., width] @return [..., vocabulary]
  Tensor head(const Tensor& x) const;

  /// True if some matrix is in a block format, so that it cannot be trained.
  bool frozen() const;
  /// Adds low-rank adapters to the projections of attention, and of all other layers of the blocks if `all`. Everything
  /// else is frozen. @throws Error
  void add_adapters(std::int64_t rank, double alpha, bool all = false);
  /// The same for chosen projections. @throws Error naming those that there are for an unknown target
  void add_adapters(const AdapterOptions& options);
  void merge_adapters();
  /// Adds the head that guesses further tokens, with which a generator guesses (GeneratorOptions::mtp).
  /// @param weights where they are called "blocks.N.", N being the number of blocks, and "blocks.N.mtp."
  /// @throws FormatError where no layer has attention alone, or where blocks read more than one residual stream; Error
  /// for a part of a model
  void add_mtp(Weights& weights);
  /// @throws Error naming what was called, where this is a part of a model
  void require_whole(const char* what) const;

  /// How many adapters are stacked beside the weights, of which each sequence may choose one (stack_adapters()).
  std::int64_t stacked_adapters = 0;

  const DecoderConfig config;  ///< of the whole model
  const ModelSplit split;      ///< the ranks that it is divided over
  const DecoderPart part;
  const DecoderConfig own_config;  ///< of this rank's blocks; `config` where the model is whole
  /// Gradients keep each block's input only and compute the rest again.
  bool recompute_blocks = config.recompute_blocks;
  Projection token_embedding;            ///< [part.vocabulary.size, width]
  Owned<Projection> position_embedding;  ///< [context, width], or null
  Owned<LayerInputs> layer_inputs;       ///< null where blocks have no inputs of their own
  Owned<StreamEnds> streams;             ///< null where there is one stream
  nn::Dropout dropout;                   ///< of the first block's input
  nn::ModuleList<DecoderBlock> blocks;
  Norm norm;
  Owned<Projection> output;  ///< null where the head is the token embedding
  Owned<MtpHead> mtp;        ///< null without add_mtp()

 protected:
  std::unique_ptr<nn::Module> another() const override;

 private:
  /// What the first block reads, and what all blocks read besides; empty where there is nothing besides.
  struct Inputs {
    Tensor x, of_layers;
  };
  Inputs inputs(const Tensor& tokens, const Tensor& embedded) const;
  Tensor joined(const Tensor& x) const;
  Tensor checkpointed(const DecoderBlock& block, std::int64_t index, const Tensor& x, DecoderCache& pass) const;
  Tensor token_rows(const Tensor& tokens) const;
  Tensor with_deep(const Tensor& x, std::size_t block, const DecoderCache& cache) const;
  Tensor embedding_rows(const Tensor& tokens) const;
  Tensor logits(const Tensor& x, const ProjectionMode& mode) const;
  Tensor scaled(const Tensor& x) const;
  Tensor capped(const Tensor& logits) const;
  const Projection& head_weights() const { return output ? *output : token_embedding; }
  std::vector<Projection*> adapter_layers() const;
};

}  // namespace etna::models
