#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>

// Compiles all variants of shaders to SPIR-V in one process. glslangValidator spends most of its time per shader on
// parsing glslang's built-in functions; one process parses them once.
//
// usage: compile_shaders LIST
// LIST has lines `include FOLDER`, in the order of search, and `variant OUTPUT SHADER TARGET [NAME[=VALUE]...]` with
// TARGET vulkan1.2 or vulkan1.3. Paths must not contain spaces. A variant is skipped if its output is newer than its
// line and its files; OUTPUT.d lists these files.
namespace {

namespace fs = std::filesystem;

std::string read_source(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Finds the files that shaders include, and records them.
class Includes final : public glslang::TShader::Includer {
 public:
  explicit Includes(const std::vector<fs::path>& folders) : folders_(folders) {}

  IncludeResult* includeLocal(const char* name, const char*, std::size_t) override {
    for (const fs::path& folder : folders_) {
      const fs::path file = folder / name;
      if (!fs::exists(file)) continue;
      read.push_back(file.string());
      auto text = std::make_unique<std::string>(read_source(file));
      const char* begin = text->data();
      const std::size_t length = text->size();
      return new IncludeResult(file.string(), begin, length, text.release());
    }
    return nullptr;
  }
  IncludeResult* includeSystem(const char* name, const char* from, std::size_t depth) override {
    return includeLocal(name, from, depth);
  }
  void releaseInclude(IncludeResult* result) override {
    if (result == nullptr) return;
    delete static_cast<std::string*>(result->userData);
    delete result;
  }

  std::vector<std::string> read;

 private:
  const std::vector<fs::path>& folders_;
};

struct Variant {
  std::string line, output, shader, target, defines;
};

bool up_to_date(const Variant& variant) {
  std::ifstream in(variant.output + ".d");
  std::string line;
  if (!std::getline(in, line) || line != variant.line || !fs::exists(variant.output)) return false;
  const auto made = fs::last_write_time(variant.output);
  while (std::getline(in, line)) {
    std::error_code gone;
    if (fs::last_write_time(line, gone) > made || gone) return false;
  }
  return true;
}

void compile(const Variant& variant, const std::vector<fs::path>& folders) {
  using namespace glslang;
  const bool newer = variant.target == "vulkan1.3";
  const std::string source = read_source(variant.shader);
  const char *text = source.c_str(), *name = variant.shader.c_str();
  const int length = static_cast<int>(source.size());
  TShader shader(EShLangCompute);
  shader.setStringsWithLengthsAndNames(&text, &length, &name, 1);
  shader.setPreamble(variant.defines.c_str());
  shader.setEnvInput(EShSourceGlsl, EShLangCompute, EShClientVulkan, 100);
  shader.setEnvClient(EShClientVulkan, newer ? EShTargetVulkan_1_3 : EShTargetVulkan_1_2);
  shader.setEnvTarget(EShTargetSpv, newer ? EShTargetSpv_1_6 : EShTargetSpv_1_5);
  Includes includes(folders);
  const auto messages = static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules);
  TProgram program;
  if (!shader.parse(GetDefaultResources(), 100, false, messages, includes))
    throw std::runtime_error(shader.getInfoLog());
  program.addShader(&shader);
  if (!program.link(messages)) throw std::runtime_error(program.getInfoLog());
  std::vector<unsigned int> words;
  GlslangToSpv(*program.getIntermediate(EShLangCompute), words);
  std::ofstream out(variant.output, std::ios::binary);
  out.write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(words.size() * sizeof words[0]));
  std::ofstream depends(variant.output + ".d");
  depends << variant.line << "\n" << variant.shader << "\n";
  std::sort(includes.read.begin(), includes.read.end());
  includes.read.erase(std::unique(includes.read.begin(), includes.read.end()), includes.read.end());
  for (const std::string& file : includes.read) depends << file << "\n";
  if (!out.flush() || !depends.flush()) throw std::runtime_error("cannot write " + variant.output);
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2) throw std::runtime_error("usage: compile_shaders LIST");
  std::vector<fs::path> folders;
  std::vector<Variant> variants;
  std::istringstream lines(read_source(arguments[1]));
  for (std::string line, word; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> word;
    if (word == "include") {
      words >> word;
      folders.push_back(word);
      continue;
    }
    Variant v{.line = line};
    words >> v.output >> v.shader >> v.target;
    while (words >> word) {
      if (const std::size_t at = word.find('='); at != std::string::npos) word[at] = ' ';
      v.defines += "#define " + word + "\n";
    }
    if (!up_to_date(v)) variants.push_back(v);
  }
  glslang::InitializeProcess();
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex saying;
  const auto work = [&] {
    for (std::size_t i = next++; i < variants.size(); i = next++) {
      try {
        compile(variants[i], folders);
      } catch (const std::exception& error) {
        failed = true;
        const std::scoped_lock alone(saying);
        std::fprintf(stderr, "%s as %s:\n%s\n", variants[i].shader.c_str(), variants[i].output.c_str(), error.what());
      }
    }
  };
  std::vector<std::thread> others(std::max(std::thread::hardware_concurrency(), 1u) - 1);
  for (std::thread& other : others) other = std::thread(work);
  work();
  for (std::thread& other : others) other.join();
  glslang::FinalizeProcess();
  return failed ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "compile_shaders: %s\n", error.what());
  return 1;
}
