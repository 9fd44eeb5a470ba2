#include <etna/tensor/internal/fusion_patterns.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

namespace etna::fusion {
namespace {

bool reads(const Call& call, const Tensor& x) {
  return std::any_of(call.in.begin(), call.in.end(),
                     [&](const Tensor& in) { return in.defined() && in.impl() == x.impl(); });
}

/// Whether calls[i] is what a step asks for.
bool fits(const Pattern::Step& step, Calls calls, std::size_t i) {
  const Call& call = calls[i];
  if (std::find(step.ops.begin(), step.ops.end(), call.op) == step.ops.end()) return false;
  if (i == 0) return true;
  const Calls before = calls.first(i);
  switch (step.reads) {
    case Pattern::Reads::last:
      return reads(call, before.back().out[0]);
    case Pattern::Reads::last_reshaped:
      return std::any_of(call.in.begin(), call.in.end(),
                         [&](const Tensor& in) { return same_elements(before.back().out[0], in); });
    case Pattern::Reads::earlier:
      return std::any_of(before.begin(), before.end(), [&](const Call& c) { return reads(call, c.out[0]); });
    case Pattern::Reads::same:
      break;
  }
  return std::any_of(before.begin(), before.end(),
                     [&](const Call& c) { return c.op == call.op && c.in[0].impl() == call.in[0].impl(); });
}

/// Ops of the names in "relu|gelu".
std::vector<const OpDef*> named(std::string_view names) {
  std::vector<const OpDef*> found;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('|', begin), names.size());
    for (const OpDef* op : all_ops()) {
      if (op->name == names.substr(begin, end - begin)) found.push_back(op);
    }
    begin = end + 1;
  }
  return found;
}

/// Adds what `text` says behind `steps`, once with and once without each optional call.
void parse(std::string_view text, const OpDef* op, const FusionPattern& p, std::vector<Pattern::Step> steps,
           std::vector<Pattern>& all) {
  if (text.empty()) {
    all.push_back({op, std::move(steps), p.fuse});
    return;
  }
  const std::size_t end = std::min(text.find(' '), text.size());
  std::string_view word = text.substr(0, end);
  const std::string_view rest = text.substr(std::min(end + 1, text.size()));
  if (word.back() == '?') {
    word.remove_suffix(1);
    parse(rest, op, p, steps, all);
  }
  Pattern::Step step;
  if (word[0] == '~') step.reads = Pattern::Reads::last_reshaped;
  if (word[0] == '^') step.reads = Pattern::Reads::earlier;
  if (word[0] == '&') step.reads = Pattern::Reads::same;
  if (step.reads != Pattern::Reads::last) word.remove_prefix(1);
  step.ops = named(word);
  steps.push_back(std::move(step));
  parse(rest, op, p, std::move(steps), all);
}

std::string names_of(Calls calls) {
  std::string text;
  for (const Call& call : calls) text += (text.empty() ? "" : ", ") + std::string(call.op->name);
  return text;
}

}  // namespace

bool Pattern::begins_with(Calls calls) const {
  if (calls.size() > steps.size()) return false;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!fits(steps[i], calls, i)) return false;
  }
  return true;
}

std::span<const Pattern> patterns(const OpDef& op) {
  static const auto* by_first = [] {
    auto* made = new std::unordered_map<const OpDef*, std::vector<Pattern>>;
    std::vector<Pattern> all;
    for (const OpDef* fused : all_ops()) {
      for (const FusionPattern& p : fused->replaces) parse(p.calls, fused, p, {}, all);
    }
    for (const Pattern& p : all) {
      for (const OpDef* first : p.steps[0].ops) (*made)[first].push_back(p);
    }
    return made;
  }();
  const auto found = by_first->find(&op);
  return found == by_first->end() ? std::span<const Pattern>() : std::span<const Pattern>(found->second);
}

bool begins_any(Calls calls) {
  const std::span<const Pattern> all = patterns(*calls[0].op);
  return std::any_of(all.begin(), all.end(), [&](const Pattern& p) { return p.begins_with(calls); });
}

bool logs() {
  static const bool on = [] {
    const char* value = std::getenv("ETNA_FUSE_LOG");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return on;
}

void log_fused(Calls calls, const Fused& fused) {
  const char* into = fused.op == nullptr ? "nothing" : fused.op->name;
  std::string text = fmt::format("etna: fused {} -> {}", names_of(calls.first(fused.replaces)), into);
  if (!fused.forms.empty()) text += fmt::format(", with its result as {}", name(fused.forms[0].data[0].dtype()));
  if (fused.replaces < calls.size()) text += fmt::format(" for {}", names_of(calls.subspan(fused.replaces)));
  std::fputs((text + "\n").c_str(), stderr);
}

void log_refused(Calls calls, const OpDef& fused, const char* why) {
  std::fputs(fmt::format("etna: not fused {} -> {}: {}\n", names_of(calls), fused.name,
                         *why == '\0' ? "these calls do not fit" : why)
                 .c_str(),
             stderr);
}

}  // namespace etna::fusion
