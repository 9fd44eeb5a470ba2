#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <structure/public_names.h>
#include <structure/pytorch_arguments.h>

// docs/from-pytorch.md is made from docs/from-pytorch.names and the public headers. ETNA_WRITE_DOCS=1 writes it.
namespace etna::structure {
namespace {

const std::string kNames = ETNA_SOURCE_DIR "/docs/from-pytorch.names";
const std::string kArguments = ETNA_SOURCE_DIR "/docs/from-pytorch.arguments";
const std::string kPage = ETNA_SOURCE_DIR "/docs/from-pytorch.md";

constexpr const char* kHead = R"(# From PyTorch

Where a PyTorch name is found here, and which names are not there. The page is made from the public headers and
[from-pytorch.names](from-pytorch.names), a list of what people type, so a gap stands here as long as it is one:
`ETNA_WRITE_DOCS=1 build/bin/test_structure --gtest_filter='FromPyTorch.*'`.

Names without `::` are in namespace `etna`. A PyTorch keyword argument is a field of an options struct:
`nn.Linear(3, 4, bias=False)` is `nn::Linear(3, 4, false)`, `optim.SGD(p, lr=0.1, momentum=0.9)` is
`optim::SGD(p, {.lr = 0.1, .momentum = 0.9})`. Modules are members that register themselves in the constructor
(`nn/module.h`). A tuple of results is a struct or `auto [values, indices] = ...`.

Dtypes are f64, f32, f16, bf16, i64, i32, i8, u8 and bool. Not there: `int16`, `uint16`, `uint32` and `uint64`, since
training does not compute in them and each would be one more form of every load and store on both devices (NPY files of
the first three are read as i32 and i64); `complex64` and `complex128`, since no kernel has complex arithmetic: `fft`
and `complex_mul` take a last dimension of size 2, as `torch.view_as_real` gives it, and `linalg::eig` gives pairs of
real tensors. No GPU kernel computes in f64: such ops fall back to the CPU, which strict mode makes an error. So does
`float_power`, which is f64 as in PyTorch.

## Arguments

[from-pytorch.arguments](from-pytorch.arguments) lists the arguments of PyTorch's names; `tools/pytorch-signatures`
makes it, which needs PyTorch. An argument is there if a function, method or constructor has a parameter or a field of
its options of that name, or else a parameter in its place: C++ has no keyword arguments, so only the place counts.
Some are the same for all names, and the tables leave them out:

| PyTorch | Etna |
|---|---|
| `out` | results are new tensors; `x.copy_(...)` writes into one |
| `inplace=True` | none: only functions that end in `_` work in place |
| `dtype`, `device` | factories take `TensorOptions`; else `x.to(...)` of the input, the result or the module |
| `requires_grad` | `x.requires_grad_()` |
| `device_type` | guards act on all devices |
| `generator` | `manual_seed`; samplers and loaders take a `seed` |
| `layout`, `memory_format`, `pin_memory` | none: all tensors are dense and strided, and host memory is not pinned |
| `size_average`, `reduce` of losses | `reduction`, as in PyTorch since 1.0 |
| `foreach`, `fused`, `capturable` | none to choose: most optimizers are fused, and all but `LBFGS` can be captured |
| `differentiable` | none: steps are not recorded; `nn::functional_call` takes computed weights |
| `last_epoch` | `scheduler.set_step(step)`, or `load_state_dict` |
)";

/// The words of a list, filled into lines.
std::string paragraph(const std::string& head, const std::vector<std::string>& words) {
  std::string text, line = head;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = " " + words[i] + (i + 1 < words.size() ? "," : ".");
    if (line.size() + word.size() > 118)
      text += line + "\n", line = word.substr(1);
    else
      line += word;
  }
  return text + line + "\n";
}

/// Rows of a table with two columns; names with the same text share a row.
class Rows {
 public:
  void add(const std::string& name, const std::string& text) {
    const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const auto& one) { return one.second == text; });
    if (row == rows_.end())
      rows_.emplace_back(name, text);
    else
      row->first += ", " + name;
  }

  /// The table under its head; empty if it has no rows. Empties it.
  std::string table(const std::string& head, const std::string& left, const std::string& right) {
    std::string text;
    for (const auto& [names, what] : rows_) text += fmt::format("| {} | {} |\n", names, what);
    rows_.clear();
    return text.empty() ? "" : fmt::format("\n{}| {} | {} |\n|---|---|\n{}", head, left, right, text);
  }

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
};

class Page {
 public:
  Page(const PublicNames& names, PyTorchArguments& arguments) : names_(names), arguments_(arguments) {}

  void section(const std::string& module) {
    close();
    module_ = module;
  }

