#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <structure/public_names.h>

// docs/from-pytorch.md is made from docs/from-pytorch.names and the public headers. ETNA_WRITE_DOCS=1 writes it.
namespace etna::structure {
namespace {

const std::string kNames = ETNA_SOURCE_DIR "/docs/from-pytorch.names";
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

class Page {
 public:
  explicit Page(const PublicNames& names) : names_(names) {}

  void section(const std::string& module) {
    close();
    module_ = module;
  }

  void entry(const std::string& name, const std::string& other, const std::string& reason) {
    const std::string wanted = other.empty() ? name : other;
    const std::string found = find(wanted);
    if (found.empty()) {
      if (!other.empty()) ADD_FAILURE() << kNames << ": " << name << " = " << other << ", which no public header has";
      (reason.empty() ? missing_.emplace_back(fmt::format("`{}`", name))
                      : missing_.emplace_back(fmt::format("`{}` ({})", name, reason)));
    } else if (!reason.empty()) {
      ADD_FAILURE() << kNames << ": " << name << " is there, as " << found;
    } else if (wanted == name) {
      same_.push_back("`" + found + "`");
    } else {
      renamed_.push_back(fmt::format("| `{}` | `{}` |\n", name, found));
    }
  }

  std::string text() {
    close();
    return fmt::format("{}\n{} of {} names are there.\n{}", kHead, there_, there_ + gaps_, text_);
  }

 private:
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
    if (!renamed_.empty()) {
      text_ += "\n| PyTorch | Etna |\n|---|---|\n";
      for (const std::string& row : renamed_) text_ += row;
    }
    if (!missing_.empty()) text_ += "\n" + paragraph("Not there:", missing_);
    there_ += same_.size() + renamed_.size();
    gaps_ += missing_.size();
    same_.clear(), renamed_.clear(), missing_.clear();
  }

  const PublicNames& names_;
  std::string module_, text_;
  std::vector<std::string> same_, renamed_, missing_;
  std::size_t there_ = 0, gaps_ = 0;
};

std::string page() {
  const PublicNames names = public_names();
  Page page(names);
  std::ifstream in(kNames);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      page.section(line.substr(1, line.find(']') - 1));
      continue;
    }
    const std::size_t equal = line.find(" = "), reason = line.find(" ! ");
    page.entry(line.substr(0, std::min(equal, reason)), equal == std::string::npos ? "" : line.substr(equal + 3),
               reason == std::string::npos ? "" : line.substr(reason + 3));
  }
  return page.text();
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

}  // namespace
}  // namespace etna::structure
