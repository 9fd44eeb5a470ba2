#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <structure/public_names.h>

namespace etna::structure {

/// How the arguments of one PyTorch name are found here.
struct ArgumentsFound {
  bool listed = false;                                       ///< docs/from-pytorch.arguments has the name
  std::vector<std::pair<std::string, std::string>> missing;  ///< with the reason, or empty
  std::vector<std::pair<std::string, std::string>> renamed;  ///< with what takes its place
};

/// Compares docs/from-pytorch.arguments with the public headers, as the notes in docs/from-pytorch.names say.
class PyTorchArguments {
 public:
  /// @param table a file: `[module]` lines, then `name: argument argument` @param names what the headers have
  PyTorchArguments(const std::string& table, const PublicNames& names);

  /// A line `name : argument = other, ...` or `name : argument ! reason`; `* : argument = other` is an alias, which
  /// counts wherever a function has a parameter of that name.
  void note(const std::string& module, const std::string& line);

  /// @param found Etna's name of `name`, as on the page: `nn::Linear`, `x.sum`, or a method in torch.Tensor
  ArgumentsFound compare(const std::string& module, const std::string& name, const std::string& found);

  /// Of a name that is not there, whose arguments are not asked for.
  void skip(const std::string& module, const std::string& name);

  /// Rows of the table and notes that no name used.
  std::vector<std::string> dead() const;

 private:
  struct Row {
    std::vector<std::string> arguments;
    bool used = false;
  };
  struct Note {
    std::string other, reason;
    bool used = false;
  };
  using Key = std::pair<std::string, std::string>;  // module and name

  std::vector<Signature> overloads(const std::string& module, const std::string& found) const;
  std::string parameter_of(const Signature& signature, const std::string& argument);
  std::set<std::string> taken(const Signature& signature, const std::vector<std::string>& arguments,
                              const std::map<std::string, Note>& notes);
  bool exists(const std::string& others, const std::vector<Signature>& signatures) const;

  const PublicNames& names_;
  std::map<Key, Row> rows_;
  std::map<Key, std::map<std::string, Note>> notes_;
  std::map<std::string, std::map<std::string, bool>> aliases_;  // of all names: argument, other, whether it was used
};

}  // namespace etna::structure