  void entry(const std::string& name, const std::string& other, const std::string& reason) {
    const std::string wanted = other.empty() ? name : other;
    // A free function may share only its name with a method: Tensor.unfold() is not unfold() of images.
    const bool only_named = module_ == "torch.Tensor" && !reason.empty() && !names_.methods.contains(wanted);
    const std::string found = only_named ? "" : find(wanted);
    if (found.empty()) {
      if (!other.empty()) ADD_FAILURE() << kNames << ": " << name << " = " << other << ", which no public header has";
      arguments_.skip(module_, name);
      (reason.empty() ? missing_.emplace_back(fmt::format("`{}`", name))
                      : missing_.emplace_back(fmt::format("`{}` ({})", name, reason)));
    } else if (!reason.empty()) {
      ADD_FAILURE() << kNames << ": " << name << " is there, as " << found;
    } else {
      (wanted == name) ? same_.push_back("`" + found + "`") : renamed_.add("`" + name + "`", "`" + found + "`");
      ++there_;
      compare(name, found);
    }
  }

  std::string text() {
    close();
    return fmt::format("{}\n{} of {} names are there; {} of them with all arguments.\n\n{}{}", kHead, there_,
                       there_ + gaps_, complete_, paragraph("Without a list of arguments to compare:", unlisted_),
                       text_);
  }

 private:
  void compare(const std::string& name, const std::string& found) {
    const ArgumentsFound result = arguments_.compare(module_, name, found);
    std::string missing;
    for (const auto& [argument, reason] : result.missing) {
      missing += fmt::format("{}`{}`{}", missing.empty() ? "" : ", ", argument,
                             reason.empty() ? "" : fmt::format(" ({})", reason));
    }
    if (!missing.empty()) lacking_.add("`" + name + "`", missing);
    for (const auto& [argument, other] : result.renamed)
      elsewhere_.add(fmt::format("`{}({})`", name, argument),
                     "`" + std::regex_replace(other, std::regex(", "), "`, `") + "`");
    if (!result.listed) unlisted_.push_back("`" + name + "`");
    if (result.listed && missing.empty()) ++complete_;
  }

  /// The full name, without "etna::"; empty if there is none. Names of methods end in "()".
  std::string find(const std::string& wanted) const {
    const std::string last = wanted.substr(wanted.rfind(':') == std::string::npos ? 0 : wanted.rfind(':') + 1);
    if (module_ == "torch.Tensor" && names_.methods.contains(wanted)) return wanted;
    auto at = names_.free.find(last);
    if (at != names_.free.end()) {
      std::string best;
      for (const std::string& full : at->second) {
        const std::string name = full.starts_with("etna::") ? full.substr(6) : full;
        if (last != wanted) {
          if (name == wanted) return name;
          continue;
        }
        if (best.empty() || suits(name) > suits(best)) best = name;
      }
      if (!best.empty() && suits(best) > 0) return best;
    }
    if (wanted.starts_with("x.") && names_.methods.contains(wanted.substr(2))) return wanted;
    return module_ != "torch.Tensor" && names_.methods.contains(wanted) ? "x." + wanted : "";
  }

  /// Whether a name's namespace is the one that people look into: nn::relu is not torch.relu.
  int suits(const std::string& name) const {
    const auto in = [&](const char* space) { return name.starts_with(space); };
    const std::map<std::string, const char*> spaces = {
        {"torch.nn", "nn::"},           {"torch.nn.init", "nn::init::"},
        {"torch.optim", "optim::"},     {"torch.optim.lr_scheduler", "optim::"},
        {"torch.utils.data", "data::"}, {"torch.linalg", "linalg::"},
        {"torch.fft", "fft::"}};
    const auto own = spaces.find(module_);
    if (own != spaces.end() && in(own->second)) return 3;
    if (module_ == "torch.nn" || module_ == "torch.nn.init") return 0;
    if (name.find("::") == std::string::npos) return 2;
    return module_ == "torch" || module_ == "torch.nn.functional" ? 0 : 1;
  }

  void close() {
    if (module_.empty()) return;
    text_ += fmt::format("\n## {}\n", module_);
    if (!same_.empty()) text_ += "\n" + paragraph("There:", same_);
    text_ += renamed_.table("", "PyTorch", "Etna");
    text_ += elsewhere_.table("Arguments under another name:\n\n", "PyTorch", "Etna");
    text_ += lacking_.table("There, with arguments that are missing:\n\n", "PyTorch", "not there");
    if (!missing_.empty()) text_ += "\n" + paragraph("Not there:", missing_);
    gaps_ += missing_.size();
    same_.clear(), missing_.clear();
  }

