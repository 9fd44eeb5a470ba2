#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace etna::structure {

/// The arguments of one overload.
struct Signature {
  /// In order; empty where it has no name or is a struct, whose fields are the arguments.
  std::vector<std::string> parameters;
  /// Fields of the structs among the parameters, those of their bases too.
  std::set<std::string> fields;

  bool has(const std::string& argument) const;
};

/// What the public headers declare.
struct PublicNames {
  /// Functions and types outside classes, by their last word: {"relu", {"etna::relu"}}.
  std::map<std::string, std::set<std::string>> free;
  /// Methods of Tensor.
  std::set<std::string> methods;
  /// Of functions, public methods and constructors, by full name: "etna::relu", "etna::Tensor::sum",
  /// "etna::nn::Linear".
  std::map<std::string, std::vector<Signature>> signatures;
};

/// Reads what etna.h includes of this library.
PublicNames public_names();

}  // namespace etna::structure
