#include <etna/models/internal/parameter_adapter.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// Whether A stands at the inputs of experts, else at their outputs.
bool at_inputs(const ExpertParameter& parameter, bool newer) {
  const bool takes_last = newer && !parameter.says_so;
  return takes_last != parameter.in_by_out;
}

bool has_shapes(const ExpertParameter& parameter, const ExpertHalves& peft, bool inputs) {
  return peft.a.size(1) == (inputs ? parameter.in : parameter.rows) &&
         peft.b.size(0) == (inputs ? parameter.rows : parameter.in);
}

/// Rows of B in the file's order, or back. @param b [experts, rows, rank]
Tensor in_turns(const ExpertParameter& parameter, const Tensor& b, bool in_file) {
  if (!parameter.turns) return b;
  const std::int64_t half = parameter.rows / 2;
  return b.reshape({parameter.experts, in_file ? 2 : half, in_file ? half : 2, -1}).transpose(1, 2).reshape(b.shape());
}

}  // namespace

std::string ExpertParameter::target() const {
  std::size_t begin = tensor.size();
  for (int words = 0; words < 3 && begin != std::string::npos; ++words) begin = tensor.rfind('.', begin - 1);
  const std::string end = begin == std::string::npos ? tensor : tensor.substr(begin + 1);
  return std::isdigit(static_cast<unsigned char>(end[0])) ? end.substr(end.find('.') + 1) : end;
}

ExpertParameter expert_parameter(const ExpertRules& rules, const std::string& tensor, std::int64_t experts,
                                 std::int64_t rows, std::int64_t in) {
  const bool turns = rules.interleaved && tensor.find("gate_up_proj") != std::string::npos;
  return {tensor, experts, rows, in, rules.in_by_out, rules.interleaved, turns};
}

bool is_parameter_version(const std::string& version) {
  const auto numbers = [](std::string_view text) {
    std::array<int, 3> found{};
    for (int& number : found) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end == text.data() + text.size()) break;
      text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
    }
    return found;
  };
  return numbers(version) >= numbers(kParameterVersion);
}

std::string parameter_key(const ExpertParameter& parameter, bool inner, char which) {
  return fmt::format("base_model.model.{}{}.lora_{}.weight", parameter.module(), inner ? ".base_layer" : "",
                     which == 'a' ? 'A' : 'B');
}

ExpertHalves by_expert(const ExpertParameter& parameter, const std::pair<Tensor, Tensor>& halves,
                       const std::vector<AdapterPart>& parts) {
  const auto& [a, b] = halves;
  if (a.size(0) == parts[0].a.size(0)) return {a, b};  // one A, of one part or of all
  std::vector<Tensor> each;
  for (const AdapterPart& part : parts) each.push_back(part.a.reshape({parameter.experts, -1, parameter.in}));
  return {cat(each, 1).reshape(a.shape()), b};
}

ExpertHalves to_peft(const ExpertParameter& parameter, const ExpertHalves& halves) {
  const std::int64_t experts = parameter.experts, rank = halves.b.size(1);
  const Tensor b = in_turns(parameter, halves.b.reshape({experts, parameter.rows, rank}), true),
               a = halves.a.reshape({experts, rank, parameter.in});
  if (at_inputs(parameter, true))
    return {halves.a, b.permute({1, 2, 0}).reshape({parameter.rows, rank * experts}).contiguous()};
  return {b.transpose(1, 2).reshape({experts * rank, parameter.rows}).contiguous(),
          a.permute({2, 1, 0}).reshape({parameter.in, rank * experts}).contiguous()};
}

bool fits_parameter(const ExpertParameter& parameter, const ExpertHalves& peft) {
  const auto& [a, b] = peft;
  return a.dim() == 2 && b.dim() == 2 && a.size(0) > 0 && a.size(0) % parameter.experts == 0 &&
         a.size(0) == b.size(1) && (has_shapes(parameter, peft, true) || has_shapes(parameter, peft, false));
}

ExpertHalves from_peft(const ExpertParameter& parameter, const ExpertHalves& peft, bool newer) {
  const std::int64_t experts = parameter.experts, rank = peft.a.size(0) / experts;
  const bool square = parameter.in == parameter.rows;
  const bool inputs = square ? at_inputs(parameter, newer) : has_shapes(parameter, peft, true);
  const Tensor by_rank = peft.b.reshape({-1, rank, experts});
  const Tensor a = inputs ? peft.a : by_rank.permute({2, 1, 0}).reshape({experts * rank, parameter.in}).contiguous();
  const Tensor b =
      inputs ? by_rank.permute({2, 0, 1}) : peft.a.reshape({experts, rank, parameter.rows}).transpose(1, 2);
  return {a, in_turns(parameter, b.contiguous(), false).reshape({experts * parameter.rows, rank}).contiguous()};
}

bool is_inner(const std::vector<ExpertParameter>& adapted, const ExpertParameter& parameter) {
  const auto at = std::find_if(adapted.begin(), adapted.end(),
                               [&](const ExpertParameter& other) { return other.tensor == parameter.tensor; });
  return std::any_of(std::next(at), adapted.end(),
                     [&](const ExpertParameter& other) { return other.module() == parameter.module(); });
}

bool has_parameter(const std::map<std::string, Tensor>& tensors, const std::string& parameter) {
  const ExpertParameter named{.tensor = parameter};
  return tensors.contains(parameter_key(named, false, 'a')) || tensors.contains(parameter_key(named, true, 'a'));
}

void name_parameters(const std::string& path, std::map<std::string, Tensor>& tensors,
                     const std::vector<ExpertParameter>& parameters, bool newer,
                     const std::function<std::string(const std::string&, char)>& name_of) {
  std::map<std::string, Tensor> named;
  std::map<std::string, std::string> left;  // sentences about adapters that did not fit, by the name of A
  for (const ExpertParameter& parameter : parameters) {
    for (const bool inner : {true, false}) {
      const auto a = tensors.find(parameter_key(parameter, inner, 'a')),
                 b = tensors.find(parameter_key(parameter, inner, 'b'));
      if (a == tensors.end() || b == tensors.end()) continue;
      const std::string name = name_of(parameter.tensor, 'a');
      if (!fits_parameter(parameter, {a->second, b->second}) || named.contains(name)) {
        std::string& why = left[a->first];
        if (why.empty())
          why = fmt::format("the adapter '{}' is {} and {}, and fits no parameter that has none", a->first,
                            str(a->second.shape()), str(b->second.shape()));
        why += fmt::format("; {} has {} experts, {} to {}", parameter.target(), parameter.experts, parameter.in,
                           parameter.rows);
        continue;
      }
      const auto [down, up] = from_peft(parameter, {a->second, b->second}, newer);
      named[name] = down;
      named[name_of(parameter.tensor, 'b')] = up;
      tensors.erase(a);
      tensors.erase(b);
    }
  }
  for (const auto& [key, why] : left)
    if (tensors.contains(key)) throw FormatError(fmt::format("{}: {}", path, why));
  tensors.merge(named);
}

}  // namespace etna::models