  const PublicNames& names_;
  PyTorchArguments& arguments_;
  std::string module_, text_;
  std::vector<std::string> same_, missing_, unlisted_;
  Rows renamed_, elsewhere_, lacking_;
  std::size_t there_ = 0, gaps_ = 0, complete_ = 0;
};

/// Calls visit(module, line) for every line of the list; the module is empty before the first.
void read_names(const std::function<void(const std::string& module, const std::string& line)>& visit) {
  std::ifstream in(kNames);
  std::string module;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') module = line.substr(1, line.find(']') - 1);
    visit(module, line);
  }
}

bool is_note(const std::string& line) { return line.find(" : ") < std::min(line.find(" = "), line.find(" ! ")); }

std::string page() {
  const PublicNames names = public_names();
  PyTorchArguments arguments(kArguments, names);
  read_names([&](const std::string& module, const std::string& line) {
    if (is_note(line)) arguments.note(module, line);
  });
  Page page(names, arguments);
  read_names([&](const std::string& module, const std::string& line) {
    if (line[0] == '[') return page.section(module);
    if (is_note(line)) return;
    const std::size_t equal = line.find(" = "), reason = line.find(" ! ");
    page.entry(line.substr(0, std::min(equal, reason)), equal == std::string::npos ? "" : line.substr(equal + 3),
               reason == std::string::npos ? "" : line.substr(reason + 3));
  });
  const std::string text = page.text();
  for (const std::string& dead : arguments.dead()) ADD_FAILURE() << kNames << ": nothing needs " << dead;
  return text;
}

TEST(FromPyTorch, PageListsWhatTheHeadersHave) {
  const std::string wanted = page();
  if (std::getenv("ETNA_WRITE_DOCS") != nullptr) {
    std::ofstream(kPage) << wanted;
    return;
  }
  std::ifstream in(kPage);
  std::stringstream is;
  is << in.rdbuf();
  EXPECT_TRUE(is.str() == wanted) << kPage
                                  << " is not up to date; its second paragraph tells the command that writes it";
}

TEST(FromPyTorch, HeadersAreRead) {
  const PublicNames names = public_names();
  EXPECT_TRUE(names.free.at("softmax").contains("etna::softmax"));
  EXPECT_TRUE(names.free.at("relu").contains("etna::relu"));
  EXPECT_TRUE(names.free.at("Linear").contains("etna::nn::Linear"));
  EXPECT_TRUE(names.methods.contains("backward"));
  EXPECT_TRUE(names.methods.contains("exp"));
  EXPECT_FALSE(names.free.contains("require_defined")) << "detail is not public";
}

TEST(FromPyTorch, SignaturesHaveTheFieldsOfOptions) {
  const PublicNames names = public_names();
  const Signature& conv = names.signatures.at("etna::nn::Conv2d").at(0);
  EXPECT_EQ(conv.parameters, (std::vector<std::string>{"in_channels", "out_channels", "kernel_size", ""}));
  EXPECT_TRUE(conv.has("padding_mode"));
  EXPECT_TRUE(names.signatures.at("etna::Tensor::sum").at(0).has("keepdim"));
  EXPECT_FALSE(names.signatures.contains("etna::nn::ConvBase")) << "its constructor is protected";
}

TEST(FromPyTorch, ArgumentsAreThereByNamePlaceOrNote) {
  PublicNames names;
  names.signatures["etna::f"] = {{.parameters = {"x", "size", ""}, .fields = {"mode"}}};
  const std::string table = testing::TempDir() + "arguments";
  std::ofstream(table) << "[torch]\nf: input output_size mode out p q r\n";
  PyTorchArguments arguments(table, names);
  arguments.note("torch", "f : p = size");
  arguments.note("torch", "f : q ! none");
  const ArgumentsFound found = arguments.compare("torch", "f", "f");
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(found.renamed, (Pairs{{"p", "size"}}));
  EXPECT_EQ(found.missing, (Pairs{{"q", "none"}, {"r", ""}}));
  EXPECT_TRUE(arguments.dead().empty());
}

TEST(FromPyTorch, NotesThatNothingNeedsAreDead) {
  PublicNames names;
  names.signatures["etna::f"] = {{.parameters = {"x", "mode"}, .fields = {}}};
  const std::string table = testing::TempDir() + "arguments";
  std::ofstream(table) << "[torch]\nf: input mode p\ng: input\n";
  PyTorchArguments arguments(table, names);
  arguments.note("torch", "f : mode ! it is there");
  arguments.note("torch", "f : p = no_such_parameter");
  arguments.note("", "* : dim = dims");
  arguments.compare("torch", "f", "f");
  EXPECT_EQ(arguments.dead(),
            (std::vector<std::string>{"arguments of torch.g", "torch.f : mode", "torch.f : p", "* : dim = dims"}));
}

}  // namespace
}  // namespace etna::structure
