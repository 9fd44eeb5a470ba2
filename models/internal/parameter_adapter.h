#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <etna/models/internal/architecture.h>
#include <etna/models/internal/packed_adapter.h>

/// PEFT's adapters of parameters that hold the matrices of all experts (`target_parameters`). Internal.
///
/// PEFT wraps the module that has the parameter, so that its names have no word for the parameter: of two parameters
/// the wrapper of the first is the base layer of the other's. A is [experts · rank, n], one expert below the other, and
/// B [m, rank · experts], in which an expert's columns are `experts` apart. n and m are the sizes of an expert's
/// matrix. Up to PEFT 0.19.0 n is the first one of the tensor. Since then it is the last one, but for modules that say
/// that their parameters are transposed, as those of gpt-oss do.
namespace etna::models {

/// A tensor of a file, [experts, rows, in], or [experts, in, rows].
struct ExpertParameter {
  std::string tensor;  ///< "model.layers.0.mlp.experts.gate_up_proj"
  std::int64_t experts = 0, rows = 0, in = 0;
  bool in_by_out = false;
  bool says_so = false;  ///< its module does
  bool turns = false;    ///< rows of gates and of up projections take turns in the file; here gates come first

  std::string module() const { return tensor.substr(0, tensor.rfind('.')); }
  /// The end of the name that is the same in all blocks.
  std::string target() const;
};
ExpertParameter expert_parameter(const ExpertRules& rules, const std::string& tensor, std::int64_t experts,
                                 std::int64_t rows, std::int64_t in);

/// The first version that takes the last size of a tensor as that of A.
inline constexpr const char* kParameterVersion = "0.19.1";
/// Whether a version is that or a later one. @param version "0.18.0"; empty: unknown, so older
bool is_parameter_version(const std::string& version);

/// @param inner another parameter of the module has a wrapper around this one's @param which 'a' or 'b'
std::string parameter_key(const ExpertParameter& parameter, bool inner, char which);
/// @param adapted all that have adapters, in the order of their modules' parameters
bool is_inner(const std::vector<ExpertParameter>& adapted, const ExpertParameter& parameter);
/// Whether a file has adapters of the module of a parameter.
bool has_parameter(const std::map<std::string, Tensor>& tensors, const std::string& parameter);

/// A and B of all experts, one below the other.
struct ExpertHalves {
  Tensor a, b;  ///< [experts · rank, in], [experts · rows, rank]
};
/// @param halves of packed_adapter() @param parts what it packed
ExpertHalves by_expert(const ExpertParameter& parameter, const std::pair<Tensor, Tensor>& halves,
                       const std::vector<AdapterPart>& parts);
/// As PEFT has them since kParameterVersion.
ExpertHalves to_peft(const ExpertParameter& parameter, const ExpertHalves& halves);
/// Whether PEFT's A and B are of the parameter, whatever the version.
bool fits_parameter(const ExpertParameter& parameter, const ExpertHalves& peft);
/// @param peft fits @param newer made by kParameterVersion or later, which counts where shapes do not tell
ExpertHalves from_peft(const ExpertParameter& parameter, const ExpertHalves& peft, bool newer);

/// Gives adapters of parameters in a file the shapes and names of those of matrices. Names do not tell which of a
/// module's parameters one belongs to, but shapes do. @param path for errors @param newer as for from_peft()
/// @param name_of a tensor's, and 'a' or 'b' @throws FormatError for one that fits none of its module
void name_parameters(const std::string& path, std::map<std::string, Tensor>& tensors,
                     const std::vector<ExpertParameter>& parameters, bool newer,
                     const std::function<std::string(const std::string&, char)>& name_of);

}  // namespace etna::models
