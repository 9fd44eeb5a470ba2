#include <structure/pytorch_arguments.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace etna::structure {
namespace {

/// What the head of the page explains for all names together.
bool is_explained(const std::string& argument) {
  static const std::set<std::string> explained = {"out",       "dtype",         "device",       "device_type",
                                                  "layout",    "requires_grad", "pin_memory",   "memory_format",
                                                  "generator", "inplace",       "size_average", "last_epoch",
                                                  "foreach",   "fused",         "capturable",   "differentiable"};
  return argument[0] == '_' || explained.contains(argument);
}

/// The words between the commas.
std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in >> std::ws, word, ',');) words.push_back(word);
  return words;
}

}  // namespace

PyTorchArguments::PyTorchArguments(const std::string& table, const PublicNames& names) : names_(names) {
  std::ifstream in(table);
  std::string module;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      module = line.substr(1, line.find(']') - 1);
      continue;
    }
    const std::size_t colon = line.find(':');
    Row& row = rows_[{module, line.substr(0, colon)}];
    std::istringstream arguments(line.substr(colon + 1));
    for (std::string argument; arguments >> argument;) {
      if (!is_explained(argument)) row.arguments.push_back(argument);
    }
    // The older form of `reduction`, not that of index_reduce().
    if (line.find(" size_average ") != std::string::npos) std::erase(row.arguments, "reduce");
  }
}

void PyTorchArguments::note(const std::string& module, const std::string& line) {
  const std::size_t colon = line.find(" : "), equal = line.find(" = "), reason = line.find(" ! ");
  const std::string name = line.substr(0, colon);
  const std::string argument = line.substr(colon + 3, std::min(equal, reason) - colon - 3);
  const bool renamed = equal < reason;
  const std::string text = line.substr(std::min(equal, reason) + 3);
  if (name == "*")
    aliases_[argument].emplace(text, false);
  else
    notes_[{module, name}][argument] = {renamed ? text : "", renamed ? "" : text, false};
}

/// Functions and methods of one name together: what one of them lacks, another may take.
std::vector<Signature> PyTorchArguments::overloads(const std::string& module, const std::string& found) const {
  std::vector<Signature> all;
  const auto add = [&](const std::string& full, bool method) {
    const auto at = names_.signatures.find(full);
    if (at == names_.signatures.end()) return;
    for (Signature signature : at->second) {
      if (method) signature.parameters.insert(signature.parameters.begin(), "x");
      all.push_back(std::move(signature));
    }
  };
  const std::string method = found.starts_with("x.") ? found.substr(2) : found;
  add("etna::" + method, false);
  if (module != "torch.nn") add("etna::Tensor::" + method, true);
  if (all.empty()) all.emplace_back();
  return all;
}

/// What the signature calls the argument, by its own name or an alias; empty if neither is there.
std::string PyTorchArguments::parameter_of(const Signature& signature, const std::string& argument) {
  if (signature.has(argument)) return argument;
  if (auto aliases = aliases_.find(argument); aliases != aliases_.end()) {
    for (auto& [other, used] : aliases->second) {
      if (!signature.has(other)) continue;
      used = true;
      return other;
    }
  }
  return "";
}

std::set<std::string> PyTorchArguments::taken(const Signature& signature, const std::vector<std::string>& arguments,
                                              const std::map<std::string, Note>& notes) {
  std::set<std::string> taken, claimed = {"", "device", "dtype"};
  for (const std::string& argument : arguments) {
    const std::string parameter = parameter_of(signature, argument);
    if (parameter.empty()) continue;
    taken.insert(argument);
    claimed.insert(parameter);
  }
  // C++ has no keyword arguments: a parameter that no name claims is the argument of its place.
  for (std::size_t i = 0; i < std::min(arguments.size(), signature.parameters.size()); ++i) {
    const std::string& parameter = signature.parameters[i];
    if (taken.contains(arguments[i])) continue;
    if (claimed.contains(parameter) || notes.contains(arguments[i])) break;
    taken.insert(arguments[i]);
  }
  return taken;
}

bool PyTorchArguments::exists(const std::string& others, const std::vector<Signature>& signatures) const {
  const std::vector<std::string> words = words_of(others);
  return std::all_of(words.begin(), words.end(), [&](const std::string& word) {
    const std::size_t scope = word.find_last_of(".:");
    const std::string last = scope == std::string::npos ? word : word.substr(scope + 1);
    return (word.starts_with("x.") ? names_.methods.contains(last) : names_.signatures.contains("etna::" + word)) ||
           std::any_of(signatures.begin(), signatures.end(), [&](const Signature& one) { return one.has(word); });
  });
}

void PyTorchArguments::skip(const std::string& module, const std::string& name) {
  if (auto row = rows_.find({module, name}); row != rows_.end()) row->second.used = true;
}

ArgumentsFound PyTorchArguments::compare(const std::string& module, const std::string& name, const std::string& found) {
  ArgumentsFound result;
  const auto row = rows_.find({module, name});
  if (row == rows_.end()) return result;
  result.listed = row->second.used = true;
  std::vector<std::string> arguments;
  if (module == "torch.Tensor") arguments.push_back("input");
  arguments.insert(arguments.end(), row->second.arguments.begin(), row->second.arguments.end());
  const std::vector<Signature> signatures = overloads(module, found);
  std::set<std::string> there = {module == "torch.Tensor" ? "input" : ""};
  std::map<std::string, Note>& notes = notes_[{module, name}];
  for (const Signature& signature : signatures) there.merge(taken(signature, arguments, notes));
  for (const std::string& argument : arguments) {
    if (there.contains(argument)) continue;
    const auto note = notes.find(argument);
    if (note == notes.end()) {
      result.missing.emplace_back(argument, "");
    } else if (!note->second.other.empty()) {
      note->second.used = exists(note->second.other, signatures);
      result.renamed.emplace_back(argument, note->second.other);
    } else {
      note->second.used = true;
      result.missing.emplace_back(argument, note->second.reason);
    }
  }
  return result;
}

std::vector<std::string> PyTorchArguments::dead() const {
  std::vector<std::string> dead;
  for (const auto& [key, row] : rows_) {
    if (!row.used) dead.push_back("arguments of " + key.first + "." + key.second);
  }
  for (const auto& [key, notes] : notes_) {
    for (const auto& [argument, note] : notes) {
      if (!note.used) dead.push_back(key.first + "." + key.second + " : " + argument);
    }
  }
  for (const auto& [argument, others] : aliases_) {
    for (const auto& [other, used] : others) {
      if (!used) dead.push_back("* : " + argument + " = " + other);
    }
  }
  return dead;
}

}  // namespace etna::structure
