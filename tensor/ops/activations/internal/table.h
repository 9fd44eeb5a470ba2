#pragma once

#include <cstddef>
#include <iterator>

#include <etna/tensor/ops/activations/activations.h>

/// The rows of activations.def as values.
namespace etna::activations {

/// Columns of the table; activations.def describes them.
enum class Rows { loop, vectors };
enum class Kind { product, other };

struct Row {
  Activation activation;
  const char *op, *backward_op;  ///< names of the ops
  Rows rows;
  Kind kind;
};

/// Indexed by the activation's number.
inline constexpr Row kTable[] = {
    {Activation::none, "none", "", Rows::loop, Kind::other},
#define ETNA_ACTIVATION(number, name, module, result, saved, lo, hi, rows, kind, ...) \
  {Activation::name, #name, #name "_backward", Rows::rows, Kind::kind},
#include <etna/tables/activations.def>
#undef ETNA_ACTIVATION
};

constexpr const Row& row_of(Activation activation) { return kTable[static_cast<std::size_t>(activation)]; }

constexpr bool in_vectors(Activation activation) { return row_of(activation).rows == Rows::vectors; }

constexpr bool table_is_in_order() {
  for (std::size_t i = 0; i < std::size(kTable); ++i) {
    if (kTable[i].activation != static_cast<Activation>(i)) return false;
  }
  return true;
}
static_assert(table_is_in_order(), "activations.def numbers its rows 1, 2, 3 ...");

/// For FusionPattern: the ops of all activations, and the gradients that a gemm's epilogue can compute.
#define ETNA_ACTIVATION(number, name, ...) #name "|"
inline constexpr char kAfterLinear[] = "linear "
#include <etna/tables/activations.def>
    ;
#undef ETNA_ACTIVATION
#define ETNA_KIND_product(name) #name "_backward|"
#define ETNA_KIND_other(name) ""
#define ETNA_ACTIVATION(number, name, module, result, saved, lo, hi, rows, kind, ...) ETNA_KIND_##kind(name)
inline constexpr char kGemmThenGradient[] = "matmul "
#include <etna/tables/activations.def>
    ;
#undef ETNA_ACTIVATION
#undef ETNA_KIND_product
#undef ETNA_KIND_other

}  // namespace etna::activations
